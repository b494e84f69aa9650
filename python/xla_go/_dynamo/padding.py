"""Which sizes of a graph may be padded: a proof, operator by operator, that what is padded reaches nothing that is not.

A dimension is a product of factors. Along a size that is followed each operator here treats its elements apart: an element of
a result depends on those elements of the operands that stand at the same place. What no rule knows is refused.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import sympy
import torch

# The factors of a dimension, outermost first; one of them may be the followed symbol. Of size 1: none.
Dimension = tuple[Any, ...]
Layout = tuple[Dimension, ...]

aten = torch.ops.aten

SAME = {aten.clone, aten.alias, aten.detach, aten.contiguous, aten.lift_fresh_copy, aten.fill, aten.zeros_like, aten.ones_like, aten.full_like, aten._to_copy}
VIEWS = {aten.view, aten._unsafe_view, aten.reshape, aten.unsqueeze, aten.squeeze}
REDUCTIONS = {aten.sum, aten.mean, aten.amax, aten.amin, aten.argmax, aten.argmin, aten.var, aten.var_mean, aten.std, aten.any, aten.all, aten.prod, aten.logsumexp, aten.max, aten.min}
ALONG = {aten._softmax, aten._safe_softmax, aten._log_softmax, aten.softmax, aten.log_softmax, aten.cumsum, aten.cumprod, aten.sort, aten.flip}
SPATIAL = {aten.max_pool2d_with_indices, aten.avg_pool2d, aten._adaptive_avg_pool2d, aten.upsample_nearest2d, aten.upsample_bilinear2d}
FACTORIES = {aten.new_zeros, aten.new_ones, aten.new_full, aten.new_empty, aten.full, aten.zeros, aten.ones, aten.empty, aten.arange, aten.scalar_tensor}
# Those of pointwise operators that draw random numbers: other sizes, other numbers.
RANDOM = torch.Tag.nondeterministic_seeded


class Refused(Exception):
    """What is in the way, in words."""


def expression(size: Any) -> Any:
    """A size as sympy has it, or an int."""
    return _plain_int(size.node.expr) if isinstance(size, torch.SymInt) else size


def _plain_int(e: Any) -> Any:
    return int(e) if isinstance(e, sympy.Integer) else e


def symbols_of(size: Any) -> set[Any]:
    return set(getattr(expression(size), "free_symbols", ()))


def _quotient(e: Any, factor: Any) -> Any:
    """e without a factor that it has; None where that is not plain to see."""
    if isinstance(e, int) and isinstance(factor, int):
        return e // factor if e % factor == 0 else None
    quotient = sympy.sympify(e) / factor
    return _plain_int(quotient) if sympy.fraction(quotient)[1] == 1 else None


class Analysis:
    """Follows one symbol through a graph. `results` has the layout of each tensor that the graph gives, by position."""

    def __init__(self, graph: torch.fx.GraphModule, symbol: Any) -> None:
        self._symbol = symbol
        self._layouts: dict[torch.fx.Node, Any] = {}
        self.results: dict[int, Layout] = {}
        for node in graph.graph.nodes:
            if node.op == "placeholder":
                value = node.meta.get("val")
                if isinstance(value, torch.Tensor):
                    self._layouts[node] = tuple(map(self._own, value.shape))
            elif node.op == "get_attr":
                continue
            elif node.op == "output":
                self._output(node)
            else:
                self._visit(node)

    def _own(self, size: Any) -> Dimension:
        """The layout of a dimension of an argument."""
        e = expression(size)
        if self._symbol in symbols_of(size) and e != self._symbol:
            raise Refused(f"an argument of size {e}")
        return () if e == 1 else (e,)

    def _has(self, dimension: Dimension) -> bool:
        return any(factor == self._symbol for factor in dimension)

    def _follows(self, layout: Layout | None) -> bool:
        return layout is not None and any(map(self._has, layout))

    def _layout(self, node: Any) -> Layout:
        found = self._layouts.get(node)
        if found is None:
            value = node.meta.get("val") if isinstance(node, torch.fx.Node) else None
            if not isinstance(value, torch.Tensor) and node.op != "get_attr":
                raise Refused("an operand that is no tensor")
            shape = value.shape if isinstance(value, torch.Tensor) else ()
            return tuple(() if expression(s) == 1 else (expression(s),) for s in shape)
        if isinstance(found, list):
            raise Refused("several results at once")
        layout: Layout = found
        return layout

    def _output(self, node: torch.fx.Node) -> None:
        results = node.args[0]
        assert isinstance(results, (tuple, list))
        for i, result in enumerate(results):
            if isinstance(result, torch.fx.Node) and isinstance(result.meta.get("val"), torch.Tensor):
                layout = self._layout(result)
                if any(self._has(d) and d[0] != self._symbol for d in layout):
                    raise Refused("a result in which it is not the outermost factor of its dimension")
                self.results[i] = layout

    def _visit(self, node: torch.fx.Node) -> None:
        value = node.meta.get("val")
        if not isinstance(value, (torch.Tensor, tuple, list)):
            return  # sizes: those that stand elsewhere than as sizes are found where they are used
        if node.target is operator.getitem:
            made = self._layouts.get(node.args[0])  # type: ignore[call-overload]
            if isinstance(made, list):
                self._layouts[node] = made[node.args[1]]  # type: ignore[index]
            return
        followed = [n for n in node.all_input_nodes if self._is_followed(n)]
        sized = [n for n in node.all_input_nodes if self._symbol in symbols_of(n.meta.get("val"))]
        if not followed and not sized:
            return
        target = node.target
        packet = getattr(target, "overloadpacket", target)
        try:
            layouts = self._rule(packet, node)
        except (Refused, IndexError, KeyError, TypeError, ValueError) as error:
            raise Refused(f"{packet}: {error}" if isinstance(error, Refused) else str(packet)) from None
        values = [value] if isinstance(value, torch.Tensor) else list(value)
        if len(layouts) != len(values):
            raise Refused(str(packet))
        for layout, one in zip(layouts, values, strict=True):
            self._check(packet, layout, one)
        self._layouts[node] = layouts[0] if isinstance(value, torch.Tensor) else list(layouts)

    def _is_followed(self, node: torch.fx.Node) -> bool:
        found = self._layouts.get(node)
        if isinstance(found, list):
            return any(map(self._follows, found))
        return self._follows(found)

    def _check(self, packet: Any, layout: Layout, value: torch.Tensor) -> None:
        """The rule's result has the shape that torch gives."""
        if len(layout) != value.dim():
            raise Refused(str(packet))
        for dimension, size in zip(layout, value.shape, strict=True):
            product: Any = 1
            for factor in dimension:
                product = product * factor
            if sympy.expand(product - expression(size)) != 0:
                raise Refused(str(packet))

    # ---- rules: the layouts of a node's results ----

    def _rule(self, packet: Any, node: torch.fx.Node) -> list[Layout]:
        arguments = _named(node)
        value = node.meta["val"]
        tags = getattr(node.target, "tags", ())
        if RANDOM in tags:
            raise Refused("random numbers differ with the size")
        if packet in FACTORIES:
            if any(self._symbol in symbols_of(v.meta.get("val")) for name, v in arguments.items() if name not in ("self", "size", "end") and isinstance(v, torch.fx.Node)):
                raise Refused("the size is a number among its operands")
            return [self._regrouped((self._factors(value.shape),), value.shape)]
        if any(isinstance(v, torch.fx.Node) and not isinstance(v.meta.get("val"), torch.Tensor) and self._symbol in symbols_of(v.meta.get("val")) for v in _numbers(node, packet)):
            raise Refused("the size is a number among its operands")
        if getattr(getattr(node.target, "_schema", None), "is_mutable", False):
            raise Refused("it writes to an argument")
        if packet in SAME:
            return [self._layout(node.args[0])]
        if packet in VIEWS:
            layout = self._layout(node.args[0])
            return [self._regrouped(layout, value.shape)]
        if torch.Tag.pointwise in tags:
            return [self._broadcast([n for n in node.all_input_nodes if isinstance(n.meta.get("val"), torch.Tensor)], value.dim())]
        rule: Callable[[torch.fx.Node, dict[str, Any]], list[Layout]] | None = {
            aten.t: self._transposed,
            aten.transpose: self._transposed,
            aten.permute: self._transposed,
            aten.expand: self._expanded,
            aten.mm: self._product,
            aten.bmm: self._product,
            aten.addmm: self._product,
            aten.baddbmm: self._product,
            aten.native_layer_norm: self._layer_norm,
            aten.embedding: self._embedding,
            aten.convolution: self._of_batch,
            aten._native_batch_norm_legit_no_training: self._of_batch,
            aten.select: self._without,
            aten.slice: self._sliced,
            aten.cat: self._joined,
            aten.split: self._divided,
            aten.split_with_sizes: self._divided,
            aten.unbind: self._divided,
            aten.topk: self._along,
        }.get(packet)
        if packet in REDUCTIONS:
            rule = self._reduced
        elif packet in ALONG:
            rule = self._along
        elif packet in SPATIAL:
            rule = self._spatial
        if rule is None:
            raise Refused("no rule")
        return rule(node, arguments)

    def _factors(self, shape: Sequence[Any]) -> Dimension:
        """The factors of all dimensions of a shape, each of which must be a multiple of the symbol or free of it."""
        factors: list[Any] = []
        for size in shape:
            e = expression(size)
            if self._symbol in symbols_of(size):
                factors.append(self._symbol)
                e = self._coefficient(e)
            factors.append(e)
        return tuple(f for f in factors if f != 1)

    def _coefficient(self, e: Any) -> Any:
        rest = _quotient(e, self._symbol)
        if rest is None or self._symbol in getattr(rest, "free_symbols", ()):
            raise Refused(f"a size of {e}")
        return rest

    def _regrouped(self, layout: Sequence[Dimension], shape: Sequence[Any]) -> Layout:
        """The same elements in other dimensions."""
        rest = [factor for dimension in layout for factor in dimension]
        made = []
        for size in shape:
            e = expression(size)
            wants = self._symbol in symbols_of(size)
            if wants:
                e = self._coefficient(e)
            taken: list[Any] = []
            while e != 1 or wants:
                factor = rest.pop(0)
                if factor == self._symbol:
                    if not wants:
                        raise Refused("it is mixed with another dimension")
                    wants = False
                elif (rest_of_it := _quotient(e, factor)) is not None:
                    e = rest_of_it
                elif isinstance(e, int) and isinstance(factor, int) and factor % e == 0 and not wants:
                    rest.insert(0, factor // e)
                    factor, e = e, 1
                else:
                    raise Refused("it is mixed with another dimension")
                taken.append(factor)
            made.append(tuple(taken))
        if rest:
            raise Refused("it is mixed with another dimension")
        return tuple(made)

    def _broadcast(self, operands: Sequence[torch.fx.Node], rank: int) -> Layout:
        made: list[Dimension] = [()] * rank
        for node in operands:
            layout = self._layout(node)
            for i, dimension in enumerate(layout, rank - len(layout)):
                if dimension and made[i] and made[i] != dimension:
                    if self._has(made[i]) or self._has(dimension):
                        raise Refused("dimensions that are made otherwise meet")
                    continue
                made[i] = made[i] or dimension
        return tuple(made)

    def _plain(self, layout: Layout, dims: Any) -> list[int]:
        """Dimensions along which it may not be; all where none are given."""
        rank = max(len(layout), 1)
        if dims is None or dims == []:
            chosen = list(range(len(layout)))
        else:
            chosen = [d % rank for d in (dims if isinstance(dims, (list, tuple)) else [dims])]
        if any(self._has(layout[d]) for d in chosen if layout):
            raise Refused("elements along the size come together")
        return chosen

    def _transposed(self, node: torch.fx.Node, named: dict[str, Any]) -> list[Layout]:
        layout = self._layout(node.args[0])
        order = list(range(len(layout)))
        if "dims" in named:
            order = [d % len(layout) for d in named["dims"]]
        elif "dim0" in named:
            a, b = named["dim0"] % len(layout), named["dim1"] % len(layout)
            order[a], order[b] = b, a
        else:
            order.reverse()
        return [tuple(layout[i] for i in order)]

    def _expanded(self, node: torch.fx.Node, named: dict[str, Any]) -> list[Layout]:
        layout, shape = self._layout(node.args[0]), node.meta["val"].shape
        layout = ((),) * (len(shape) - len(layout)) + layout
        return [tuple(d or self._factors([size]) for d, size in zip(layout, shape, strict=True))]

    def _product(self, node: torch.fx.Node, named: dict[str, Any]) -> list[Layout]:
        *_, a, b = [self._layout(n) for n in node.args if isinstance(n, torch.fx.Node)]
        if self._has(a[-1]) or self._has(b[-2]):
            raise Refused("it sums along the size")
        made = (*a[:-1], b[-1])
        if len(a) == 3 and a[0] != b[0] and (self._has(a[0]) or self._has(b[0])):
            raise Refused("dimensions that are made otherwise meet")
        if len(node.all_input_nodes) > 2 or node.target.overloadpacket in (aten.addmm, aten.baddbmm):  # type: ignore[union-attr]
            added = self._layout(node.args[0])
            for i, dimension in enumerate(added, len(made) - len(added)):
                if dimension and dimension != made[i] and (self._has(dimension) or self._has(made[i])):
                    raise Refused("dimensions that are made otherwise meet")
        return [made]

    def _layer_norm(self, node: torch.fx.Node, named: dict[str, Any]) -> list[Layout]:
        layout = self._layout(node.args[0])
        count = len(named["normalized_shape"])
        self._plain(layout, list(range(len(layout) - count, len(layout))))
        statistics = (*layout[:-count], *[()] * count)
        return [layout, statistics, statistics]

    def _embedding(self, node: torch.fx.Node, named: dict[str, Any]) -> list[Layout]:
        weight, indices = self._layout(node.args[0]), self._layout(node.args[1])
        self._plain(weight, None)
        return [(*indices, weight[1])]

    def _of_batch(self, node: torch.fx.Node, named: dict[str, Any]) -> list[Layout]:
        """The size is the batch, and no other operand has it."""
        layout = self._layout(node.args[0])
        self._plain(layout, list(range(1, len(layout))))
        if any(self._is_followed(n) for n in node.all_input_nodes if n is not node.args[0]):
            raise Refused("the size is in a weight")
        value = node.meta["val"]
        first = value if isinstance(value, torch.Tensor) else value[0]
        made: Layout = (layout[0], *(self._factors([s]) for s in first.shape[1:]))
        return [made] if isinstance(value, torch.Tensor) else [made, *(tuple(self._factors([s]) for s in v.shape) for v in value[1:])]

    def _spatial(self, node: torch.fx.Node, named: dict[str, Any]) -> list[Layout]:
        layout = self._layout(node.args[0])
        self._plain(layout, [-1, -2])
        value = node.meta["val"]
        values = [value] if isinstance(value, torch.Tensor) else value
        return [(*layout[:-2], *(self._factors([s]) for s in v.shape[-2:])) for v in values]

    def _without(self, node: torch.fx.Node, named: dict[str, Any]) -> list[Layout]:
        layout = self._layout(node.args[0])
        (dim,) = self._plain(layout, named["dim"])
        return [(*layout[:dim], *layout[dim + 1 :])]

    def _sliced(self, node: torch.fx.Node, named: dict[str, Any]) -> list[Layout]:
        layout = self._layout(node.args[0])
        dim = named.get("dim", 0) % len(layout)
        if self._has(layout[dim]) and named.get("start") in (None, 0) and named.get("end") in (None, 2**63 - 1) and named.get("step", 1) == 1:
            return [layout]
        self._plain(layout, dim)
        return [(*layout[:dim], self._factors([node.meta["val"].shape[dim]]), *layout[dim + 1 :])]

    def _joined(self, node: torch.fx.Node, named: dict[str, Any]) -> list[Layout]:
        layouts = [self._layout(n) for n in node.args[0]]  # type: ignore[union-attr]
        dim = named.get("dim", 0) % len(layouts[0])
        for layout in layouts:
            self._plain(layout, dim)
            if any(a != b for i, (a, b) in enumerate(zip(layout, layouts[0], strict=True)) if i != dim):
                raise Refused("dimensions that are made otherwise meet")
        return [(*layouts[0][:dim], self._factors([node.meta["val"].shape[dim]]), *layouts[0][dim + 1 :])]

    def _divided(self, node: torch.fx.Node, named: dict[str, Any]) -> list[Layout]:
        layout = self._layout(node.args[0])
        (dim,) = self._plain(layout, named.get("dim", 0))
        keeps = node.target.overloadpacket is not aten.unbind  # type: ignore[union-attr]
        return [(*layout[:dim], *([self._factors([v.shape[dim]])] if keeps else []), *layout[dim + 1 :]) for v in node.meta["val"]]

    def _reduced(self, node: torch.fx.Node, named: dict[str, Any]) -> list[Layout]:
        layout = self._layout(node.args[0])
        dims = self._plain(layout, named.get("dim"))
        keep = bool(named.get("keepdim", False))
        made = tuple(() if i in dims else d for i, d in enumerate(layout) if keep or i not in dims)
        value = node.meta["val"]
        return [made] * (1 if isinstance(value, torch.Tensor) else len(value))

    def _along(self, node: torch.fx.Node, named: dict[str, Any]) -> list[Layout]:
        """Of a dimension's elements another number may come out."""
        layout = self._layout(node.args[0])
        dims = self._plain(layout, named.get("dims", named.get("dim", -1)))
        value = node.meta["val"]
        values = [value] if isinstance(value, torch.Tensor) else value
        return [tuple(self._factors([v.shape[i]]) if i in dims else d for i, d in enumerate(layout)) for v in values]


def _named(node: torch.fx.Node) -> dict[str, Any]:
    """The arguments of a node by their names in the schema."""
    schema = getattr(node.target, "_schema", None)
    names = [a.name for a in schema.arguments] if schema is not None else []
    return {**dict(zip(names, node.args, strict=False)), **node.kwargs}


def _numbers(node: torch.fx.Node, packet: Any) -> list[Any]:
    """The operands of a node but for those that are sizes."""
    if packet in VIEWS or packet is aten.expand:
        return []
    found: list[Any] = []
    for argument in (*node.args, *node.kwargs.values()):
        found += argument if isinstance(argument, (list, tuple)) else [argument]
    return found
