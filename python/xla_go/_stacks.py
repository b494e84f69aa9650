"""Which lines of the user's code are running now."""

from __future__ import annotations

import json
import os
import sys
from types import CodeType

from xla_go import _replica, _runtime

_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep

_library: tuple[str, ...] = ()
_most = 0
_numbers: dict[tuple[tuple[CodeType, int], ...], int] = {}


def lines(most: int | None = None) -> list[tuple[CodeType, int]]:
    """The frames of the calling thread that are neither ours nor torch's, the innermost first, at most `most` of them.

    In a replica those that have launched it follow.
    """
    global _library
    if not _library:
        import torch

        _library = (_HERE, os.path.dirname(os.path.abspath(torch.__file__)) + os.sep, "<frozen", "<eval_with_key")
    found: list[tuple[CodeType, int]] = []
    frame = sys._getframe(1)
    while frame is not None and (most is None or len(found) < most):
        code = frame.f_code
        if not code.co_filename.startswith(_library):
            found.append((code, frame.f_lineno))
        frame = frame.f_back  # type: ignore[assignment]
    if (replica := _replica.current()) is not None:
        found += replica.launched_from
    return found[:most]


def entered() -> list[tuple[CodeType, int]]:
    """The frame of xla_go's that the user's code has called, none where it is torch that was called; for the caller's caller."""
    found: list[tuple[CodeType, int]] = []
    frame = sys._getframe(1).f_back
    while frame is not None and frame.f_code.co_filename.startswith(_library):
        if frame.f_code.co_filename.startswith(_HERE):
            found = [(frame.f_code, frame.f_lineno)]
        frame = frame.f_back
    return found


def text(frames: list[tuple[CodeType, int]]) -> str:
    """Frames as the runtime takes them."""
    return json.dumps([{"file": short(code.co_filename), "line": line, "function": code.co_name} for code, line in frames])


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
    key = tuple(frames)
    number = _numbers.get(key)
    if number is None:
        number = _numbers[key] = int(_runtime.call("AddStack", text(frames)))
    return number
