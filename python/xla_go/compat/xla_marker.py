"""What `torch_xla.experimental.xla_marker` gives after `xla_go.compat.install()`: marks of composites; see xla_go.composite."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from xla_go.composite import attributes_text

_LIBRARY = torch.library.Library("xla", "FRAGMENT")
_LIBRARY.define("mark_tensor(Tensor x, str name, int pos, str id, bool is_input, Any? attr=None) -> Tensor")


def serialize_composite_attr(attr: Mapping[str, Any] | None) -> tuple[tuple[str, Any], ...] | None:
    """Attributes as `mark_tensor` takes them. ValueError for others than bools, numbers, texts and lists of one kind of numbers."""
    attributes_text(attr)
    return None if attr is None else tuple(attr.items())


def deserialize_composite_attr(attr: Any) -> dict[str, Any] | None:
    """What serialize_composite_attr was given."""
    return None if attr is None else dict(attr)


def _mark(x: torch.Tensor, name: str, pos: int, id: str, is_input: bool, attr: Any = None) -> torch.Tensor:
    return torch.ops.xla_go.mark(x, name, pos, id, is_input, "" if is_input else attributes_text(deserialize_composite_attr(attr)))


# The same on each device, with the gradients of xla_go::mark.
_LIBRARY.impl("mark_tensor", _mark, "CompositeExplicitAutograd")
_LIBRARY.impl("mark_tensor", _mark, "Autograd")
