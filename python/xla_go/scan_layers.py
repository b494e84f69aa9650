"""scan_layers: a stack of layers of one structure as one loop, which is compiled once however many there are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch._functorch.partitioners import default_partition

from xla_go.scan import scan

__all__ = ["scan_layers"]

# Of layers that were called pure: the function that runs one, by the ids of partitioner and first layer. Each keeps its
# layer, so that an id stays its own.
_ONE_LAYER_CACHE: dict[tuple[int, int], Callable[[Any, Any], tuple[Any, None]]] = {}


def scan_layers(
    layers: Iterable[torch.nn.Module], input_data: Any, partition_fn: Callable[..., Any] = default_partition, is_layer_pure: bool = False
) -> Any:
    """`for layer in layers: input_data = layer(input_data)` as one loop of the program; a tuple is given as several arguments.

    The layers have parameters and buffers of the same names and shapes, give what they take, on device xla, and are called as
    the first one is written. Gradients reach the parameters of each. They are put together for it, so the program needs their
    memory once more. Layers may not write to their buffers. partition_fn is that of `scan`; is_layer_pure says that the first
    layer traces to the same for inputs of the same types, so that it is traced once for these.

    Not blocking. ValueError where layers differ.
    """
    stack = list(layers)
    if not stack:
        return input_data
    parameters = [{**dict(layer.named_parameters()), **dict(layer.named_buffers())} for layer in stack]
    for number, own in enumerate(parameters[1:], 1):
        _compare(parameters[0], own, number)
    together = {name: torch.stack([own[name] for own in parameters]) for name in parameters[0]}
    one_layer = _one_layer(stack[0], id(partition_fn), is_layer_pure)
    carry, _ = scan(one_layer, input_data, together, partition_fn, is_layer_pure) if together else _without_state(stack, input_data)
    return carry


def _compare(first: Mapping[str, torch.Tensor], own: Mapping[str, torch.Tensor], number: int) -> None:
    if first.keys() != own.keys():
        raise ValueError(f"scan_layers(): mismatched keys: expected layers with parameters {sorted(first)}, got {sorted(own)} in layer {number}")
    for name, parameter in own.items():
        if parameter.shape != first[name].shape or parameter.dtype != first[name].dtype:
            raise ValueError(
                f"scan_layers(): Shape mismatch: expected {name} of {tuple(first[name].shape)} {first[name].dtype}, "
                f"got {tuple(parameter.shape)} {parameter.dtype} in layer {number}"
            )


def _one_layer(layer: torch.nn.Module, partitioner: int, pure: bool) -> Callable[[Any, Any], tuple[Any, None]]:
    def run(carry: Any, parameters: Mapping[str, torch.Tensor]) -> tuple[Any, None]:
        arguments = carry if isinstance(carry, tuple) else (carry,)
        return torch.func.functional_call(layer, dict(parameters), arguments), None

    return _ONE_LAYER_CACHE.setdefault((partitioner, id(layer)), run) if pure else run


def _without_state(stack: list[torch.nn.Module], data: Any) -> tuple[Any, None]:
    """Layers without parameters have no tensors to go over."""
    for layer in stack:
        data = layer(*data) if isinstance(data, tuple) else layer(data)
    return data, None
