"""The JSON of a program that was saved, checked when it is read, so that what uses it later can rely on its form."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from xla_go.client import element

# The kinds of arguments and of results, and of what list of leaves a number of each is.
_ARGUMENTS = {"weight": None, "input": "inputs", "generator": None}
_RESULTS = {"output": "outputs", "weight": None, "input": "inputs"}
_LARGEST = 2**63 - 1


class _DamageError(ValueError):
    """What is not as `save` writes it."""


def check(about: dict[str, Any]) -> None:
    """ValueError, which says where, for what `StableHLOProgram.save` of the present version would not have written."""
    name = _get(about, "name", str, "the program")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise _DamageError(f"expected text as the program's name, got {name!r}") from None
    _number(_get(about, "drawn", int, "the program"), 2**64 - 1, "drawn")
    nests = {side: _nest(about, side) for side in ("inputs", "outputs")}
    for which, kinds in (("arguments", _ARGUMENTS), ("results", _RESULTS)):
        for number, item in enumerate(_get(about, which, list, "the program")):
            where = f"{which}[{number}]"
            _array(item, where)
            kind = _get(item, "kind", str, where)
            if kind not in kinds:
                raise _DamageError(f"expected one of the kinds {', '.join(kinds)} in {where}, got {kind!r}")
            _get(item, "name", str, where)
            if (side := kinds[kind]) is not None:
                leaf = _get(item, kind, int, where)
                _number(leaf, len(nests[side]) - 1, f"{kind} in {where}")
                if "constant" in nests[side][leaf]:
                    raise _DamageError(f"expected an array as {kind} of {where}, got a constant")
    _every_output_has_a_value(nests["outputs"], about["results"])
    for number, leaf in enumerate(nests["inputs"]):
        _get(leaf, "name", str, f"inputs.leaves[{number}]")


def _every_output_has_a_value(leaves: list[dict[str, Any]], results: list[dict[str, Any]]) -> None:
    computed = {result["output"] for result in results if result["kind"] == "output"}
    for number, leaf in enumerate(leaves):
        where = f"outputs.leaves[{number}]"
        if "empty" in leaf:
            _array(leaf["empty"], where)
            if 0 not in leaf["empty"]["dimensions"]:
                raise _DamageError(f"expected an array without elements in {where}, got dimensions {leaf['empty']['dimensions']}")
        elif "constant" not in leaf and number not in computed:
            raise _DamageError(f"expected a result, a constant or an empty array for {where}")


def _nest(about: dict[str, Any], side: str) -> list[dict[str, Any]]:
    """The leaves of a nest, each of which is there once."""
    nest = _get(about, side, dict, "the program")
    leaves = _get(nest, "leaves", list, side)
    for number, leaf in enumerate(leaves):
        if not isinstance(leaf, dict):
            raise _DamageError(f"expected a mapping in {side}.leaves[{number}], got {leaf!r}")
    if "tree" not in nest or sorted(_numbers(nest["tree"], f"{side}.tree")) != list(range(len(leaves))):
        raise _DamageError(f"expected each of the {len(leaves)} leaves once in {side}.tree")
    return leaves


def _numbers(described: Any, where: str) -> Iterable[int]:
    """The leaves of a description as `_tree.describe` gives it."""
    if type(described) is int:
        yield described
        return
    kind = _get(described, "kind", str, where)
    if kind == "none":
        return
    items = _get(described, "items", list, where)
    if kind == "dict":
        keys = _get(described, "keys", list, where)
        if len(keys) != len(items) or not all(isinstance(key, (str, int)) for key in keys) or len(set(keys)) != len(keys):
            raise _DamageError(f"expected a different key for each of {len(items)} items in {where}, got {keys!r}")
    elif kind not in ("tuple", "list"):
        raise _DamageError(f"expected one of the kinds none, tuple, list, dict in {where}, got {kind!r}")
    for number, item in enumerate(items):
        yield from _numbers(item, f"{where}[{number}]")


def _array(item: Any, where: str) -> None:
    kind = _get(item, "element", str, where)
    if not element.known(kind):
        raise _DamageError(f"expected an element type in {where}, got {kind!r}")
    for size in _get(item, "dimensions", list, where):
        _number(size, _LARGEST, f"dimensions of {where}")


def _get(mapping: Any, key: str, kind: type, where: str) -> Any:
    found = mapping.get(key) if isinstance(mapping, dict) else None
    if type(found) is not kind:  # and no bool as a number
        raise _DamageError(f"expected {key} of type {kind.__name__} in {where}, got {found!r}")
    return found


def _number(found: Any, largest: int, what: str) -> None:
    if type(found) is not int or not 0 <= found <= largest:
        raise _DamageError(f"expected a number from 0 to {largest} as {what}, got {found!r}")
