"""Tensors as the runtime knows them: views of storages."""

from __future__ import annotations

import json
from typing import NamedTuple

import torch

from xla_go import _adapter, _runtime
from xla_go.client import element

_ELEMENTS = {getattr(torch, dtype): name for name, dtype in element.names().items() if hasattr(torch, dtype)}


class Sharding(NamedTuple):
    """How a tensor lies over the devices."""

    text: str  # "" where nobody divides it
    op_sharding: str  # a serialized OpSharding in base64
    value: str  # the same of what it holds now, which may be "{replicated}"; "" where that is not known
    tile: tuple[int, ...]  # dimensions of each device's memory, padding included


def element_of(tensor: torch.Tensor) -> str:
    """HLO's name of a tensor's element type; TypeError where a device has none."""
    name = _ELEMENTS.get(tensor.dtype)
    if name is None:
        raise TypeError(f"expected an element type that devices have, got {tensor.dtype}")
    return name


def storage_of(tensor: torch.Tensor) -> int:
    """The runtime's id of a tensor's storage, which gets contents if it has none."""
    if _adapter.storage_id(tensor) == 0:
        tensor.detach().zero_()  # torch.empty: the runtime has not seen it
    return _adapter.storage_id(tensor)


def view(tensor: torch.Tensor) -> str:
    """A tensor as the runtime's functions take it, once it is known how it lies. ValueError for one that is not on device xla,
    or has a lazy bit. BLOCKING while a program that makes a tensor is compiled; Ctrl-C breaks it."""
    if tensor.device.type != "xla":
        raise ValueError(f"expected a tensor on device xla, got one on {tensor.device}: move it there first")
    if tensor.is_conj() or tensor.is_neg():
        raise ValueError("expected a tensor without a lazy conjugate or negative: call resolve_conj() and resolve_neg()")
    _runtime.wait("ShardingsWaitBegin")
    return json.dumps(
        {
            "storage": storage_of(tensor), "element": element_of(tensor), "sizes": list(tensor.shape),
            "strides": list(tensor.stride()), "offset": tensor.storage_offset(),
        }
    )  # fmt: skip


def sharding(tensor: torch.Tensor) -> Sharding:
    """How a tensor lies over the devices."""
    if tensor.numel() == 0:
        return Sharding("", "", "", tuple(tensor.shape))
    described = json.loads(_runtime.call("TensorSharding", view(tensor)))
    return Sharding(described["text"], described["op_sharding"], described["value"], tuple(described["tile"]))
