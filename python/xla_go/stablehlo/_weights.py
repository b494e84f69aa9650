"""Weights in one file of the safetensors format: eight bytes of a length, so much JSON, and the arrays' bytes."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from xla_go import errors
from xla_go.client import element

if TYPE_CHECKING:
    import numpy as np

# The format's names of element types. The last three are not in it: other readers refuse them.
_NAMES = {
    "pred": "BOOL", "s8": "I8", "s16": "I16", "s32": "I32", "s64": "I64", "u8": "U8", "u16": "U16", "u32": "U32", "u64": "U64",
    "f16": "F16", "bf16": "BF16", "f32": "F32", "f64": "F64", "f8e5m2": "F8_E5M2", "f8e4m3fn": "F8_E4M3", "c64": "C64",
    "c128": "C128", "f8e5m2fnuz": "F8_E5M2FNUZ", "f8e4m3fnuz": "F8_E4M3FNUZ",
}  # fmt: skip
_ELEMENTS = {name: kind for kind, name in _NAMES.items()}
_LENGTH = 8
_ALIGNMENT = 64  # of the first array in the file


class Array(NamedTuple):
    """An array in host memory, dense and row-major."""

    element: str  # as HLO spells it
    dimensions: tuple[int, ...]
    data: np.ndarray[Any, Any]  # its bytes

    def numpy(self) -> np.ndarray[Any, Any]:
        """As numpy has it, without a copy; TypeError for a type that needs ml_dtypes where that is not installed."""
        return self.data.view(element.to_numpy(self.element, "numpy")).reshape(self.dimensions)


def nbytes(kind: str, dimensions: tuple[int, ...]) -> int:
    """Bytes of a dense array of an element type."""
    return math.prod(dimensions) * element.size(kind)


def save(path: Path, arrays: Mapping[str, Array]) -> None:
    """Writes arrays, those with the widest elements first, so that all lie at addresses that they can be read at."""
    ordered = sorted(arrays.items(), key=lambda item: -element.size(item[1].element))
    header = {}
    position = 0
    for name, array in ordered:
        header[name] = {"dtype": _NAMES[array.element], "shape": list(array.dimensions), "data_offsets": [position, position + len(array.data)]}
        position += len(array.data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(_LENGTH + len(text)) % _ALIGNMENT)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(_LENGTH, "little") + text)
        for _, array in ordered:
            file.write(memoryview(array.data))


def load(path: Path) -> dict[str, Array]:
    """The arrays of a file, read when they are used. DataLossError for a file that is not whole."""
    import numpy as np

    whole = np.memmap(path, np.uint8, "r") if path.stat().st_size else np.empty(0, np.uint8)
    length = int.from_bytes(whole[:_LENGTH].tobytes(), "little")
    if len(whole) < _LENGTH or length > len(whole) - _LENGTH:
        raise errors.DataLossError(f"load(): expected a file in the safetensors format, got {path} of {len(whole)} bytes")
    try:
        header = json.loads(whole[_LENGTH : _LENGTH + length].tobytes())
        if not isinstance(header, dict):
            raise ValueError(f"expected a mapping of arrays, got {type(header).__name__}")
    except (ValueError, RecursionError) as error:
        raise errors.DataLossError(f"load(): the header of {path} is damaged: {error}") from None
    data = whole[_LENGTH + length :]
    arrays = {}
    for name, about in header.items():
        if name == "__metadata__":
            continue
        if not _described(about):
            raise errors.DataLossError(f"load(): the header of {path} is damaged: expected dtype, shape and data_offsets of {name!r}, got {about!r}")
        kind = _ELEMENTS.get(about["dtype"])
        if kind is None:
            raise errors.UnimplementedError(f"load(): expected one of the types {', '.join(_ELEMENTS)}, got {about['dtype']} of {name!r} in {path}")
        begin, end = about["data_offsets"]
        dimensions = tuple(about["shape"])
        if not 0 <= begin <= end <= len(data) or end - begin != nbytes(kind, dimensions):
            raise errors.DataLossError(f"load(): {path} has not all bytes of {name!r}")
        arrays[name] = Array(kind, dimensions, data[begin:end])
    return arrays


def _described(about: Any) -> bool:
    """Whether the header says of an array what the format asks for."""
    if not isinstance(about, dict) or not isinstance(about.get("dtype"), str):
        return False
    shape, offsets = about.get("shape"), about.get("data_offsets")
    if not isinstance(shape, list) or not isinstance(offsets, list) or len(offsets) != 2:
        return False
    return all(type(number) is int and 0 <= number < 2**63 for number in [*shape, *offsets])
