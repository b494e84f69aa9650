"""How many different graphs a function may trace."""

from __future__ import annotations

import re

from xla_go import debug

_OPERATOR = re.compile(r"%\d+ = ([\w:]+)[\w.]*\(.*?\) : (\w+)\[([\d,]*)\]")
_INPUTS = ("parameter", "scalar")


def _operators() -> list[str]:
    """The operators that are pending on the first device, in order."""
    lines = []
    for line in debug.graph().ir.splitlines():
        match = _OPERATOR.match(line)
        if match is not None and match[1] not in _INPUTS:
            sizes = match[3].split(",") if match[3] else []
            layout = "{" + ",".join(map(str, reversed(range(len(sizes))))) + "}" if sizes else ""
            lines.append(f"[] {match[1]}, xla_shape={match[2]}[{match[3]}]{layout}, dynamic_dims: ()")
    return lines


class KnownGraphs:
    """The graphs that a function has traced so far."""

    def __init__(self) -> None:
        self._known: list[list[str]] = []

    def check(self, limit: int) -> None:
        """Takes the pending graph as one of the function's. RuntimeError, with where it departs, for one beyond the limit."""
        now = _operators()
        if now in self._known:
            return
        if len(self._known) < limit:
            self._known.append(now)
            return
        near = self._known
        for at in range(len(now) + 1):
            same = [one for one in near if one[: at + 1] == now[: at + 1] and at < len(now)]
            if not same:
                raise RuntimeError(_message(limit, now, near, at))
            near = same


def _message(limit: int, now: list[str], near: list[list[str]], at: int) -> str:
    # A graph that ends here has nothing to expect.
    expected = list(dict.fromkeys(one[at] for one in near if at < len(one)))
    lines = [f"Maximum number of different graphs allowed per function exceeded: {limit}"]
    if at < len(now):
        lines.append(f"Got: {now[at]}")
    else:
        lines.append(f"Reached the end of the function at: {now[-1] if now else 'its beginning'}")
    if len(expected) == 1:
        lines.append(f"Expected: {expected[0]}")
    elif expected:
        lines += ["Expected either of:", *(f"  - {one}" for one in expected)]
    else:
        lines.append("Expected: the end of the function")
    return "".join(f"{line}\n" for line in lines)
