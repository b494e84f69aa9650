"""How tensors are nested in inputs and outputs, as JSON: tuples, lists and mappings, with numbers of leaves in them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from xla_go import errors


def describe(value: Any) -> Any:
    """The description of a nest of tuples, lists, mappings and dataclasses, in which the leaves are their numbers.

    Mappings of any class, and dataclasses, are described as mappings; named tuples as tuples with names.
    """
    if isinstance(value, int):
        return value
    if value is None:
        return {"kind": "none"}
    if isinstance(value, tuple):
        described = {"kind": "tuple", "items": [describe(item) for item in value]}
        if hasattr(value, "_fields"):
            described["fields"] = list(value._fields)
        return described
    if isinstance(value, list):
        return {"kind": "list", "items": [describe(item) for item in value]}
    if dataclasses.is_dataclass(value) and not isinstance(value, (type, Mapping)):
        value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, (str, int)):
                raise errors.UnimplementedError(f"export(): expected text or numbers as keys of a mapping, got {key!r}")
        return {"kind": "dict", "keys": list(value), "items": [describe(item) for item in value.values()]}
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    raise errors.UnimplementedError(f"export(): expected tuples, lists, mappings and dataclasses of tensors, got {kind}: have the model take and return its tensors")


def build(described: Any, leaf: Callable[[int], Any]) -> Any:
    """The nest that was described, with leaf(number) as its leaves."""
    if isinstance(described, int):
        return leaf(described)
    if described["kind"] == "none":
        return None
    items = [build(item, leaf) for item in described["items"]]
    if described["kind"] == "list":
        return items
    if described["kind"] == "dict":
        return dict(zip(described["keys"], items, strict=True))
    return tuple(items)


def flatten(described: Any, value: Any, where: str) -> Iterator[tuple[int, Any]]:
    """The leaves of a value that is nested as described, with their numbers. ValueError where it is not."""
    if isinstance(described, int):
        yield described, value
        return
    kind = described["kind"]
    if kind == "none":
        if value is not None:
            raise ValueError(f"expected None as {where}, got {_kind(value)}")
        return
    items = described["items"]
    if kind == "dict":
        if dataclasses.is_dataclass(value) and not isinstance(value, (type, Mapping)):
            value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        if not isinstance(value, Mapping) or set(value) != set(described["keys"]):
            found = sorted(map(str, value)) if isinstance(value, Mapping) else _kind(value)
            raise ValueError(f"expected a mapping with keys {described['keys']} as {where}, got {found}")
        for key, item in zip(described["keys"], items, strict=True):
            yield from flatten(item, value[key], f"{where}[{key!r}]")
        return
    wanted = tuple if kind == "tuple" else list
    if not isinstance(value, wanted) or len(value) != len(items):
        found = f"{len(value)}" if isinstance(value, Sequence) and not isinstance(value, str) else _kind(value)
        raise ValueError(f"expected a {kind} of {len(items)} as {where}, got {found}")
    for i, item in enumerate(items):
        yield from flatten(item, value[i], f"{where}[{i}]")


def _kind(value: Any) -> str:
    return type(value).__name__
