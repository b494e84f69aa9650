"""scan: a function over the elements of tensors with a state, forward and backward each one loop of the program.

    carry, ys = scan(lambda carry, x: (carry + x, carry * x), init, xs)

Under torch_xla.experimental.scan's names.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._functorch.aot_autograd import aot_function, make_boxed_func
from torch._functorch.partitioners import default_partition
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from xla_go.loop import check_unwritten, scan_forward

__all__ = ["scan", "tree_flatten_none", "value_and_grad_partitioned"]

Tree = Any
Stage = Callable[..., Any]
Stages = tuple[Stage, Stage, Stage]

# Of functions that were called pure: what they were traced to, by the types of their arguments and by partitioner.
_SCAN_COMPUTATION_CACHE: weakref.WeakKeyDictionary[Callable[..., Any], dict[Any, Stages]] = weakref.WeakKeyDictionary()


def tree_flatten_none(tree: Tree) -> tuple[list[Any], Callable[[list[Any]], Tree]]:
    """The leaves of a tree but None, and the function that makes a tree with the same Nones of such leaves."""
    leaves, spec = pytree.tree_flatten(tree)
    kept = [leaf is not None for leaf in leaves]

    def unflatten(values: list[Any]) -> Tree:
        given = iter(values)
        return pytree.tree_unflatten([next(given) if keep else None for keep in kept], spec)

    return [leaf for leaf in leaves if leaf is not None], unflatten


class _NumberedDevices(TorchFunctionMode):
    """Gives "xla" the number of a device: tensors without values know it by its number alone."""

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self._device = device

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.device:
            return func(*args, **(kwargs or {}))
        named = {name: self._numbered(value) for name, value in (kwargs or {}).items()}
        return func(*map(self._numbered, args), **named)

    def _numbered(self, value: Any) -> Any:
        if isinstance(value, (str, torch.device)) and str(value) == "xla":
            return self._device
        return value


class _Graphs:
    """The graphs that AOTAutograd partitions a function into."""

    def __init__(self) -> None:
        self.forward: torch.fx.GraphModule | None = None
        self.backward: torch.fx.GraphModule | None = None

    def take_forward(self, graph: torch.fx.GraphModule, example: Any) -> Callable[..., Any]:
        self.forward = graph
        return make_boxed_func(graph)

    def take_backward(self, graph: torch.fx.GraphModule, example: Any) -> Callable[..., Any]:
        self.backward = graph
        return make_boxed_func(graph)


def value_and_grad_partitioned(
    fn: Callable[[Tree, Tree], tuple[Tree, Tree]], init: Tree, xs: Tree, partition_fn: Callable[..., Any] = default_partition
) -> Stages:
    """Traces `fn` on tensors without values, and partitions it into forward and backward: (forward, alias_input, backward).

    forward(carry, x) gives (new carry, (y, activations)) where activations lacks those that are tensors of x themselves;
    alias_input(activations, x) gives all of them, also for activations and xs of all elements; backward(gradient of the
    new carry, (gradient of y, all activations)) gives the gradients of carry and x. Gradients of what has none (integers)
    are zeros. No memory of the device is taken, and nothing is run.
    """
    mode = FakeTensorMode()

    def fake(tensor: torch.Tensor, sizes: torch.Size) -> torch.Tensor:
        copy = torch.empty(sizes, dtype=tensor.dtype, device=tensor.device)
        return copy.requires_grad_(copy.is_floating_point() or copy.is_complex())

    carry_leaves, unflatten_carry = tree_flatten_none(init)
    x_leaves, unflatten_x = tree_flatten_none(xs)
    carries = len(carry_leaves)
    structures: list[Any] = []

    def flat_fn(*leaves: torch.Tensor) -> tuple[torch.Tensor, ...]:
        new_carry, y = fn(unflatten_carry(list(leaves[:carries])), unflatten_x(list(leaves[carries:])))
        carry_out, carry_back = tree_flatten_none(new_carry)
        y_out, y_back = tree_flatten_none(y)
        structures[:] = [len(carry_out), carry_back, y_back]
        # Copies, so that no result is a view of an argument: AOTAutograd would leave those out of the graph.
        return tuple(one.clone() for one in [*carry_out, *y_out])

    graphs = _Graphs()
    with mode, torch.enable_grad():
        arguments = [fake(leaf, leaf.shape) for leaf in carry_leaves]
        arguments += [fake(leaf, leaf.shape[1:]) for leaf in x_leaves]
        traced = aot_function(
            flat_fn, graphs.take_forward, graphs.take_backward, partition_fn=partition_fn, inference_compiler=graphs.take_forward
        )
        with _NumberedDevices(arguments[0].device if arguments else torch.device("xla", 0)):
            outputs = list(traced(*arguments))
        check_unwritten("scan", arguments)
        differentiable = [one.requires_grad for one in outputs]
        if any(differentiable):
            roots = [one for one in outputs if one.requires_grad]
            torch.autograd.grad(roots, [one for one in arguments if one.requires_grad], [torch.ones_like(one) for one in roots], allow_unused=True)
    forward_graph, backward_graph = graphs.forward, graphs.backward
    assert forward_graph is not None
    new_carries, carry_back, y_back = structures
    if new_carries != carries:
        raise ValueError(f"scan(): expected fn to give a carry of {carries} tensors, got {new_carries}")
    results = len(outputs)
    types = [(tuple(one.shape), one.dtype) for one in arguments]
    own = {node: number for number, node in enumerate(node for node in forward_graph.graph.nodes if node.op == "placeholder")}
    saved = _returned(forward_graph)[results:]
    # Of each activation: which tensor of x it is, None for one that forward makes, or that is a carry.
    alias = [own[node] - carries if own.get(node, -1) >= carries else None for node in saved]

    def forward(carry: Tree, x: Tree) -> tuple[Tree, tuple[Tree, list[torch.Tensor]]]:
        leaves = tree_flatten_none(carry)[0] + tree_flatten_none(x)[0]
        values = list(forward_graph(*leaves))
        activations = [value for value, number in zip(values[results:], alias, strict=True) if number is None]
        return carry_back(values[:carries]), (y_back(values[carries:results]), activations)

    def alias_input(activations: list[torch.Tensor], xs: Tree) -> tuple[torch.Tensor, ...]:
        made, leaves = iter(activations), tree_flatten_none(xs)[0]
        return tuple(next(made) if number is None else leaves[number] for number in alias)

    def backward(carry_gradient: Tree, rest: tuple[Tree, Sequence[torch.Tensor]]) -> tuple[Tree, Tree]:
        y_gradient, activations = rest
        given = tree_flatten_none(carry_gradient)[0] + tree_flatten_none(y_gradient)[0]
        tangents = [one for one, wanted in zip(given, differentiable, strict=True) if wanted]
        gradients = list(backward_graph(*activations, *tangents)) if backward_graph is not None else [None] * len(types)
        device = given[0].device if given else torch.device("xla")
        whole = [
            torch.zeros(size, dtype=dtype, device=device) if gradient is None else gradient
            for gradient, (size, dtype) in zip(gradients, types, strict=True)
        ]
        return unflatten_carry(whole[:carries]), unflatten_x(whole[carries:])

    return forward, alias_input, backward


def _returned(graph: torch.fx.GraphModule) -> list[Any]:
    """The nodes that a graph returns."""
    (output,) = (node for node in graph.graph.nodes if node.op == "output")
    return list(output.args[0])


def scan(
    fn: Callable[[Tree, Tree], tuple[Tree, Tree]],
    init: Tree,
    xs: Tree,
    partition_fn: Callable[..., Any] = default_partition,
    is_fn_pure: bool = False,
) -> tuple[Tree, Tree]:
    """`carry, y = fn(carry, x)` over the elements of xs along their first dimension, as one loop: the last carry, and all y.

    init, xs and y are trees of tensors on device xla; carry keeps structure, sizes and dtypes. fn works on its arguments
    alone: it is traced, and gets the gradients of nothing else (give it weights in init or xs). It may draw random
    numbers, and may not write to its arguments. partition_fn says which values the backward pass keeps
    (functorch.compile.default_partition) and which it computes again (min_cut_rematerialization_partition). is_fn_pure says
    that fn traces to the same for arguments of the same types, so that it is traced once for these.

    Not blocking. ValueError where fn is none, or xs differ in length.
    """
    if not callable(fn):
        raise ValueError(f"scan(): expected fn to be a function, got {type(fn).__name__}")
    init_leaves, unflatten_carry = tree_flatten_none(init)
    x_leaves, _ = tree_flatten_none(xs)
    lengths = {leaf.shape[0] if leaf.dim() else None for leaf in x_leaves}
    if len(lengths) != 1 or None in lengths:
        raise ValueError(f"scan(): expected xs of one length along their first dimension, got {[tuple(leaf.shape) for leaf in x_leaves]}")
    stages = _stages(fn, init, xs, partition_fn, is_fn_pure)
    structure: list[Any] = []
    flat = _Scan.apply(stages, init, xs, structure, *init_leaves, *x_leaves)
    count, unflatten_y = structure
    return unflatten_carry(list(flat[:count])), unflatten_y(list(flat[count:]))


def _stages(fn: Callable[..., Any], init: Tree, xs: Tree, partition_fn: Callable[..., Any], pure: bool) -> Stages:
    if not pure:
        return value_and_grad_partitioned(fn, init, xs, partition_fn)
    leaves, spec = pytree.tree_flatten((init, xs))
    types = tuple(None if leaf is None else (tuple(leaf.shape), leaf.dtype, leaf.device) for leaf in leaves)
    known = _SCAN_COMPUTATION_CACHE.setdefault(fn, {})
    key = types, spec, partition_fn
    if key not in known:
        known[key] = value_and_grad_partitioned(fn, init, xs, partition_fn)
    return known[key]


def _loop(stage: Stage, init: Tree, xs: Tree, reverse: bool = False) -> tuple[Tree, Tree]:
    """scan_forward of a function of trees."""
    init_leaves, unflatten_carry = tree_flatten_none(init)
    x_leaves, unflatten_x = tree_flatten_none(xs)
    structure: list[Any] = []

    def flat(carry: list[torch.Tensor], x: list[torch.Tensor]) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        new_carry, y = stage(unflatten_carry(carry), unflatten_x(x))
        leaves, unflatten = tree_flatten_none(y)
        structure[:] = [unflatten]
        return tree_flatten_none(new_carry)[0], leaves

    last, ys = scan_forward(flat, init_leaves, x_leaves, x_leaves[0].shape[0], reverse)
    return unflatten_carry(last), structure[0](ys)


class _Scan(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, stages: Stages, init: Tree, xs: Tree, structure: list[Any], *leaves: torch.Tensor) -> tuple[torch.Tensor, ...]:
        forward, alias_input, backward = stages
        carries = len(tree_flatten_none(init)[0])
        unflatten_carry, unflatten_x = tree_flatten_none(init)[1], tree_flatten_none(xs)[1]
        given = unflatten_carry(list(leaves[:carries])), unflatten_x(list(leaves[carries:]))
        last, (ys, activations) = _loop(forward, *given)
        last_leaves, (y_leaves, unflatten_y) = tree_flatten_none(last)[0], tree_flatten_none(ys)
        structure[:] = [carries, unflatten_y]
        ctx.save_for_backward(*alias_input(activations, given[1]))
        ctx.backward_stage, ctx.carries = backward, carries
        ctx.unflatten_carry, ctx.unflatten_y = unflatten_carry, unflatten_y
        results = (*last_leaves, *y_leaves)
        ctx.mark_non_differentiable(*(one for one in results if not (one.is_floating_point() or one.is_complex())))
        return results

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[Any, ...]:
        carry = ctx.unflatten_carry(list(gradients[: ctx.carries]))
        ys = ctx.unflatten_y(list(gradients[ctx.carries :]))
        first, each = _loop(ctx.backward_stage, carry, (ys, list(ctx.saved_tensors)), reverse=True)
        found = tree_flatten_none(first)[0] + tree_flatten_none(each)[0]
        wanted = ctx.needs_input_grad[4:]
        return (None, None, None, None, *(one if need else None for one, need in zip(found, wanted, strict=True)))
