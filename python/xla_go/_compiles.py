"""Where and why programs are compiled, and refusing it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from xla_go import _adapter, _runtime, _stacks


def locate() -> None:
    """Tells the runtime which line of the user's code has started the newest compiles. The adapter calls it."""
    frames = _stacks.lines()
    site = ""
    if frames:
        code, line = frames[0]
        site = f"{_stacks.short(code.co_filename)}:{line} in {code.co_name}"
    _runtime.call("LocateCompiles", site, _stacks.text(frames))


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
