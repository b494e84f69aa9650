"""The runtime's contract itself, without tensors: compile a program, upload arrays, run it, read the results.

    computation = xla_go.client.compile(hlo_module_bytes)
    (result,) = computation(xla_go.client.upload(numpy_array))
    print(result.numpy())

Arrays are anything with numpy's array interface. Device memory is freed with `close`, at the end of a `with` block,
or with the last reference.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from xla_go import _runtime

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Computation", "Data", "compile", "devices", "live", "upload"]

# HLO's names of numpy's types. bfloat16 and the 8-bit floats have no numpy type of their own.
_ELEMENTS = {
    "bool": "pred", "int8": "s8", "int16": "s16", "int32": "s32", "int64": "s64",
    "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64",
    "float16": "f16", "float32": "f32", "float64": "f64", "complex64": "c64", "complex128": "c128",
}  # fmt: skip
_NUMPY = {element: name for name, element in _ELEMENTS.items()}


_execute: Callable[[int, tuple[Data, ...], type[Data], str | None, tuple[int, ...]], list[Data]]


def _start() -> None:
    """Starts the runtime, and keeps the functions of it whose time counts."""
    global _execute
    _runtime.initialize()
    native = _runtime.native()
    _execute = native.execute
    Data._native_close = native.close_data


class _Handle:
    """A numbered object of the runtime, closed explicitly or with the last reference."""

    __slots__ = ("__weakref__", "_handle")

    _handle: int  # 0 once closed

    def __init__(self, handle: int) -> None:
        self._handle = handle


class Data(_Handle):
    """An array in device memory, or one that is still being computed."""

    __slots__ = ()

    _native_close: ClassVar[Any]  # set when the runtime is loaded, before there is any Data

    def close(self) -> None:
        """Frees it. Idempotent."""
        handle, self._handle = self._handle, 0
        self._native_close(handle)

    def __del__(self) -> None:
        self._native_close(self._handle)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __enter__(self) -> Data:
        return self

    def _info(self) -> dict[str, Any]:
        return json.loads(_runtime.call("DataInfo", self._handle))

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self._info()["dimensions"])

    @property
    def element(self) -> str:
        """The element type as HLO spells it, for example "f32"."""
        return self._info()["element"]

    @property
    def device(self) -> str:
        return self._info()["device"]

    def is_ready(self) -> bool:
        """Whether it can be read without waiting."""
        return _runtime.call("IsReady", self._handle)

    def wait(self) -> None:
        """Waits until it has been computed and raises the error if that failed. BLOCKING; other threads run, Ctrl-C breaks it."""
        _runtime.wait("ReadBegin", self._handle)

    def numpy(self) -> np.ndarray[Any, Any]:
        """Waits for it and copies it to the host. BLOCKING, as `wait`."""
        import numpy as np

        info = self._info()
        name = _NUMPY.get(info["element"])
        if name is None:
            raise TypeError(f"numpy(): expected an element type that numpy has, got {info['element']}")
        self.wait()
        array = np.empty(info["dimensions"], dtype=name)
        _runtime.call("Read", self._handle, array.ctypes.data, array.nbytes)
        return array

    def __repr__(self) -> str:
        if not self._handle:
            return "<Data closed>"
        info = self._info()
        return f"<Data {info['element']}{info['dimensions']} on {info['device']}>"


class Computation(_Handle):
    """A compiled program. Call it with one Data per parameter; it gives one Data per result."""

    __slots__ = ()

    def close(self) -> None:
        """Frees it; runs in flight finish first. Idempotent."""
        handle, self._handle = self._handle, 0
        if handle and _runtime.usable():
            _runtime.call("CloseComputation", handle)

    def __del__(self) -> None:
        self.close()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __enter__(self) -> Computation:
        return self

    def info(self) -> dict[str, Any]:
        """name, devices, parameters and results (shapes in HLO's notation)."""
        return json.loads(_runtime.call("ComputationInfo", self._handle))

    def __call__(self, *arguments: Data, device: str | None = None) -> list[Data]:
        """Queues a run and gives its results, which may not be computed yet. Not blocking."""
        try:
            return _execute(self._handle, arguments, Data, device, ())
        except RuntimeError as error:
            raise _runtime.translate(error) from None


def devices() -> list[str]:
    """Names of this process's devices, for example ["CPU:0"]. Starts the runtime."""
    _start()
    return _runtime.lines(_runtime.call("LocalDevices"))


def upload(array: Any, device: str = "") -> Data:
    """Copies an array to a device, the first one by default. The array may be changed at once."""
    import numpy as np

    _start()
    dense = np.asarray(array, order="C")
    element = _ELEMENTS.get(dense.dtype.name)
    if element is None:
        raise TypeError(f"upload(): expected one of numpy's types {', '.join(_ELEMENTS)}, got {dense.dtype}")
    dimensions = ",".join(map(str, dense.shape))
    return Data(_runtime.call("Upload", dense.ctypes.data, element, dimensions, device))


def compile(program: bytes | str, format: Literal["hlo", "mlir"] = "hlo", name: str = "program", device: str = "") -> Computation:
    """Compiles a serialized HloModuleProto ("hlo") or StableHLO text or bytecode ("mlir") for one device. BLOCKING."""
    import numpy as np

    _start()
    raw = program.encode() if isinstance(program, str) else program
    if not raw:
        raise ValueError("compile(): expected a program, got no bytes")
    view = np.frombuffer(raw, dtype=np.uint8)
    return Computation(_runtime.call("Compile", view.ctypes.data, len(raw), format, name, device))


def live() -> tuple[int, int]:
    """Numbers of Data and Computation objects that are open. Tensors are not among them."""
    if not _runtime.loaded():
        return 0, 0
    return _runtime.call("LiveData"), _runtime.call("LiveComputations")
