"""Which lines of the user's code are running now."""

from __future__ import annotations

import json
import os
import sys
import threading
from types import CodeType

from xla_go import _replica, _runtime

_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep

_library: tuple[str, ...] = ()
_most = 0
_numbers: dict[tuple[tuple[str, ...], tuple[tuple[CodeType, int], ...]], int] = {}


def lines(most: int | None = None, *, ours: bool = False) -> list[tuple[CodeType, int]]:
    """The frames of the calling thread that are neither ours nor torch's, the innermost first, at most `most` of them.

    In a replica those that have launched it follow. With `ours` xla_go's own are among them, from the caller's caller on.
    """
    global _library
    if not _library:
        import torch

        _library = (os.path.dirname(os.path.abspath(torch.__file__)) + os.sep, "<frozen", "<eval_with_key")
    left_out = _library if ours else (_HERE, *_library)
    found: list[tuple[CodeType, int]] = []
    frame = sys._getframe(2 if ours else 1)
    while frame is not None and (most is None or len(found) < most):
        code = frame.f_code
        within = code.co_name in ("<listcomp>", "<genexpr>", "<lambda>") and code.co_filename.startswith(_HERE)
        if not within and not code.co_filename.startswith(left_out):
            found.append((code, frame.f_lineno))
        frame = frame.f_back  # type: ignore[assignment]
    if (replica := _replica.current()) is not None:
        found += [one for one in replica.launched_from if not one[0].co_filename.startswith(left_out)]
    return found[:most]


class _Scopes(threading.local):
    """The names that the running thread's operators are given, the outermost first."""

    names: tuple[str, ...] = ()


scopes = _Scopes()


def text(frames: list[tuple[CodeType, int]], names: tuple[str, ...] = ()) -> str:
    """Frames as the runtime takes them; the innermost with names, if there are any."""
    listed = [{"file": short(code.co_filename), "line": line, "function": code.co_name} for code, line in frames]
    if names:
        listed[0]["function"] = f"{listed[0]['function']} (scope={'/'.join(names)})"
    return json.dumps(listed)


def short(path: str) -> str:
    """A path below the working directory without it."""
    relative = os.path.relpath(path)
    return path if relative.startswith("..") else relative


def current() -> int:
    """The runtime's number of the stack that the calling thread is in, 0 where no user's code runs. The adapter calls it
    before each operator where stacks are recorded."""
    global _most
    if not _most:
        _most = int(_runtime.call("StackFrames"))
    frames = lines(_most)
    if not frames:
        return 0
    names = scopes.names
    key = (names, tuple(frames))
    number = _numbers.get(key)
    if number is None:
        number = _numbers[key] = int(_runtime.call("AddStack", text(frames, names)))
    return number
