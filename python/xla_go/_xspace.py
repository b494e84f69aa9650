"""Writes events as a serialized XSpace, which TensorBoard and XProf read: a plane of lines, each of events."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def plane(name: str, lines: Iterable[tuple[str, Sequence[tuple[str, int, int]]]]) -> bytes:
    """An XSpace of one plane; bytes of several, one after the other, are one of all their planes.

    lines: the name of each, and its events: name, start in nanoseconds since 1970, duration in nanoseconds.
    """
    names: dict[str, int] = {}
    parts = [_bytes(2, name.encode())]
    for number, (line, events) in enumerate(lines, 1):
        begun = min((start for _, start, _ in events), default=0)
        content = [_number(1, number), _bytes(2, line.encode()), _number(3, begun)]
        for event, start, duration in events:
            kind = names.setdefault(event, len(names) + 1)
            content.append(_bytes(4, _number(1, kind) + _number(2, (start - begun) * 1000) + _number(3, duration * 1000)))
        parts.append(_bytes(3, b"".join(content)))
    for event, kind in names.items():
        parts.append(_bytes(4, _number(1, kind) + _bytes(2, _number(1, kind) + _bytes(2, event.encode()))))
    return _bytes(1, b"".join(parts))
