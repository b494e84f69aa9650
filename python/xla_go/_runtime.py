"""The one way from Python into the Go runtime: loading it, starting its client, calling it.

Nothing happens at import. The runtime starts at the first device use, when the adapter calls `load_table`.
"""

from __future__ import annotations

import atexit
import ctypes
import importlib
import json
import logging
import math
import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from xla_go import _cuda, _plugins, errors

logger = logging.getLogger("xla_go")

_lock = threading.RLock()
_native: ModuleType | None = None
_native_pid = 0
_plugin: _plugins.Plugin | None = None
_preloaded: _cuda.Preload | None = None
_started = False
_after_start: list[Callable[[float], None]] = []

# Waits are cut into slices of this length, so that signals are looked at between them.
WAIT_SLICE_MS = 50

_STATUS = re.compile(r"([A-Z][A-Z_0-9]*): (.*)", re.DOTALL)


def _load() -> ModuleType:
    """Loads the Go library and hands it the environment as Python has it."""
    global _native, _native_pid
    with _lock:
        if _native is None:
            module = importlib.import_module("xla_go._native")
            module.bind_SetEnvironment(_environment())
            _native_pid = os.getpid()
            _native = module
        return _native


def _environment() -> str:
    return json.dumps(dict(os.environ))


def refresh_environment() -> None:
    """Hands the environment over again, where the Go library has it already. Before the runtime starts."""
    if _native is not None:
        call("SetEnvironment", _environment())


def native() -> ModuleType:
    """The extension module, loaded if it is not. Its functions raise a plain RuntimeError: see `translate`."""
    return _native if _native is not None else _load()


def loaded() -> bool:
    """Whether the Go library is in this process."""
    return _native is not None


def usable() -> bool:
    """Whether the Go library can be called: it is loaded, and this is not a forked child of the process that loaded it."""
    return _native is not None and os.getpid() == _native_pid


def call(function: str, *arguments: Any) -> Any:
    """Calls a function of the control plane (package bind) and raises its error as its class.

    Loads the Go library if it is not loaded. Raises at once in a forked child: Go's threads do not exist there.
    """
    module = _native
    if module is None:
        module = _load()
    elif os.getpid() != _native_pid:
        raise errors.FailedPreconditionError(
            "xla_go used in a forked child of a process that has used the device: start it with the spawn method "
            "(torch.multiprocessing.set_start_method('spawn'))"
        )
    try:
        return getattr(module, f"bind_{function}")(*arguments)
    except RuntimeError as error:
        raise translate(error) from None


def perform(function: str, *arguments: Any) -> None:
    """`call` for functions without a result, which take one argument more: whether to run in the background."""
    call(function, *arguments, False)


def translate(error: RuntimeError) -> Exception:
    """The exception of the class that an error's status code names; the error itself where it names none."""
    match = _STATUS.fullmatch(str(error))
    return errors.from_status(match.group(1), match.group(2)) if match else error


@contextmanager
def _quiet_logs(level: str) -> Iterator[None]:
    """Keeps a plugin's log below a level off standard error, unless the user has chosen one.

    Plugins read the variable once, when they are loaded.
    """
    name = "TF_CPP_MIN_LOG_LEVEL"
    if name in os.environ:
        yield
        return
    os.environ[name] = level
    try:
        yield
    finally:
        os.environ.pop(name, None)


def _log_level(plugin: _plugins.Plugin) -> str:
    # XLA:CPU logs two errors of three thousand characters whenever it loads a program that it compiled on the same
    # machine: it takes tuning flags (prefer-no-gather) for features of the processor, openxla/xla#44565. What it
    # cannot do comes as an error of the call, and raises.
    return "3" if plugin.device_type == "CPU" and call("CacheDirectory") else "1"


def initialize() -> None:
    """Finds the plugin and starts its client, once. BLOCKING: loads a plugin and starts its devices.

    A search that finds no plugin can be repeated; once a plugin has been loaded, its first failure is final
    for the process.
    """
    global _plugin, _preloaded, _started
    if _started:
        return
    with _lock:
        if _started:
            return
        begun = time.time()
        found = _plugins.search(os.environ)
        plugin = _plugins.choose(os.environ, found)
        if not os.environ.get("PJRT_DEVICE"):
            logger.info("PJRT_DEVICE is not set: using %s (%s, %s)", plugin.device_type or "the plugin's device", plugin.path, plugin.source)
            for note in found.notes:
                logger.warning("%s; using %s", note, plugin.device_type)
        _preloaded = _cuda.prepare(plugin.device_type, plugin.path)
        with _quiet_logs(_log_level(plugin)):
            call("InitializeClient", plugin.path, plugin.device_type, json.dumps(dict(plugin.options)))
        atexit.register(_end)
        _plugin = plugin
        _started = True
        for function in _after_start:
            function(time.time() - begun)


