"""DLPack for tensors on device xla, which torch's own C function refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import torch

from xla_go import _adapter, _runtime
from xla_go.client import _dlpack, element, upload
from xla_go.client.device import devices

# torch names its element types as numpy and ml_dtypes do.
_TORCH = {name: getattr(torch, dtype) for name, dtype in element.names().items() if hasattr(torch, dtype)}
_ELEMENTS = {dtype: name for name, dtype in _TORCH.items()}


def device_of(tensor: torch.Tensor) -> tuple[int, int]:
    """DLPack's type and number of a tensor's device; BufferError where DLPack has none."""
    return _dlpack.device_number(devices()[tensor.device.index or 0])


def _refuse(tensor: torch.Tensor) -> None:
    # What a capsule cannot say, in torch's own words.
    if tensor.requires_grad:
        raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
    if tensor.is_conj():
        raise BufferError("Can't export tensors with the conjugate bit set")
    if tensor.layout != torch.strided:
        raise BufferError("Can't export tensors with layout other than torch.strided")


def lend(
    tensor: torch.Tensor,
    on_cpu: Callable[[torch.Tensor], Any],
    stream: Any,
    max_version: tuple[int, int] | None,
    target: tuple[Any, int] | None,
    copy: bool | None,
) -> Any:
    """A capsule over the tensor's device memory as it is now, marked read-only. BLOCKING until that has been computed.

    on_cpu makes the capsule of a copy in host memory, where that is asked for.
    """
    _refuse(tensor)
    own = device_of(tensor)
    if target is not None and tuple(target) != own:
        if target[0] != _dlpack.CPU or copy is False:
            raise BufferError(f"__dlpack__(): expected dl_device {own}, where the tensor lies, got {tuple(target)}{' and copy=False' if copy is False else ''}")
        return on_cpu(tensor.cpu())
    if own[0] == _dlpack.CPU:
        if stream not in (None, -1):
            raise BufferError(f"__dlpack__(): expected stream None for a tensor in host memory, got {stream!r}")
        if copy:
            return on_cpu(tensor.cpu())
    elif copy:
        tensor = tensor.clone()
    name = _ELEMENTS.get(tensor.dtype)
    if name is None:
        raise BufferError(f"__dlpack__(): expected an element type that devices have, got {tensor.dtype}")
    if tensor.numel() == 0:
        with upload([], devices()[tensor.device.index or 0], "uint8") as nothing:
            reference = json.loads(_runtime.call("AcquireReference", nothing._handle))
        return _dlpack.capsule(reference, name, tuple(tensor.shape), tensor.stride(), own, max_version, _dlpack.READ_ONLY)
    tensor = tensor.resolve_neg()
    if _adapter.storage_id(tensor) == 0:
        tensor = tensor.clone()  # the runtime has not seen it: it holds nothing yet
    token = _runtime.call("LendTensorBegin", _adapter.storage_id(tensor))
    _runtime.wait_for_read(_adapter.loaded(), token)
    reference = json.loads(_runtime.call("LendTensor", token))
    offset = tensor.storage_offset() * tensor.element_size()
    return _dlpack.capsule(reference, name, tuple(tensor.shape), tensor.stride(), own, max_version, _dlpack.READ_ONLY, offset)


def from_dlpack(array: Any, device: torch.device | str | int | None = None, copy: bool | None = None) -> torch.Tensor:
    """An xla tensor over the memory of an array that speaks DLPack (numpy, torch on the CPU, JAX on the CPU).

    As `xla_go.client.from_dlpack`: without a copy where the device is the CPU, and the memory dense, row-major and at
    an address that 64 divides. The memory must not be written to while the tensor, or anything computed from it, may
    still read it; writing to the tensor gives it memory of its own and leaves the array as it is.

    device: an xla device, the current one by default. copy: True always copies; False raises BufferError where it
    cannot be done without. BLOCKING while it copies.
    """
    index = _index(device)
    names = devices()
    if index >= len(names):
        raise ValueError(f"from_dlpack(): expected an xla device below {len(names)}, got {index}")
    handle, name, shape = _dlpack.borrow(array, names[index], copy)
    dtype = _TORCH.get(name)
    if dtype is None:
        _runtime.native().close_data(handle)
        raise BufferError(f"from_dlpack(): expected an element type that torch has, got {name}")
    try:
        tensor = torch.empty(shape, dtype=dtype, device=torch.device("xla", index))
        if tensor.numel() == 0:
            _runtime.native().close_data(handle)
            return tensor
        tensor.zero_()  # now the runtime knows the storage
        _runtime.call("AdoptData", _adapter.storage_id(tensor), handle)
    except BaseException:
        _runtime.native().close_data(handle)
        raise
    return tensor


def _index(device: torch.device | str | int | None) -> int:
    if isinstance(device, int):
        return device
    index = None
    if device is not None:
        wanted = torch.device(device)
        if wanted.type != "xla":
            raise ValueError(f"from_dlpack(): expected an xla device, got {wanted}: use torch.from_dlpack")
        index = wanted.index
    return _adapter.loaded().current_device() if index is None else index
