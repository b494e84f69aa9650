"""The end of a step: what has been traced becomes a graph, is compiled if it is new, and runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from xla_go import _adapter, _compiles, _replica, _runtime

_after_sync: list[Callable[[], None]] = []  # of no replica


def after_next_sync(function: Callable[[], None]) -> None:
    """Runs `function` once, at the end of the next `sync`; in a replica, of its own: another's would read values that it waits for."""
    replica = _replica.current()
    (_after_sync if replica is None else replica.after_sync).append(function)


def sync(wait: bool = False, *, cause: str = "sync()") -> None:
    """Ends the step: queues everything traced so far on all devices of this process, or on that of the running replica.

    Returns once it is queued; with `wait`, or XLA_SYNC_WAIT=1, once it has run (BLOCKING; other threads run
    meanwhile and Ctrl-C breaks it; a failed run raises its error). Positions and classes out of range raise at the next `sync`
    or read after their step; all values are kept. Without work on a device it does nothing. `cause` is
    what the reports of PT_XLA_DEBUG give as the reason of the step's end.
    """
    adapter = _adapter.load()
    replica = _replica.current()
    if adapter.is_loaded():
        wait = wait or os.environ.get("XLA_SYNC_WAIT", "0").lower() in ("1", "true")
        _runtime.perform("AddToCounter", "MarkStep", 1)
        indices = range(adapter.device_count()) if replica is None else [replica.ordinal]
        tokens = [token for index in indices if (token := adapter.sync(index, cause))]
        try:
            _compiles.raise_failed_checks(cause)
            for token in tokens if wait else ():
                while not adapter.wait(token, _runtime.WAIT_SLICE_MS):
                    pass
            if wait and replica is None:  # also what was queued before: by compiled functions, and by optimizers
                _runtime.wait("QueueWaitBegin")
        finally:
            for token in tokens:
                adapter.cancel(token)
    waiting = _after_sync if replica is None else replica.after_sync
    closures = waiting[:]
    waiting.clear()
    for closure in closures:
        closure()


_whole = 0  # how often one_graph was entered and not left


@contextmanager
def one_graph() -> Iterator[None]:
    """Within it an optimizer's step and a backward do not end the graph. For the whole process; blocks may be nested."""
    global _whole
    _whole += 1
    try:
        yield
    finally:
        _whole -= 1


def cut(device: int, cause: str) -> bool:
    """Ends the graph of one device, which is queued and not waited for. False where nothing was pending."""
    adapter = _adapter.load()
    token = adapter.sync(device, cause)
    if token:
        adapter.cancel(token)
    return bool(token)


def cut_after_optimizer_steps() -> None:
    """Ends the graph wherever an optimizer has stepped parameters on the device, so that a loop without `sync` compiles once."""
    from torch.optim.optimizer import register_optimizer_step_post_hook

    register_optimizer_step_post_hook(_after_optimizer_step)


def _after_optimizer_step(optimizer: Any, arguments: Any, keywords: Any) -> None:
    import torch

    if _whole or torch.compiler.is_compiling():
        return  # it becomes part of a program, or one of its own
    devices = {parameter.device for group in optimizer.param_groups for parameter in group["params"][:1]}
    for device in devices:
        if device.type == "xla" and cut(device.index or 0, "optimizer step"):
            _compiles.raise_failed_checks("optimizer step")


def cut_after_backward(tensors: Any) -> None:
    """Ends the graph after a backward of tensors on the device, where XLA_GO_CUT_AFTER_BACKWARD asks for it.

    Forward and backward are then one program and the optimizer's step another: less is compiled at once, gradients are
    there before the step, and accumulating them over many batches does not grow one graph.
    """
    if _whole or os.environ.get("XLA_GO_CUT_AFTER_BACKWARD", "0").lower() not in ("1", "true", "yes", "on"):
        return
    for tensor in tensors if isinstance(tensors, (list, tuple)) else [tensors]:
        if getattr(getattr(tensor, "device", None), "type", "") == "xla":
            if cut(tensor.device.index or 0, "backward"):
                _compiles.raise_failed_checks("backward")
            return


_eager = False


def eager_mode(enable: bool) -> None:
    """Runs each operator at once (True) instead of gathering them until the step ends (False, the default).

    Operators are still queued and not waited for. Each needs a small program, compiled once for each shape; a training
    step in eager mode is many times slower. It is for looking at a model's values one by one. Starts the runtime.
    """
    global _eager
    _adapter.load().device_count()
    if enable:
        sync(cause="eager_mode()")
    _runtime.call("SetEager", bool(enable))
    _eager = bool(enable)


@contextmanager
def no_eager_mode() -> Iterator[None]:
    """For a block in eager mode whose operators are to be one graph; what is pending after it is ended."""
    _runtime.call("SetEager", False)
    try:
        yield
        for index in range(_adapter.load().device_count()):
            cut(index, "compiled function")
    finally:
        _runtime.call("SetEager", True)


def is_eager_mode() -> bool:
    """Whether `eager_mode(True)` is in force."""
    return _eager
