"""Data: arrays in device memory."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, NoReturn

from xla_go import _runtime, errors
from xla_go.client import _dlpack, _ready, element
from xla_go.client.device import Device, default_device

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Data", "from_dlpack", "live", "placeholder", "upload", "wrap_shards"]


class _About(NamedTuple):
    """What does not change during a Data's life."""

    element: str
    shape: tuple[int, ...]
    nbytes: int
    device: Device
    sharding: bytes | None


class Data:
    """An array in device memory, or one that is still being computed.

    It holds the memory until `close`, the end of a `with` block, or the last reference. Memory that was lent out
    through DLPack lives on until it is given back.
    """

    __slots__ = ("__weakref__", "_about", "_handle")

    # 0 once closed. The extension's `execute` reads and sets it, and its own `__del__` gives it back.
    _handle: int
    _about: _About  # unset until it is asked for
    _close_native: ClassVar[Any] = None  # set with the first one

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def close(self) -> None:
        """Gives the memory up. Idempotent. Queued runs that read it keep it as long as they need it."""
        handle, self._handle = self._handle, 0
        self._close_native(handle)

    def __enter__(self) -> Data:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Data cannot be copied or pickled: use numpy(), or copy_to_device")

    def _described(self) -> _About:
        try:
            return self._about
        except AttributeError:
            info = json.loads(_runtime.call("DataInfo", self._handle))
        sharding = None if info["sharding"] is None else base64.b64decode(info["sharding"])
        self._about = _About(info["element"], tuple(info["dimensions"]), info["bytes"], Device(info["device"]), sharding)
        return self._about

    @property
    def shape(self) -> tuple[int, ...]:
        """Elements per dimension; of sharded data those of the whole array."""
        return self._described().shape

    @property
    def element(self) -> str:
        """The element type as HLO spells it, for example "f32"."""
        return self._described().element

    @property
    def dtype(self) -> np.dtype[Any]:
        """numpy's type of the elements; TypeError where numpy has none (see `numpy`)."""
        return element.to_numpy(self.element, "dtype")

    @property
    def nbytes(self) -> int:
        """Bytes of the whole array, dense."""
        return self._described().nbytes

    @property
    def device(self) -> Device:
        """The device it lies on, "SPMD:0" for sharded data."""
        return self._described().device

    @property
    def sharding(self) -> bytes | None:
        """A serialized OpSharding (see `xla_go.client.sharding`); None where it is not sharded."""
        return self._described().sharding

    @property
    def has_value(self) -> bool:
        """False for a placeholder that nothing was assigned to, and for what was donated."""
        return json.loads(_runtime.call("DataInfo", self._handle))["has_value"]

    @property
    def shards(self) -> list[Data]:
        """The parts of sharded data, one for each local device, which share its memory; else itself as the only one."""
        handles = _runtime.call("Shards", self._handle)
        return [_own(int(handle)) for handle in handles.split(",")] if handles else [self]

    def is_ready(self) -> bool:
        """Whether it can be read without waiting."""
        return _runtime.call("IsReady", self._handle)

    def wait(self, timeout: float | None = None) -> None:
        """Waits until it has been computed and raises the error if that failed. BLOCKING.

        Raises DeadlineExceededError where that takes more than `timeout` seconds; the computation goes on.
        """
        if not _runtime.wait("ReadBegin", self._handle, timeout=timeout):
            raise errors.DeadlineExceededError(f"wait(): not computed within {timeout} s: {self!r}")

    def on_ready(self, callback: Callable[[errors.XlaError | None], object]) -> None:
        """Has callback(None), or callback(error), called once when it has been computed or has failed. Not blocking.

        Callbacks run one after the other on a thread of their own, in the order in which values become ready. The
        interpreter's end waits for them.
        """
        _ready.on_ready(self._handle, callback)

    def numpy(self) -> np.ndarray[Any, Any]:
        """Waits for it and copies it to a new numpy array; of sharded data the whole array. BLOCKING.

        bfloat16 and 8-bit floats become types of the package ml_dtypes; TypeError where that is not installed.
        """
        import numpy as np

        about = self._described()
        array = np.empty(about.shape, dtype=element.to_numpy(about.element, "numpy"))
        self.wait()
        _runtime.call("Read", self._handle, array.__array_interface__["data"][0], about.nbytes)
        return array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        if copy is False:
            raise ValueError("reading a Data as a numpy array copies it: use numpy.from_dlpack for a view of its memory")
        array = self.numpy()
        return array if dtype is None else array.astype(dtype, copy=False)

    def copy_to_device(self, device: str) -> Data:
        """Copies it to another device, not by way of the host where the plugin can. Not blocking."""
        handle = _runtime.call("CopyToDevice", self._handle, device)
        return self if handle == self._handle else _own(handle)

    def reshard(self, sharding: bytes) -> Data:
        """Sharded data laid out by another sharding; itself where it lies so already. Not blocking.

        The first use of a pair of shardings compiles a program.
        """
        handle = _runtime.call("Reshard", self._handle, base64.b64encode(sharding).decode())
        return self if handle == self._handle else _own(handle)

    def assign(self, source: Data) -> None:
        """Has a placeholder share the memory of `source`, which is of the same shape."""
        _runtime.call("Assign", self._handle, source._handle)

    def pointer(self) -> int:
        """The address of its device memory, good as long as the Data is open. BLOCKING until it has been computed."""
        self.wait()
        return _runtime.call("DataPointer", self._handle)

    def __dlpack_device__(self) -> tuple[int, int]:
        """DLPack's type and number of its device; BufferError where DLPack has none."""
        return _dlpack.device_of(self)

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Lends its memory as a DLPack capsule, without a copy unless one is asked for. BLOCKING until it has been computed.

        Memory that is lent is marked read-only and is never donated. numpy keeps to the mark; torch and other consumers
        that do not must not be used to write, since a program may be reading. The value is complete when the capsule is
        made, so any `stream` of the consumer sees it.

        Raises BufferError where the memory cannot be lent: sharded data, a layout that is not row-major, a device that
        DLPack does not know.
        """
        return _dlpack.lend(self, stream, max_version, dl_device, copy)

    def __repr__(self) -> str:
        if not self._handle:
            return "<Data closed>"
        about = self._described()
        return f"<Data {about.element}{list(about.shape)} on {about.device}>"


def link() -> ModuleType:
    """The extension module, and with it what closes a Data: to be called before there is any."""
    native = _runtime.native()
    if Data._close_native is None:
        native.own_data_type(Data)
        Data._close_native = native.close_data
    return native


def _own(handle: int) -> Data:
    """The Data that closes a handle."""
    link()
    return Data(handle)


def _strides(array: np.ndarray[Any, Any]) -> str:
    return "" if array.flags.c_contiguous else ",".join(map(str, array.strides))


def upload(array: Any, device: str | None = None, dtype: Any = None) -> Data:
    """Copies an array to a device, the default one where none is named. The array may be changed at once.

    array: whatever numpy.asarray takes: a numpy array of any strides, read-only or not, a buffer, a number, a list.
    dtype: numpy's type to convert to first; without it Python's floats are float64 and integers int64, as in numpy.
        bfloat16 and 8-bit floats are those of the package ml_dtypes. Bytes in the other byte order are turned round.

    Raises TypeError for a type that devices do not have. BLOCKING until the array has been copied.
    """
    import numpy as np

    _runtime.initialize()
    host = np.asarray(array, dtype)
    name = element.of_numpy(host.dtype, "upload")
    if not host.dtype.isnative:
        host = host.astype(host.dtype.newbyteorder("="))
    address = host.__array_interface__["data"][0] if host.size else 0
    return _own(_runtime.call("Upload", address, name, ",".join(map(str, host.shape)), _strides(host), device or ""))


def wrap_shards(shards: Iterable[Data], shape: Iterable[int], sharding: bytes) -> Data:
    """Joins one Data per local device, in the order of `devices()`, into one sharded array. Memory is shared. Not blocking.

    shape: elements per dimension of the whole array.
    sharding: a serialized OpSharding (see `xla_go.client.sharding`).
    """
    _runtime.initialize()
    parts = list(shards)
    if not parts:
        raise ValueError("wrap_shards(): expected one shard for each local device, got none")
    request = {
        "element": parts[0].element, "dimensions": list(shape),
        "sharding": base64.b64encode(sharding).decode(), "shards": [part._handle for part in parts],
    }  # fmt: skip
    return _own(_runtime.call("WrapShards", json.dumps(request)))


def placeholder(shape: Iterable[int], dtype: Any, device: str | None = None, sharding: bytes | None = None) -> Data:
    """Data without a value, to be filled by `Data.assign`. Reading it before that is a FailedPreconditionError. Not blocking.

    shape: elements per dimension; dtype: numpy's type, or its name.
    """
    import numpy as np

    _runtime.initialize()
    name = element.of_numpy(np.dtype(dtype), "placeholder")
    annotation = "-" if sharding is None else base64.b64encode(sharding).decode()
    return _own(_runtime.call("Placeholder", name, ",".join(map(str, shape)), device or "", annotation))


def from_dlpack(array: Any, device: str | None = None, copy: bool | None = None) -> Data:
    """Data over the memory of an array that speaks DLPack (numpy, torch on the CPU, JAX on the CPU).

    Without a copy where the device is the CPU, and the memory dense, row-major and at an address that 64 divides; the
    array's owner then keeps the memory until the Data is gone, and it must not be written to meanwhile. Else the memory
    is copied, as by `upload`.

    copy: True always copies; False raises BufferError where it cannot be done without. BLOCKING while it copies.
    """
    target = device or default_device()
    handle, _, _ = _dlpack.borrow(array, target, copy)
    return _own(handle)


def live() -> tuple[int, int]:
    """Numbers of Data and Computation objects that are open. Tensors are not among them."""
    if not _runtime.loaded():
        return 0, 0
    return _runtime.call("LiveData"), _runtime.call("LiveComputations")
