"""Functions that are traced once: later calls are one operator of the step each, whatever is in them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.autograd.function import once_differentiable
from torch.utils import _pytree as pytree

from xla_go import _adapter, _graph, _runtime, _step, debug
from xla_go._torch_dlpack import _TORCH
from xla_go.hlo_module import HloModule
from xla_go.loop import check_unwritten, placeholders_like

__all__ = ["PureFunction"]


class PureFunction:
    """`function`, traced once for each kind of arguments, and called as one module after that, forward and backward.

    A kind is the tensors' sizes, dtypes, devices and whether they require gradients, and all else among the arguments by its value.
    What the function does besides computing its result from its arguments happens once: it may not read a tensor's value, nor write
    to an argument, which raise FailedPreconditionError. Tensors that it uses from outside stay as they were. Its backward
    computes anew what it needs of the forward, which XLA finds to be the same where both are of one step; it has none of its own. Positions and
    classes out of range are not told of. In eager mode, and without tensors on device xla, the function is simply called.

    Random numbers are those of the device's generator at each call. With `seeded`, calls take a keyword rng_seed (an int),
    which alone says what they are; TypeError without it.

    Raises ValueError for a function that uses a tensor from outside which requires a gradient: that would be lost; and
    UnimplementedError for one with collectives.
    """

    def __init__(self, function: Callable[..., Any], *, seeded: bool = False) -> None:
        self._function, self._seeded = function, seeded
        self._known: dict[Any, _Traced] = {}

    @property
    def programs(self) -> list[HloModule]:
        """The modules that were lowered so far, forward and backward ones."""
        return [one.module for traced in self._known.values() for one in (traced.forward, traced.backward) if one is not None]

    def __call__(self, *args: Any, rng_seed: int | None = None, **kwargs: Any) -> Any:
        """What the function gives. Not blocking, but for the first call of a kind, which may transfer constants."""
        if self._seeded != (rng_seed is not None):
            raise TypeError(f"PureFunction(): expected {'a' if self._seeded else 'no'} keyword rng_seed, got {rng_seed!r}")
        leaves, spec = pytree.tree_flatten((args, kwargs))
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        device = next((one.device for one in tensors if one.device.type == "xla"), None)
        if device is None or _step.is_eager_mode():
            return self._function(*args, **kwargs)
        tensors = [one.to(device) if one.dim() == 0 else one for one in tensors]
        state = _Generator(device)
        key = _kind(leaves, tensors, spec)
        traced = self._known.get(key)
        if traced is None:
            traced = self._known[key] = _trace(self._function, leaves, tensors, spec, state)
        if rng_seed is not None:
            state.put(rng_seed % 2**64, 0)
        drawn = [torch.ops.xla_go.generator_state(tensors[0], traced.drawn)] if traced.random else []
        if rng_seed is not None:
            state.restore()
        if traced.backward is None:
            results: Sequence[torch.Tensor] = traced.forward(tensors, drawn)
        else:
            results = _Call.apply(traced, drawn, *tensors)
        return traced.result(results)


def _kind(leaves: Sequence[Any], tensors: Sequence[torch.Tensor], spec: Any) -> Any:
    described = tuple((one.shape, one.dtype, one.device, one.requires_grad) for one in tensors)
    others = tuple(None if isinstance(leaf, torch.Tensor) else (type(leaf), leaf) for leaf in leaves)
    modes = torch.is_grad_enabled(), torch.get_default_dtype(), torch.is_autocast_enabled("xla"), torch.get_autocast_dtype("xla")
    return described, others, spec, modes


class _Generator:
    """The state of a device's random generator, to be put back."""

    def __init__(self, device: torch.device) -> None:
        self._device, self._adapter = device.index or 0, _adapter.load()
        self.seed, self.offset = self._adapter.get_rng_state(self._device)

    def put(self, seed: int, offset: int) -> None:
        self._adapter.set_rng_state(self._device, seed, offset)

    def drawn(self) -> int:
        return int(self._adapter.get_rng_state(self._device)[1]) - self.offset

    def restore(self) -> None:
        self.put(self.seed, self.offset)


