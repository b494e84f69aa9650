"""Arrays between the host's kinds (numpy's, torch's where it is there) and the device."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from xla_go import _runtime, errors
from xla_go.client import data as device
from xla_go.client import element
from xla_go.client.data import Data
from xla_go.stablehlo._weights import Array

DATA, XLA, CPU, NUMPY = "Data", "tensor on device xla", "tensor", "array"


def _is_tensor(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def kind_of(values: Sequence[Any]) -> str:
    """The kind that outputs have for inputs of these kinds."""
    kinds = {DATA if isinstance(v, Data) else (XLA if v.device.type == "xla" else CPU) if _is_tensor(v) else NUMPY for v in values}
    return next((kind for kind in (DATA, XLA, CPU) if kind in kinds), NUMPY)


def upload(array: Array, name: str | None) -> Data:
    """Copies an array to a device. BLOCKING until it has been copied."""
    _runtime.initialize()
    address = array.data.__array_interface__["data"][0] if array.data.size else 0
    return device._own(_runtime.call("Upload", address, array.element, ",".join(map(str, array.dimensions)), "", name or ""))


def read(data: Data) -> Array:
    """Waits for a value and copies it to the host, whatever numpy knows of its type. BLOCKING."""
    import numpy as np

    raw = np.empty(data.nbytes, np.uint8)
    data.wait()
    _runtime.call("Read", data._handle, raw.__array_interface__["data"][0], raw.size)
    return Array(data.element, data.shape, raw)


def of_tensor(tensor: Any) -> Array:
    """A tensor of any device as an array, which may share its memory. BLOCKING until its value is there."""
    import torch

    name = element_of(tensor.dtype)
    host = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
    return Array(name, tuple(tensor.shape), host.reshape(-1).view(torch.uint8).numpy())


def element_of(dtype: Any) -> str:
    """The element type with torch's name; UnimplementedError where a device has none."""
    name = str(dtype).removeprefix("torch.")
    for kind, known in element.names().items():
        if known == name:
            return kind
    raise errors.UnimplementedError(f"export(): expected tensors of the types {', '.join(element.names().values())}, got {name}")


def _checked(value: Any, wanted: dict[str, Any], function: str) -> Any:
    """A value that is Data, a tensor or a numpy array of the element type and the dimensions that are wanted."""
    import numpy as np

    kind, dimensions = wanted["element"], tuple(wanted["dimensions"])
    if isinstance(value, Data):
        found = (value.element, value.shape)
    elif _is_tensor(value):
        found = (element_of(value.dtype), tuple(value.shape))
    else:
        if not hasattr(value, "dtype"):  # a number or a list has no type of its own
            value = np.asarray(value, element.to_numpy(kind, function))
        value = np.asarray(value)
        found = (element.of_numpy(value.dtype, function), value.shape)
    if found != (kind, dimensions):
        raise ValueError(f"{function}(): expected {wanted['kind']} {wanted['name']} {_shape((kind, dimensions))}, got {_shape(found)}")
    return value


def device_data(value: Any, argument: dict[str, Any], name: str | None, function: str) -> Data:
    """An input on the device: itself where it is Data."""
    value = _checked(value, argument, function)
    if isinstance(value, Data):
        return value
    if not _is_tensor(value):
        return device.upload(value, name)
    if value.device.type != "xla":
        return upload(of_tensor(value), name)
    return device.from_dlpack(value.detach(), name)


def of_host(value: Any, wanted: dict[str, Any], function: str) -> Array:
    """A copy of a value in host memory. BLOCKING."""
    import numpy as np

    value = _checked(value, wanted, function)
    if isinstance(value, Data):
        return read(value)
    if _is_tensor(value):
        return of_tensor(value.detach().clone())
    dense = np.array(value, order="C").reshape(-1)
    return Array(wanted["element"], tuple(wanted["dimensions"]), dense.view(np.uint8))


def _shape(of: tuple[str, tuple[int, ...]]) -> str:
    return f"{of[0]}[{','.join(map(str, of[1]))}]"


def converted(data: Data, kind: str) -> Any:
    """A result as an array of a kind. Closes the Data unless it is that itself."""
    if kind == DATA:
        return data
    with data:
        if kind == NUMPY:
            return data.numpy()
        if kind == XLA:
            import xla_go

            return xla_go.from_dlpack(data)
        return _tensor(read(data))


def empty(about: dict[str, Any], kind: str, name: str | None) -> Any:
    """An array of a kind that has no elements."""
    import numpy as np

    return converted(upload(Array(about["element"], tuple(about["dimensions"]), np.empty(0, np.uint8)), name), kind)


def _tensor(array: Array) -> Any:
    import torch

    dtype = getattr(torch, element.names()[array.element])
    if not array.data.size:
        return torch.empty(array.dimensions, dtype=dtype)
    return torch.from_numpy(array.data).view(dtype).reshape(array.dimensions)


def check_writable(target: Any, result: dict[str, Any], function: str) -> None:
    """ValueError for an input that the program writes to, where that cannot be written to."""
    import numpy as np

    if not _is_tensor(target) and not (isinstance(target, np.ndarray) and target.flags.writeable):
        raise ValueError(f"{function}(): expected a writable numpy array or a tensor as input {result['name']}, which the program writes to, got {type(target).__name__}")


def assign(target: Any, data: Data) -> None:
    """Writes a result over the input that the program changes. BLOCKING."""
    import numpy as np

    with data:
        if _is_tensor(target):
            target.detach().copy_(_tensor(read(data)))
        else:
            np.copyto(target, data.numpy())
