"""Where and why programs are compiled, and refusing it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from xla_go import _adapter, _runtime

_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep


def locate() -> None:
    """Tells the runtime which line of the user's code has started the newest compiles. The adapter calls it."""
    import torch

    library = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
    frame = sys._getframe()
    user = frame
    while user is not None and user.f_code.co_filename.startswith((_HERE, library, "<frozen", "<eval_with_key")):
        user = user.f_back  # type: ignore[assignment]
    if user is None:
        _runtime.call("LocateCompiles", "")
        return
    _runtime.call("LocateCompiles", f"{_short(user.f_code.co_filename)}:{user.f_lineno} in {user.f_code.co_name}")


def _short(path: str) -> str:
    relative = os.path.relpath(path)
    return path if relative.startswith("..") else relative


@contextmanager
def strict() -> Iterator[None]:
    """Raises where a step that was thought to be ready would compile, run an operator on the CPU, or end the graph early.

    Within it `sync` and `optimizer.step` may only run programs that are known, a read (`item`, `cpu`, `print`) may only
    read what an earlier `sync` has queued, and no operator falls back. The error (FailedPreconditionError, or
    NotImplementedError for an operator) comes before anything has changed: what was traced is still there, and goes on
    outside of the block. For the whole process; blocks may be nested. Starts the runtime.

        for step, batch in enumerate(batches):
            with xla_go.strict() if step > 3 else contextlib.nullcontext():
                train(batch)
    """
    adapter = _adapter.load()
    adapter.device_count()  # strict mode is the runtime's
    mode = adapter.fallback_mode()
    _runtime.call("SetStrict", True)
    adapter.set_fallback_mode("error")
    try:
        yield
    finally:
        adapter.set_fallback_mode(mode)
        _runtime.call("SetStrict", False)
