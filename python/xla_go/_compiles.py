"""Where and why programs are compiled, and refusing it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from xla_go import _adapter, _runtime, _stacks

_strict = 0  # how often strict mode was entered and not left


def raise_failed_checks(cause: str) -> None:
    """In strict mode: waits for what the newest steps check, and raises what failed; see `sync`. BLOCKING in short slices."""
    if _strict:
        adapter = _adapter.load()
        _runtime.wait("ChecksWaitBegin")
        for index in range(adapter.device_count()):
            if token := adapter.sync(index, cause):  # raises what an earlier step has left
                adapter.cancel(token)


def locate() -> None:
    """Tells the runtime which line of the user's code has started the newest compiles. The adapter calls it.

    Where compiles are reported (PT_XLA_DEBUG) it waits for them, so that reports come in the order of the steps.
    """
    frames = _stacks.lines()
    site = ""
    if frames:
        code, line = frames[0]
        site = f"{_stacks.short(code.co_filename)}:{line} in {code.co_name}"
    if _runtime.call("LocateCompiles", site, _stacks.text(_stacks.lines(ours=True))):
        _runtime.wait("ReportsWaitBegin")


@contextmanager
def strict() -> Iterator[None]:
    """Raises where a step that was thought to be ready would compile, run an operator on the CPU, or end the graph early.

    Within it `sync` and `optimizer.step` may only run programs that are known, a read (`item`, `cpu`, `print`) may only
    read what an earlier `sync` has queued, and no operator falls back. The error (FailedPreconditionError, or
    NotImplementedError for an operator) comes before anything has changed: what was traced is still there, and goes on
    outside of the block. Positions and classes out of range raise at the `sync` of their step, which waits for it where its
    program has any to check. For the whole process; blocks may be nested. Starts the runtime.

        for step, batch in enumerate(batches):
            with xla_go.strict() if step > 3 else contextlib.nullcontext():
                train(batch)
    """
    adapter = _adapter.load()
    adapter.device_count()  # strict mode is the runtime's
    mode = adapter.fallback_mode()
    global _strict
    _runtime.call("SetStrict", True)
    _strict += 1
    adapter.set_fallback_mode("error")
    try:
        yield
    finally:
        adapter.set_fallback_mode(mode)
        _strict -= 1
        _runtime.call("SetStrict", False)
