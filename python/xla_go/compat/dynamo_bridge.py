"""What `torch_xla._dynamo.dynamo_bridge` gives after `xla_go.compat.install()`: what of the bridge others use.

The backend itself is `torch.compile(backend="xla_go")`, or "openxla"; see docs/compile.md.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from xla_go import metrics
from xla_go._dynamo.registry import backend

__all__ = ["GraphInputMatcher", "NoneRemover", "UnsupportedNodesCollector", "extract_compiled_graph"]


def extract_compiled_graph(xla_model: torch.fx.GraphModule, xla_args: Sequence[Any]) -> Callable[..., Any]:
    """A function that runs a graph on the device, traced at its first call: the backend "openxla".

    A graph that gives one tensor, and no tuple, gives one.
    """
    (output,) = (node for node in xla_model.graph.nodes if node.op == "output")
    if isinstance(output.args[0], (tuple, list)):
        return backend(xla_model, list(xla_args))
    model = copy.copy(xla_model)
    model.graph = copy.deepcopy(xla_model.graph)
    (output,) = (node for node in model.graph.nodes if node.op == "output")
    output.args = ((output.args[0],),)
    model.recompile()
    compiled = backend(model, list(xla_args))
    return lambda *arguments: compiled(*arguments)[0]


def _on_device(value: Any) -> bool:
    """Whether all tensors in a value are on device xla."""
    return all(leaf.device.type == "xla" for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor))


class UnsupportedNodesCollector(torch.fx.Interpreter):
    """Runs a graph and collects the nodes that take or give tensors of the CPU, or run there for want of an implementation."""

    def __init__(self, module: torch.fx.GraphModule) -> None:
        super().__init__(module)
        self._unsupported_nodes: list[torch.fx.Node] = []

    def run_node(self, n: torch.fx.Node) -> Any:
        before = _fallbacks()
        result = super().run_node(n)
        if before != _fallbacks() or not _on_device((result, self.fetch_args_kwargs_from_env(n))):
            self._unsupported_nodes.append(n)
        return result

    def get_unsupported_nodes(self) -> list[torch.fx.Node]:
        return self._unsupported_nodes


def _fallbacks() -> dict[str, int | None]:
    return {name: metrics.counter_value(name) for name in metrics.executed_fallback_ops()}


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
