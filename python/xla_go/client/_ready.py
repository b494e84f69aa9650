"""Callbacks for values that become ready."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable

from xla_go import _runtime, errors

Callback = Callable[[errors.XlaError | None], object]

_lock = threading.Lock()
_waiting: dict[int, Callback] = {}
_thread: threading.Thread | None = None


def on_ready(handle: int, callback: Callback) -> None:
    """Has callback(error) called once, on a thread of this module, when the value is ready or has failed."""
    global _thread
    with _lock:
        # Under the lock, so that the thread does not look for the number before it is here.
        _waiting[_runtime.call("OnReadyBegin", handle)] = callback
        if _thread is None:
            # Not a daemon: the interpreter waits for what was promised, and no thread is in the runtime when it ends.
            _thread = threading.Thread(target=_serve, name="xla_go-on_ready")
            _thread.start()


def _serve() -> None:
    """Runs callbacks as long as any are waited for."""
    global _thread
    while True:
        with _lock:
            if not _waiting:
                _thread = None
                return
        text = _runtime.call("NextReady", _runtime.WAIT_SLICE_MS)
        if not text:
            continue
        item = json.loads(text)
        with _lock:
            callback = _waiting.pop(item["number"])
        error = _runtime.translate(RuntimeError(item["error"])) if item["error"] else None
        try:
            callback(error if error is None or isinstance(error, errors.XlaError) else errors.UnknownError(str(error)))
        except Exception as failure:
            arguments = threading.ExceptHookArgs((type(failure), failure, failure.__traceback__, threading.current_thread()))
            threading.excepthook(arguments)
