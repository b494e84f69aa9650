"""DLPack both ways: device memory lent as a capsule, and data over the memory that a capsule names."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from xla_go import _runtime
from xla_go.client import element
from xla_go.client.device import devices, platform

if TYPE_CHECKING:
    from xla_go.client.data import Data

# DLPack's types of device.
CPU, CUDA, CUDA_HOST, ROCM, ROCM_HOST = 1, 2, 3, 10, 11
_TYPES = {"CPU": CPU, "CUDA": CUDA, "ROCM": ROCM}
_ON_HOST = (CPU, CUDA_HOST, ROCM_HOST)

# Bits of the flags of a versioned capsule.
READ_ONLY, COPIED = 1, 2

# What the CPU client needs of memory that it uses as it is.
ALIGNMENT = 64


def device_number(name: str) -> tuple[int, int]:
    """DLPack's type and number of a device by its name."""
    type_ = _TYPES.get(platform())
    if type_ is None:
        raise BufferError(f"__dlpack_device__(): expected a device that DLPack knows ({', '.join(_TYPES)}), got {name}: read it with numpy()")
    return type_, 0 if type_ == CPU else devices().index(name)  # type: ignore[arg-type]


def device_of(data: Data) -> tuple[int, int]:
    if data.sharding is not None:
        raise BufferError(f"__dlpack_device__(): expected data on one device, got {data!r}: use one of its shards")
    return device_number(data.device)


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides of a dense row-major array, in elements."""
    strides = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def lend(data: Data, stream: int | None, max_version: tuple[int, int] | None, target: tuple[int, int] | None, copy: bool | None) -> Any:
    from xla_go.client.data import upload

    own = device_of(data)
    flags = READ_ONLY
    if target is not None and tuple(target) != own:
        if target[0] != CPU or copy is False:
            raise BufferError(f"__dlpack__(): expected dl_device {own}, where the data lies, got {tuple(target)}{' and copy=False' if copy is False else ''}")
        return data.numpy().__dlpack__(max_version=max_version)
    if own[0] == CPU and stream not in (None, -1):
        raise BufferError(f"__dlpack__(): expected stream None for data on the CPU, got {stream!r}")
    if copy:
        # The consumer is the only one who has the copy, and may write to it.
        data, flags = upload(data.numpy(), data.device), COPIED
    data.wait()
    reference = json.loads(_runtime.call("AcquireReference", data._handle))
    return capsule(reference, data.element, data.shape, row_major(data.shape), own, max_version, flags)


def capsule(
    reference: dict[str, Any],
    name: str,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    device: tuple[int, int],
    max_version: tuple[int, int] | None,
    flags: int,
    offset: int = 0,
) -> Any:
    """A capsule over lent memory, `offset` bytes into it; the reference is given back where none can be made."""
    try:
        if not reference["row_major"]:
            raise BufferError(f"__dlpack__(): expected device memory in row-major order, got another layout on {reference['device']}: read it with numpy()")
        versioned = max_version is not None and max_version[0] >= 1
        return _runtime.native().dlpack_lend(
            reference["reference"], reference["pointer"] + offset, *element.to_dlpack(name), shape, strides, *device, versioned, flags
        )
    except BaseException:
        _runtime.call("ReleaseReference", reference["reference"])
        raise


def _capsule_of(array: Any) -> Any:
    try:
        return array.__dlpack__(max_version=(1, 0))
    except TypeError:  # a producer from before DLPack had versions
        return array.__dlpack__()


def _obstacle(address: int, dense: bool) -> str | None:
    """Why memory on the host cannot be used as it is, None where it can."""
    if platform() != "CPU":
        return f"the device is {platform()}"
    if not dense:
        return "the memory is not dense and row-major"
    if address % ALIGNMENT:
        return f"the address is no multiple of {ALIGNMENT}"
    return None


def borrow(array: Any, device: str, copy: bool | None) -> tuple[int, str, tuple[int, ...]]:
    """The handle of data over an array's memory, or over a copy of it; element type and shape."""
    type_, _ = array.__dlpack_device__()
    if type_ not in _ON_HOST:
        raise BufferError(f"from_dlpack(): expected an array in host memory (DLPack device type {CPU}), got type {type_}: copy it to the host first")
    native = _runtime.native()
    record, versioned, address, code, bits, lanes, shape, strides, *_ = native.dlpack_take(_capsule_of(array))
    try:
        name = element.of_dlpack(code, bits, lanes)
        steps = row_major(shape) if strides is None else strides
        dense = all(size == 1 or step == want for size, step, want in zip(shape, steps, row_major(shape), strict=True))
        if math.prod(shape) == 0:
            handle = _runtime.call("Upload", 0, name, ",".join(map(str, shape)), "", device)
        else:
            obstacle = _obstacle(address, dense)
            if obstacle is None and not copy:
                try:
                    handle = native.dlpack_view(record, versioned, address, name, shape, str(device))
                except RuntimeError as error:
                    raise _runtime.translate(error) from None
                record = 0  # the data's now
                return handle, name, shape
            if copy is False:
                raise BufferError(f"from_dlpack(): cannot do without a copy: {obstacle}")
            in_bytes = "" if dense else ",".join(str(step * element.size(name)) for step in steps)
            handle = _runtime.call("Upload", address, name, ",".join(map(str, shape)), in_bytes, device)
        return handle, name, shape
    finally:
        if record:
            native.dlpack_close(record, versioned)
