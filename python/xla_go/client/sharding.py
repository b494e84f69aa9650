"""How an array is laid over devices: OpSharding messages (xla_data.proto) in serialized form.

These are the annotations that HLO modules carry. Any serialized OpSharding serves where a sharding is asked for; the
functions here make the usual ones.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["replicated", "tiled"]

# Numbers of OpSharding's fields and of its types.
_TYPE, _TILE_DIMENSIONS, _TILE_DEVICES, _REPLICATE_ON_LAST = 1, 3, 4, 6
_REPLICATED, _TILED = 0, 3
_MOST_DEVICES = 1 << 20  # each is a number in the message


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _packed(field: int, values: Sequence[int]) -> bytes:
    content = b"".join(map(_varint, values))
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def replicated() -> bytes:
    """Each device has the whole array."""
    return _number(_TYPE, _REPLICATED)


def tiled(parts: Sequence[int], devices: Sequence[int] | None = None, replicate_on_last: bool = False) -> bytes:
    """Each device has one tile: dimension i is cut into parts[i] pieces.

    devices are the numbers of the devices of the tiles, row-major, by default 0, 1, 2, and so on. With
    replicate_on_last, parts has one number more than the array has dimensions, and the devices along it have the same
    tile.
    """
    count = 1
    for part in parts:
        if part < 1:
            raise ValueError(f"tiled(): expected at least 1 part in each dimension, got {list(parts)}")
        count *= part
    if count > _MOST_DEVICES:
        raise ValueError(f"tiled(): expected at most {_MOST_DEVICES} tiles, one for each device, got {count} for parts {list(parts)}")
    numbers = range(count) if devices is None else devices
    if len(numbers) != count or sorted(numbers) != list(range(count)):
        raise ValueError(f"tiled(): expected each device from 0 to {count - 1} once for parts {list(parts)}, got {list(numbers)}")
    encoded = _number(_TYPE, _TILED) + _packed(_TILE_DIMENSIONS, parts) + _packed(_TILE_DEVICES, numbers)
    return encoded + _number(_REPLICATE_ON_LAST, 1) if replicate_on_last else encoded