class _Program:
    """A traced program: its module, and the values that it takes besides its inputs."""

    def __init__(self, name: str, outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor], state: _Generator) -> None:
        device = inputs[0].device
        with torch.no_grad():  # a result is a storage of its own, dense and row-major
            results = [torch.empty(one.shape, dtype=one.dtype, device=device).copy_(one) for one in outputs]
        storages = _graph.storages_of(name, results)
        seed = state.seed - 2**64 if state.seed >= 2**63 else state.seed
        about = json.loads(_runtime.call("FunctionModule", device.index or 0, storages, _graph.storages_of(name, inputs), name, seed, state.offset))
        self.module = HloModule(_runtime.take_bytes(about["module"]))
        self.random: bool = about["random"]
        # torch's own memory of these is never used: each storage gets the value that the program takes.
        self._captured = [torch.empty(one["dimensions"], dtype=_TORCH[one["element"]], device=device) for one in about["captured"]]
        with torch.no_grad():
            for one in self._captured:
                one.zero_()
        _runtime.call("ShareParameters", device.index or 0, storages, ",".join(str(_adapter.storage_id(one)) for one in self._captured))

    def __call__(self, inputs: Sequence[torch.Tensor], drawn: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        return self.module(*inputs, *self._captured, *(drawn if self.random else ()))


@dataclass
class _Traced:
    forward: _Program
    backward: _Program | None
    drawn: int  # by how much a call moves the random generator on
    leaves: list[Any]  # of the result, with None for tensors
    places: list[int]  # of the tensors among them
    spec: Any
    differentiable: list[bool]  # of the result's tensors
    reached: list[bool]  # which inputs have a gradient

    @property
    def random(self) -> bool:
        return self.forward.random or (self.backward is not None and self.backward.random)

    def result(self, tensors: Sequence[torch.Tensor]) -> Any:
        leaves = list(self.leaves)
        for place, tensor in zip(self.places, tensors, strict=True):
            leaves[place] = tensor
        return pytree.tree_unflatten(leaves, self.spec)


class _Call(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, traced: _Traced, drawn: list[torch.Tensor], *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ctx.traced, ctx.drawn = traced, drawn
        ctx.save_for_backward(*tensors)
        results = traced.forward(tensors, drawn)
        ctx.mark_non_differentiable(*(result for result, has in zip(results, traced.differentiable, strict=True) if not has))
        return tuple(results)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *cotangents: torch.Tensor) -> tuple[Any, ...]:
        traced = ctx.traced
        given = [one for one, has in zip(cotangents, traced.differentiable, strict=True) if has]
        gradients = iter(traced.backward([*ctx.saved_tensors, *given], ctx.drawn))
        return None, None, *(next(gradients) if reached else None for reached in traced.reached)


def _trace(function: Callable[..., Any], leaves: list[Any], tensors: Sequence[torch.Tensor], spec: Any, state: _Generator) -> _Traced:
    inputs = placeholders_like(tensors)
    for placeholder, tensor in zip(inputs, tensors, strict=True):
        if torch.is_grad_enabled():
            placeholder.requires_grad_(tensor.requires_grad)
    given = iter(inputs)
    args, kwargs = pytree.tree_unflatten([next(given) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves], spec)
    name = getattr(function, "__name__", "function")
    recording = debug.record_stacks(True)  # lines and scopes go into the module: this is the only time that the function runs
    try:
        result_leaves, result_spec = pytree.tree_flatten(function(*args, **kwargs))
        check_unwritten("PureFunction", inputs)
        places = [place for place, leaf in enumerate(result_leaves) if isinstance(leaf, torch.Tensor)]
        outputs = [result_leaves[place] for place in places]
        for output in outputs:
            if output.device != tensors[0].device and output.device.type != "xla":
                raise ValueError(f"PureFunction(): expected a function that gives tensors on device xla, got one on {output.device}")
        _refuse_outside(outputs, inputs)
        forward = _Program(name, outputs, inputs, state)
        differentiable = [output.requires_grad for output in outputs]
        backward, reached = None, [False] * len(inputs)
        if any(differentiable):
            backward, reached = _backward(name, outputs, inputs, state)
        drawn = state.drawn()
    finally:
        debug.record_stacks(recording)
        state.restore()
    constants = [None if isinstance(leaf, torch.Tensor) else leaf for leaf in result_leaves]
    return _Traced(forward, backward, drawn, constants, places, result_spec, differentiable, reached)


def _backward(name: str, outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor], state: _Generator) -> tuple[_Program, list[bool]]:
    """The program of the gradients, from the inputs and the outputs' gradients; and which inputs have one."""
    sources = [output for output in outputs if output.requires_grad]
    cotangents = placeholders_like(sources)
    wanted = [one for one in inputs if one.requires_grad]
    found = torch.autograd.grad(sources, wanted, cotangents, allow_unused=True)
    by_input = dict(zip(map(id, wanted), found, strict=True))
    gradients = [by_input.get(id(one)) for one in inputs]
    program = _Program(f"{name}_backward", [one for one in gradients if one is not None], [*inputs, *cotangents], state)
    return program, [one is not None for one in gradients]


def _refuse_outside(outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor]) -> None:
    """ValueError where a gradient would go to a tensor that is no input."""
    ours = {id(one) for one in inputs}
    pending, seen = [output.grad_fn for output in outputs if output.grad_fn is not None], set()
    strangers = [output for output in outputs if output.requires_grad and output.grad_fn is None and id(output) not in ours]
    while pending:
        node = pending.pop()
        if node in seen:
            continue
        seen.add(node)
        variable = getattr(node, "variable", None)
        if variable is not None and id(variable) not in ours:
            strangers.append(variable)
        pending += [following for following, _ in node.next_functions if following is not None]
    if strangers:
        raise ValueError(
            f"PureFunction(): expected a function of its arguments, got one that uses a tensor of shape {tuple(strangers[0].shape)} from outside which requires a gradient: give it as an argument"
        )
