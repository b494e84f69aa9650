"""Divides a graph into what runs on the device and what runs on the host."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.fx.passes.split_module import split_module
from torch.utils import _pytree as pytree

from xla_go._dynamo import config
from xla_go._dynamo.padded import padded
from xla_go._dynamo.program import Program

HOST, DEVICE, NEITHER = "host", "device", "neither"


def devices_of(value: Any) -> Iterator[torch.device]:
    """The devices of the tensors in a node's value."""
    for leaf in pytree.tree_leaves(value):
        if isinstance(leaf, torch.Tensor):
            yield leaf.device


def value_of(graph: torch.fx.GraphModule, node: torch.fx.Node) -> Any:
    """The (fake) value of a node; that of a constant is the constant."""
    if node.op == "get_attr":
        value: Any = graph
        for name in str(node.target).split("."):
            value = getattr(value, name)
        return value
    return node.meta.get("val")


def place(graph: torch.fx.GraphModule, node: torch.fx.Node) -> str:
    """Where a node runs. A transfer runs on the host; a factory of device tensors on the device."""
    made = {device.type for device in devices_of(value_of(graph, node))}
    taken = {device.type for operand in node.all_input_nodes for device in devices_of(value_of(graph, operand))}
    if not made and not taken:
        return NEITHER
    if "xla" in made and ("xla" in taken or not taken):
        return DEVICE
    if not made and "xla" in taken:
        return DEVICE
    return HOST


def device_of(graph: torch.fx.GraphModule) -> int | None:
    """The number of the first xla device that a graph's values are on, None where it has none."""
    for node in graph.graph.nodes:
        for device in devices_of(value_of(graph, node)):
            if device.type == "xla":
                return device.index or 0
    return None


def _is_write(node: torch.fx.Node) -> bool:
    schema = getattr(node.target, "_schema", None)
    return schema is not None and schema.is_mutable


def numbered(graph: torch.fx.GraphModule) -> dict[torch.fx.Node, int]:
    """The part that each node runs in: parts with even numbers run on the host, others on the device, in their order.

    What writes comes after everything before it, since that may read the old value.
    """
    part: dict[torch.fx.Node, int] = {}
    last = 0
    for node in graph.graph.nodes:
        if node.op in ("placeholder", "get_attr", "output"):
            continue
        number = max((part.get(operand, 0) for operand in node.all_input_nodes), default=0)
        if _is_write(node):
            number = max(number, last)
        where = place(graph, node)
        if node.target is operator.getitem:
            where = NEITHER  # of a tuple: beside what makes it
        if where == (HOST if number % 2 else DEVICE):
            number += 1
        part[node] = number
        last = max(last, number)
    return part


class _Part(torch.nn.Module):
    """A part on the device, in place of the module that the division made of it."""

    def __init__(self, graph: torch.fx.GraphModule, device: int, record: bool) -> None:
        super().__init__()
        (result,) = next(node for node in reversed(graph.graph.nodes) if node.op == "output").args
        self._single = not isinstance(result, (tuple, list))
        if self._single:
            output = next(node for node in reversed(graph.graph.nodes) if node.op == "output")
            output.args = ((result,),)
            graph.recompile()
        self._program = Program(graph, device, record=record)

    def forward(self, *arguments: Any) -> Any:
        results = self._program(list(arguments))
        return results[0] if self._single else tuple(results)


def compiled(graph: torch.fx.GraphModule, device: int, *, record: bool) -> Callable[[list[Any]], list[Any]]:
    """A function of the graph's arguments, a list, that gives the list of its results."""
    part = numbered(graph)
    if all(number == 1 for node, number in part.items() if place(graph, node) != NEITHER):
        program = Program(graph, device, record=record)
        return padded(graph, program) if record and config.pad_sizes else program
    divided = split_module(graph, None, part.__getitem__)  # type: ignore[arg-type]
    for name, module in list(divided.named_children()):
        if name.startswith("submod_") and int(name.removeprefix("submod_")) % 2:
            setattr(divided, name, _Part(module, device, record))

    def run(arguments: list[Any]) -> list[Any]:
        with torch.no_grad():
            return list(divided(*arguments))

    return run
