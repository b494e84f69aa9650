"""A graph for sizes that change: it runs on sizes that are padded to a few."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import torch

from xla_go._dynamo.padding import Analysis, Refused, expression, symbols_of
from xla_go._dynamo.program import Program

logger = logging.getLogger("xla_go")


def bucket(size: int) -> int:
    """The smallest power of two that is not below size."""
    return 1 << max(size - 1, 0).bit_length()


def padded(graph: torch.fx.GraphModule, program: Program) -> Callable[[list[Any]], list[Any]]:
    """The program itself where no size may be padded, else a function that pads those that may be."""
    values = [node.meta.get("val") for node in graph.graph.nodes if node.op == "placeholder"]
    sizes = [size for value in values if isinstance(value, torch.Tensor) for size in value.shape]
    found: dict[Any, Analysis] = {}
    for symbol in sorted(set().union(*map(symbols_of, sizes)), key=str):
        try:
            found[symbol] = Analysis(graph, symbol)
        except Refused as refusal:
            logger.info("torch.compile: size %s is not padded, each value of it needs a program: %s", symbol, refusal)
    if not found:
        return program
    try:
        return PaddedProgram(graph, program, found)
    except Refused as refusal:
        logger.info("torch.compile: sizes are not padded, each needs a program: %s", refusal)
        return program


class PaddedProgram:
    """Pads arguments with zeros at their ends to the next power of two, and gives results without what comes of that.

    Arguments that are padded go through host memory, which waits for their values: a padding program for each size would
    be one more compile each time.
    """

    def __init__(self, graph: torch.fx.GraphModule, program: Program, analyses: dict[Any, Analysis]) -> None:
        self._program = program
        values = [node.meta.get("val") for node in graph.graph.nodes if node.op == "placeholder"]
        (output,) = [node for node in graph.graph.nodes if node.op == "output"]
        self._symbols = list(analyses)
        self._values = values
        self._sources = [self._source(symbol) for symbol in self._symbols]
        self._numbers = [(i, self._evaluator(v)) for i, v in enumerate(values) if self._depends(v)]
        self._tensors = [
            (i, [(d, self._symbols.index(expression(s))) for d, s in enumerate(v.shape) if expression(s) in analyses])
            for i, v in enumerate(values)
            if isinstance(v, torch.Tensor) and any(expression(s) in analyses for s in v.shape)
        ]
        self._results: list[tuple[int, Any]] = []
        for i, result in enumerate(output.args[0]):  # type: ignore[arg-type, union-attr]
            value = result.meta.get("val") if isinstance(result, torch.fx.Node) else None
            if self._depends(value):
                self._results.append((i, self._evaluator(value)))
            elif isinstance(value, torch.Tensor) and any(map(self._depends, value.shape)):
                self._results.append((i, [(d, self._evaluator(s)) for d, s in enumerate(value.shape) if self._depends(s)]))

    def _source(self, symbol: Any) -> tuple[int, int]:
        """Where a symbol's value is found: a dimension of an argument."""
        for i, value in enumerate(self._values):
            if isinstance(value, torch.Tensor):
                for d, size in enumerate(value.shape):
                    if expression(size) == symbol:
                        return i, d
        raise Refused(f"no argument has size {symbol}")

    def _depends(self, value: Any) -> bool:
        return isinstance(value, torch.SymInt) and bool(symbols_of(value) & set(self._symbols))

    def _evaluator(self, value: Any) -> Callable[[list[int], list[Any]], int]:
        """Computes a size from the symbols' values, and from the arguments what other symbols are."""
        e = expression(value)
        if e in self._symbols:
            position = self._symbols.index(e)
            return lambda sizes, _: sizes[position]
        others = [(self._source(symbol), symbol) for symbol in e.free_symbols - set(self._symbols)]

        def evaluate(sizes: list[int], arguments: list[Any]) -> int:
            known = {symbol: arguments[i].shape[d] for (i, d), symbol in others}
            return int(e.subs({**known, **dict(zip(self._symbols, sizes, strict=True))}))

        return evaluate

    def __call__(self, arguments: list[Any]) -> list[Any]:
        sizes = [arguments[i].shape[d] for i, d in self._sources]
        buckets = [bucket(size) for size in sizes]
        if sizes == buckets:
            return self._program(arguments)
        before = list(arguments)
        for i, evaluate in self._numbers:
            arguments[i] = evaluate(buckets, before)
        for i, dimensions in self._tensors:
            arguments[i] = _pad(arguments[i], {d: buckets[k] for d, k in dimensions})
        results = self._program(arguments)
        for i, evaluators in self._results:
            if callable(evaluators):
                results[i] = evaluators(sizes, before)
            else:
                results[i] = _cut(results[i], {d: evaluate(sizes, before) for d, evaluate in evaluators})
        return results


def _pad(tensor: torch.Tensor, sizes: dict[int, int]) -> torch.Tensor:
    """The tensor with zeros at the ends of dimensions. BLOCKING until its value is there."""
    if all(tensor.shape[d] == size for d, size in sizes.items()):
        return tensor
    shape = [sizes.get(d, size) for d, size in enumerate(tensor.shape)]
    host = torch.zeros(shape, dtype=tensor.dtype)
    host[tuple(slice(0, size) for size in tensor.shape)] = tensor.detach().cpu()
    return host.to(tensor.device)


def _cut(tensor: torch.Tensor, sizes: dict[int, int]) -> torch.Tensor:
    """The first elements along dimensions, as a tensor over the same storage that is nobody's view."""
    shape = [sizes.get(d, size) for d, size in enumerate(tensor.shape)]
    result = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
    return result.set_(tensor.untyped_storage(), tensor.storage_offset(), shape, tensor.stride())
