"""What `torch_xla.debug.profiler` gives after `xla_go.compat.install()`: traces of the runtime and of the plugin.

torch_xla serves traces over a port; here the process writes its own. `trace` takes the address for the caller's sake.
"""

from __future__ import annotations

import datetime
import functools
import os
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, TypeVar

import torch

import xla_go
from xla_go import _adapter, _stacks, debug, errors, profiler
from xla_go.compat import xla_model
from xla_go.compat._missing import attribute_error

_F = TypeVar("_F", bound=Callable[..., Any])

_marked_step = False
_lock = threading.Lock()
_going_on: tuple[ExitStack, str, str] | None = None
_requests = threading.Lock()  # held by a `trace` that records


def set_tracer_marked_step(value: bool) -> None:
    """Notes whether a StepTrace has ended the step already."""
    global _marked_step
    _marked_step = value


def get_tracer_marked_step() -> bool:
    return _marked_step


class ProfilerServer:
    """Holds the port that was asked for, until it is dropped or closed: `trace` in this process is what records.

    Closing it waits for a `trace` that records.
    """

    def __init__(self, port: int) -> None:
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)  # several servers of one user may share it
        try:
            self._socket.bind(("localhost", port))
        except (OSError, OverflowError) as error:
            raise RuntimeError(f"start_server(): expected a port that is free, got {port}: {error}") from error

    def close(self) -> None:
        with _requests:
            self._socket.close()

    def __del__(self) -> None:
        self.close()


def start_server(port: int, only_on_master: bool = True) -> ProfilerServer | None:
    """Takes a port, as a name for `trace`. None on other replicas than the first. RuntimeError where somebody else has taken it.

    Starts the runtime, so that a trace has the plugin's events.
    """
    if only_on_master and not xla_model.is_master_ordinal():
        return None
    _adapter.load().device_count()
    return ProfilerServer(port)


def start_trace(log_dir: os.PathLike[str] | str) -> None:
    """Begins a trace that `stop_trace` writes. RuntimeError where one is going on."""
    global _going_on
    with _lock:
        if _going_on is not None:
            raise RuntimeError("start_trace(): Only one profile may be run at a time. Call stop_trace first")
        stack = ExitStack()
        work = tempfile.mkdtemp()
        try:
            stack.enter_context(profiler.trace(os.path.join(work, "trace.json")))
        except errors.FailedPreconditionError as error:
            shutil.rmtree(work, ignore_errors=True)
            raise RuntimeError(f"start_trace(): {error}") from error
        _going_on = stack, work, os.fspath(log_dir)


def stop_trace() -> None:
    """Ends the trace and writes log_dir/plugins/profile/TIME/HOST.{trace.json,xplane.pb}, as TensorBoard looks for them.

    BLOCKING until queued steps have run. For the second file see xla_go.profiler.trace.
    RuntimeError where no trace is going on.
    """
    global _going_on
    with _lock:
        if _going_on is None:
            raise RuntimeError("stop_trace(): No profile started: call start_trace first")
        (stack, work, log_dir), _going_on = _going_on, None
        try:
            stack.close()
            folder = os.path.join(log_dir, "plugins", "profile", f"{datetime.datetime.now():%Y_%m_%d_%H_%M_%S}")
            os.makedirs(folder, exist_ok=True)
            for name, ending in (("trace.json", ".trace.json"), ("trace.json.xplane.pb", ".xplane.pb")):
                if os.path.exists(os.path.join(work, name)):
                    shutil.move(os.path.join(work, name), os.path.join(folder, socket.gethostname() + ending))
        finally:
            shutil.rmtree(work, ignore_errors=True)


def trace(
    service_addr: str,
    logdir: str,
    duration_ms: int = 1000,
    num_tracing_attempts: int = 3,
    host_tracer_level: int = 2,
    device_tracer_level: int = 1,
    delay_ms: int = 0,
    timeout_s: int = 120,
    interval_s: int = 5,
) -> None:
    """Records this process for `duration_ms`, whatever the address. BLOCKING; see `stop_trace` for the files."""
    time.sleep(delay_ms / 1e3)
    with _requests:
        start_trace(logdir)
        try:
            time.sleep(duration_ms / 1e3)
        finally:
            stop_trace()


def trace_detached(*args: Any, **kwargs: Any) -> None:
    """`trace` on a thread of its own."""
    threading.Thread(target=trace, args=args, kwargs=kwargs).start()


def expect_no_scope() -> None:
    """RuntimeError where this thread is in a `Trace`: a step that ends there would not be of it alone."""
    if names := _stacks.scopes.names:
        raise RuntimeError(f"Expecting scope to be empty but it is {names[-1]}: end the step outside of Trace, or call sync(reset_scope=False)")


class Trace:
    """Names the block in torch.profiler's traces, and its operators as xla_go.debug.scope does."""

    def __init__(self, name: str, **kwargs: Any) -> None:
        self.name = name
        self._range = torch.profiler.record_function(name)

    def __enter__(self) -> Trace:
        self._scope = debug.scope(f"{self.name}.1")
        self._scope.__enter__()
        self._range.__enter__()
        return self

    def __exit__(self, *exception: Any) -> None:
        self._scope.__exit__(None, None, None)
        self._range.__exit__(*exception)


class StepTrace(Trace):
    """Names the block, and ends the step with it."""

    def __init__(self, name: str, **kwargs: Any) -> None:
        super().__init__(f"{name} {kwargs['step_num']}" if "step_num" in kwargs else name)

    def __enter__(self) -> StepTrace:
        set_tracer_marked_step(True)
        super().__enter__()
        return self

    def __exit__(self, *exception: Any) -> None:
        if get_tracer_marked_step():
            xla_go.sync(cause="torch_xla.sync when exiting a profiler StepTrace region")
        super().__exit__(*exception)


def trace_me(scope: str) -> Callable[[_F], _F]:
    """A decorator that runs a function in `Trace(scope)`."""

    def decorate(function: _F) -> _F:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            with Trace(scope):
                return function(*args, **kwargs)

        return wrapper  # type: ignore[return-value]

    return decorate


def __getattr__(name: str) -> Any:
    raise attribute_error("torch_xla.debug.profiler", name)
