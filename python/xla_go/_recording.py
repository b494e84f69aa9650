"""Recordings of programs that are traced once; the adapter makes and replays them."""

from __future__ import annotations

from typing import Any

from xla_go import _adapter, _runtime, errors


def begin(device: int, arguments: list[Any], closed: bool = False) -> Any:
    """Follows what is traced on the device from now on as a program of arguments; closed ones may read nothing else.

    BLOCKING where programs are partitioned, and one that makes an argument is being compiled. Raises UnavailableError, with the
    reason, where nothing can be recorded.
    """
    adapter = _adapter.load()
    if not _runtime.call("IsPartitioned"):
        return adapter.record_begin(device, arguments, closed)
    _runtime.wait("ShardingsWaitBegin")
    try:
        return adapter.record_begin(device, arguments, closed)
    except errors.UnavailableError:  # a step that makes an argument has only just been queued
        _runtime.wait("ShardingsWaitBegin")
        return adapter.record_begin(device, arguments, closed)
