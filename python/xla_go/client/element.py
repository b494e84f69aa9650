"""Element types: HLO's names, numpy's types and DLPack's numbers."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

# HLO's names of numpy's types.
_OF_NUMPY = {
    "bool": "pred", "int8": "s8", "int16": "s16", "int32": "s32", "int64": "s64",
    "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64",
    "float16": "f16", "float32": "f32", "float64": "f64", "complex64": "c64", "complex128": "c128",
}  # fmt: skip
# Those of the types that the package ml_dtypes adds to numpy.
_OF_ML_DTYPES = {
    "bfloat16": "bf16", "float8_e5m2": "f8e5m2", "float8_e4m3fn": "f8e4m3fn",
    "float8_e5m2fnuz": "f8e5m2fnuz", "float8_e4m3fnuz": "f8e4m3fnuz",
}  # fmt: skip
_NUMPY_NAMES = {element: name for name, element in _OF_NUMPY.items()}
_ML_DTYPES_NAMES = {element: name for name, element in _OF_ML_DTYPES.items()}

# (code, bits) in DLPack.
_DLPACK = {
    "pred": (6, 8), "s8": (0, 8), "s16": (0, 16), "s32": (0, 32), "s64": (0, 64),
    "u8": (1, 8), "u16": (1, 16), "u32": (1, 32), "u64": (1, 64),
    "f16": (2, 16), "f32": (2, 32), "f64": (2, 64), "bf16": (4, 16), "c64": (5, 64), "c128": (5, 128),
    "f8e4m3fn": (10, 8), "f8e4m3fnuz": (11, 8), "f8e5m2": (12, 8), "f8e5m2fnuz": (13, 8),
}  # fmt: skip
_OF_DLPACK = {numbers: element for element, numbers in _DLPACK.items()}


def names() -> dict[str, str]:
    """Names of the element types in numpy, or in ml_dtypes, by HLO's names."""
    return {**_NUMPY_NAMES, **_ML_DTYPES_NAMES}


def of_numpy(dtype: np.dtype[Any], function: str) -> str:
    """HLO's name of an array's type; TypeError where a device has no such type."""
    element = _OF_NUMPY.get(dtype.name) or _OF_ML_DTYPES.get(dtype.name)
    # A type of the right name may be another package's, with other bytes.
    if element is None or (dtype.name in _OF_ML_DTYPES and dtype.type.__module__ != "ml_dtypes"):
        raise TypeError(f"{function}(): expected one of the types {', '.join([*_OF_NUMPY, *_OF_ML_DTYPES])}, got {dtype}")
    return element


def to_numpy(element: str, function: str) -> np.dtype[Any]:
    """numpy's type of an element type."""
    import numpy as np

    if element in _NUMPY_NAMES:
        return np.dtype(_NUMPY_NAMES[element])
    name = _ML_DTYPES_NAMES.get(element)
    if name is None:
        raise TypeError(f"{function}(): expected an element type that numpy has, got {element}")
    try:
        return np.dtype(getattr(importlib.import_module("ml_dtypes"), name))
    except ImportError:
        raise TypeError(f"{function}(): {element} is {name} in numpy, a type that the package ml_dtypes adds: pip install ml_dtypes") from None


def known(element: str) -> bool:
    """Whether HLO's name is that of a type that arrays have."""
    return element in _DLPACK


def size(element: str) -> int:
    """Bytes of one element."""
    return _DLPACK[element][1] // 8


def to_dlpack(element: str) -> tuple[int, int]:
    """DLPack's type code and bits."""
    return _DLPACK[element]


def of_dlpack(code: int, bits: int, lanes: int) -> str:
    """The element type with DLPack's numbers; BufferError where a device has no such type."""
    element = _OF_DLPACK.get((code, bits)) if lanes == 1 else None
    if element is None:
        raise BufferError(f"from_dlpack(): expected an element type that devices have, got DLPack type code {code} of {bits} bits, {lanes} lanes")
    return element
