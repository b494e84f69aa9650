"""What `torch_xla._dynamo.dynamo_bridge` gives after `xla_go.compat.install()`: what of the bridge others use.

The backend itself is `torch.compile(backend="xla_go")`, or "openxla"; see docs/compile.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch

from xla_go._dynamo.registry import backend

__all__ = ["GraphInputMatcher", "NoneRemover", "extract_compiled_graph"]


def extract_compiled_graph(xla_model: torch.fx.GraphModule, xla_args: Sequence[Any]) -> Callable[..., Any]:
    """A function that runs a graph on the device, traced at its first call: the backend "openxla"."""
    return backend(xla_model, list(xla_args))


class NoneRemover:
    """Takes the Nones out of a list or tuple, and puts them back. Lists are changed in place, of tuples new ones are given."""

    def __init__(self) -> None:
        self.none_poslist: list[int] = []

    def remove_nones(self, value: Any) -> Any:
        self.none_poslist = [place for place, one in enumerate(value) if one is None]
        return self._into(value, [one for one in value if one is not None])

    def add_nones(self, value: Any) -> Any:
        items = list(value)
        for place in self.none_poslist:
            items.insert(place, None)
        return self._into(value, items)

    def _into(self, value: Any, items: list[Any]) -> Any:
        if isinstance(value, list):
            value[:] = items
            return value
        return tuple(items)


class GraphInputMatcher:
    """The device values of a graph, in its order: those of the call's arguments by their places, others as they were."""

    def __init__(
        self,
        tensor_id_to_arg_idx: Mapping[int, int],
        graph_input_tensor_ids: Sequence[int],
        graph_input_xla_values: Sequence[Any],
        xla_args_tensor_ids: Iterable[int],
    ) -> None:
        arguments = set(xla_args_tensor_ids)
        self.tensor_id_to_arg_idx, self.graph_input_tensor_ids = tensor_id_to_arg_idx, list(graph_input_tensor_ids)
        # An argument's value is the call's; keeping the first one would keep its memory.
        self.graph_input_xla_values = [
            None if number in arguments else value for number, value in zip(graph_input_tensor_ids, graph_input_xla_values, strict=True)
        ]

    def __call__(self, args: Sequence[Any]) -> list[Any]:
        return [
            args[self.tensor_id_to_arg_idx[number]] if value is None else value
            for number, value in zip(self.graph_input_tensor_ids, self.graph_input_xla_values, strict=True)
        ]
