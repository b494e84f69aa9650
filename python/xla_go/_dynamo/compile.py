"""torch.compile(backend="xla_go"), and "openxla", the name that code for torch_xla uses."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.partitioners import default_partition
from torch.fx.passes.shape_prop import _extract_tensor_metadata

from xla_go import _device_module, _runtime
from xla_go._dynamo import program, segments

OPTIONS = {"record": True}


def compile(graph: torch.fx.GraphModule, inputs: Sequence[Any], *, mode: str | None = None, options: dict[str, Any] | None = None) -> Any:
    """The backend. `mode` is taken and changes nothing: XLA has one way to compile.

    options: record (True): whether a graph runs as a step of its own, replayed without being traced. Where it is false each
    call is traced and stays pending, so that it becomes part of one program with what comes before and after it.
    """
    chosen = dict(OPTIONS)
    for name, value in (options or {}).items():
        if name not in OPTIONS:
            raise ValueError(f"torch.compile(backend='xla_go'): expected options among {', '.join(OPTIONS)}, got {name!r}")
        chosen[name] = value

    def compiler(part: torch.fx.GraphModule, _: Sequence[Any]) -> Callable[[list[Any]], list[Any]]:
        return _boxed(_compiled(part, record=bool(chosen["record"])))

    return aot_autograd(fw_compiler=compiler, partition_fn=_partitioned, keep_inference_input_mutations=True)(graph, inputs)


def _partitioned(joint: torch.fx.GraphModule, inputs: Any, **options: Any) -> Any:
    """torch's default partition into forward and backward.

    It takes what has no metadata of a tensor for a tuple, and fails at the tensors that torch itself makes of Python's floats,
    as it does for changing sizes: they get theirs here.
    """
    for node in joint.graph.nodes:
        if node.op == "call_function" and "tensor_meta" not in node.meta and isinstance(node.meta.get("val"), torch.Tensor):
            node.meta["tensor_meta"] = _extract_tensor_metadata(node.meta["val"])
    return default_partition(joint, inputs, **options)


def _compiled(graph: torch.fx.GraphModule, *, record: bool) -> Callable[[list[Any]], list[Any]]:
    device = segments.device_of(graph)
    if device is None:
        if any(True for node in graph.graph.nodes if node.op == "call_function" for _ in segments.devices_of(node.meta.get("val"))):
            warnings.warn(
                "torch.compile(backend='xla_go'): a graph without tensors on device xla runs on the CPU, operator by operator; move the model and its inputs to device 'xla'",
                stacklevel=2,
            )
        return lambda arguments: list(graph(*arguments))
    function = segments.compiled(graph, device, record=record)
    called = False

    def counted(arguments: list[Any]) -> list[Any]:
        nonlocal called
        if not called:  # a backward that nobody asks for is not among them
            called = True
            _runtime.perform("AddToCounter", "DynamoExtractCompiledGraph", 1)
        return function(arguments)

    return counted


def _boxed(function: Callable[[list[Any]], list[Any]]) -> Callable[[list[Any]], list[Any]]:
    """The calling convention in which the callee lets go of its arguments."""

    def call(arguments: list[Any]) -> list[Any]:
        results = function(arguments)
        arguments.clear()
        return results

    call._boxed_call = True  # type: ignore[attr-defined]
    return call


def reset() -> None:
    """Lets go of all recordings, as torch._dynamo.reset() does of all graphs, and of the memory that becomes free by it."""
    program.clear_all()
    _device_module.empty_cache()
