"""Parts of a program that exported programs have as composites of StableHLO, which a compiler may know a better way for."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import Any

import torch

__all__ = ["Composite"]


class Composite:
    """The part of a model between tensors that are marked as its inputs and others that are marked as its outputs, one call each.

    name has a namespace, such as my_library.attention. `xla_go.stablehlo.export` and `xla_go.debug.graph(...).stablehlo` make of it an operation stablehlo.composite of that name, whose
    decomposition is what lies between: a function that takes the inputs in order, and gives the outputs. Numbers and constants go into
    the function; other tensors that it uses are operands after the inputs. What is run is the same as without marks. attributes are
    bools, numbers, texts and lists of one kind: whole numbers become i64, others f32. A part may lie in another one.

    Such an export raises InvalidArgumentError where outputs are missing or have a position twice.
    """

    def __init__(self, name: str, attributes: Mapping[str, Any] | None = None) -> None:
        self.name, self.id = name, uuid.uuid4().hex
        self._attributes = attributes_text(attributes)

    def mark_inputs(self, *tensors: torch.Tensor) -> Any:
        """The tensors, to be used in their stead: one, or a tuple of several. ValueError for anything else."""
        return self._marked("mark_inputs", tensors, True)

    def mark_outputs(self, *tensors: torch.Tensor) -> Any:
        """The tensors, to be used in their stead: one, or a tuple of several. ValueError for anything else."""
        return self._marked("mark_outputs", tensors, False)

    def _marked(self, function: str, tensors: tuple[Any, ...], is_input: bool) -> Any:
        for tensor in tensors:
            if not isinstance(tensor, torch.Tensor):
                raise ValueError(f"{function}(): expected tensors, got {type(tensor).__name__}")
        text = "" if is_input else self._attributes
        marked = tuple(torch.ops.xla_go.mark(tensor, self.name, position, self.id, is_input, text) for position, tensor in enumerate(tensors))
        return marked[0] if len(marked) == 1 else marked


def attributes_text(attributes: Mapping[str, Any] | None) -> str:
    """Attributes of a composite as the operator takes them. ValueError for those that it does not take."""
    for name, value in (attributes or {}).items():
        kinds = {type(one) for one in value} if isinstance(value, (list, tuple)) else {type(value)}
        taken = {bool, int, float} if isinstance(value, (list, tuple)) else {bool, int, float, str}
        if not isinstance(name, str) or len(kinds) != 1 or not kinds <= taken:
            raise ValueError(f"attributes of a composite: expected names with bools, numbers, texts or lists of one kind of numbers, got {name!r}: {value!r}")
    return json.dumps(dict(attributes)) if attributes else ""


def _register() -> None:
    from xla_go import _adapter

    _adapter.load()
    # On other devices, and where torch.export follows a model, it is a copy.
    torch.library.impl("xla_go::mark", "CompositeExplicitAutograd", lambda self, name, position, id, is_input, attributes: self.clone())
    torch.library.register_autograd("xla_go::mark", lambda context, gradient: (gradient, None, None, None, None, None))


_register()