def after_start(function: Callable[[float], None]) -> None:
    """Has `function` called once the client has started, with the seconds that it took. Before it starts."""
    _after_start.append(function)


# How long the end of the process waits for programs that run: another process that one of them needs may be gone.
_END_SECONDS = 60.0


def _end() -> None:
    """At the end of the process: lets compiles end, programs run out, and those compiled last come to the disk.

    What goes on in a plugin while the process takes the plugin's data down brings the process down.
    """
    if not usable():
        return
    over = False
    try:
        wait("CompilesWaitBegin")
        over = wait("QueueWaitBegin", timeout=_END_SECONDS)
        if over:
            over = wait("CacheFlushBegin", timeout=10) & wait("WaitDeviceOpsBegin", "", timeout=_END_SECONDS)
    except errors.XlaError as error:
        logger.debug("at the end of the process: %s", error)
    finally:
        if not over or len(threading.enumerate()) > 1:  # daemon threads may be in the plugin
            _end_without_destructors()


def end_start() -> None:
    """At the end of the process: waits for a start that is under way in another thread, and ends what it began. BLOCKING.

    A plugin that is loaded while the process ends finds its libraries taken down, and brings the process down.
    """
    if _started:
        return  # `_end` has run
    if not _lock.acquire(timeout=_END_SECONDS):
        _end_without_destructors()
        return
    _lock.release()
    if _started:
        _end()


def _end_without_destructors() -> None:
    """At the end of the process: has it end, with its status, before the destructors of libraries that are loaded already."""
    libc = ctypes.CDLL(None)
    libc.fflush(None)
    libc.on_exit(ctypes.cast(libc._exit, ctypes.c_void_p), None)  # which calls _exit(status)


def started() -> bool:
    """Whether the client has been started."""
    return _started


def plugin() -> _plugins.Plugin | None:
    """The plugin in use, None before the first device use."""
    return _plugin


def preloaded() -> _cuda.Preload | None:
    """What was loaded before a CUDA plugin; None for other plugins and before the first device use."""
    return _preloaded


def load_table() -> int:
    """Starts the runtime and gives the address of its table of functions. The adapter calls this once."""
    initialize()
    return call("DispatchTable")


def wait(function: str, *arguments: Any, timeout: float | None = None) -> bool:
    """Waits for what `function` gives a token for, and raises the error it ends with.

    BLOCKING in short slices: other threads run meanwhile, and Ctrl-C breaks out. False after `timeout` seconds.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    token = call(function, *arguments)
    try:
        slice_ms = WAIT_SLICE_MS
        while True:
            if deadline is not None:
                slice_ms = max(0, min(WAIT_SLICE_MS, math.ceil((deadline - time.monotonic()) * 1000)))
            if call("Wait", token, slice_ms):
                return True
            if deadline is not None and time.monotonic() >= deadline:
                return False
    finally:
        call("EndWait", token)


def wait_for_read(adapter: ModuleType, token: int) -> None:
    """Waits for a read that the torch adapter gave a token for, and raises the error it ends with; the read is cancelled then.

    BLOCKING in short slices: other threads run meanwhile, and Ctrl-C breaks out.
    """
    try:
        while not adapter.wait(token, WAIT_SLICE_MS):
            pass
    except BaseException:
        adapter.cancel(token)
        raise


@contextmanager
def measured(metric: str) -> Iterator[None]:
    """Observes how long the block takes, as a metric of times; not where the Go library has not been loaded."""
    begun = time.perf_counter_ns()
    try:
        yield
    finally:
        if usable():
            perform("ObserveTime", metric, time.perf_counter_ns() - begun)


def take_bytes(handle: int) -> bytes:
    """The bytes of a result that the runtime keeps under a handle."""
    length = call("BytesLength", handle)
    buffer = (ctypes.c_char * length)()
    call("TakeBytes", handle, ctypes.addressof(buffer))
    return buffer.raw


def lines(text: str) -> list[str]:
    """The items of a list that crossed as text."""
    return text.split("\n") if text else []
