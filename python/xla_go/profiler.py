"""Where the time goes: a trace of the runtime's own work, for the viewers that read Chrome's format (Perfetto, about:tracing)."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from xla_go import _runtime, errors

__all__ = ["trace"]


@contextmanager
def trace(path: str | os.PathLike[str]) -> Iterator[None]:
    """Writes a trace of the block to `path` (JSON).

    Every span is one that a time metric has observed, under the metric's name: GraphCutTime, LoweringTime, CompileTime,
    ExecuteTime (from the call to the end of the run), TransferToDeviceTime, ReadTime (the wait for a value and its
    copy) and so on. Spans of one name that overlap lie on rows of their own. The end of the block waits for queued
    steps, so that they are in the trace. Raises FailedPreconditionError where another trace is going on.
    """
    if not _runtime.call("StartTrace"):
        raise errors.FailedPreconditionError("trace(): expected no trace to be going on, there is one")
    finished = False
    try:
        yield
        _runtime.wait("QueueWaitBegin")
        if _runtime.started():
            _runtime.wait("WaitDeviceOpsBegin", "")  # the ends of the last runs are told by the device
        finished = True
    finally:
        recorded = json.loads(_runtime.call("StopTrace"))
        if finished or recorded["spans"]:
            with open(path, "w") as file:
                json.dump({"traceEvents": _events(recorded["spans"]), "displayTimeUnit": "ms", "lost": recorded["lost"]}, file)


def _events(spans: list[list[Any]]) -> list[dict[str, Any]]:
    """Chrome's events: a row (tid) holds spans of one name that do not overlap."""
    process = os.getpid()
    events: list[dict[str, Any]] = [{"ph": "M", "name": "process_name", "pid": process, "args": {"name": "xla_go"}}]
    free: dict[str, list[tuple[int, float]]] = {}  # of each name: its rows and when their last span has ended
    rows = 0
    for name, start, duration in sorted(spans, key=lambda span: span[1]):
        lanes = free.setdefault(name, [])
        for position, (row, end) in enumerate(lanes):
            if end <= start:
                lanes[position] = (row, start + duration)
                break
        else:
            rows += 1
            row = rows
            lanes.append((row, start + duration))
            events.append({"ph": "M", "name": "thread_name", "pid": process, "tid": row, "args": {"name": name}})
        events.append({"ph": "X", "name": name, "pid": process, "tid": row, "ts": start, "dur": duration})
    return events
