"""Programs that something else has lowered to HLO, such as JAX, as functions of tensors: part of the step's program."""

from __future__ import annotations

import ctypes
import json
import weakref

import torch

from xla_go import _runtime, errors

__all__ = ["HloModule"]


class HloModule:
    """A serialized HloModuleProto, to be called with tensors on device xla.

    A call is traced as an operator is: its instructions become part of the program that `xla_go.sync` compiles, and all of the
    module is part of that program's key. parameters and results are the (dtype, sizes) of the tensors that a call takes and gives; of
    tuples those of their elements, in order. What the module says of donated inputs does not count. Calls have no gradients.

    Raises InvalidArgumentError for bytes that are no well-formed module, and for parameters of other kinds than arrays of fixed
    sizes; UnimplementedError for a module with collectives or transfers in it, and for element types that torch does not have.
    """

    def __init__(self, serialized: bytes) -> None:
        self.serialized = serialized
        memory = ctypes.create_string_buffer(serialized, max(len(serialized), 1))
        about = json.loads(_runtime.call("ModuleOpen", ctypes.addressof(memory), len(serialized)))
        self._number: int = about["module"]
        weakref.finalize(self, _close, self._number).atexit = False
        self.parameters = [_type(one["element"], one["dimensions"]) for one in about["parameters"]]
        self.results = [_type(one["element"], one["dimensions"]) for one in about["results"]]

    def __call__(self, *inputs: torch.Tensor) -> list[torch.Tensor]:
        """The module's results, on the device of the first input. Not blocking.

        Raises ValueError for inputs that are not on device xla, and for others than the module's parameters.
        """
        for tensor in inputs:
            if tensor.device.type != "xla":
                raise ValueError(f"HloModule(): expected tensors on device xla, got one on {tensor.device}")
        device = inputs[0].device if inputs else torch.device("xla")
        with torch.no_grad():
            results = [torch.empty(sizes, dtype=dtype, device=device) for dtype, sizes in self.results]
            torch.ops.xla_go.call_module(list(inputs), results, self._number)
        return results

    def text(self) -> str:
        """The module as HLO text."""
        memory = ctypes.create_string_buffer(self.serialized, len(self.serialized))
        return _runtime.take_bytes(_runtime.call("ModuleText", ctypes.addressof(memory), len(self.serialized))).decode()


def _type(element: str, dimensions: list[int]) -> tuple[torch.dtype, tuple[int, ...]]:
    from xla_go._torch_dlpack import _TORCH

    if element not in _TORCH:
        raise errors.UnimplementedError(f"HloModule(): expected arrays of types that torch has, got {element}")
    return _TORCH[element], tuple(dimensions)


def _close(number: int) -> None:
    if _runtime.usable():
        _runtime.call("ModuleClose", number)
