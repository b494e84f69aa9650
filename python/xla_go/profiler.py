"""Where the time goes: a trace of the runtime's own work, for the viewers that read Chrome's format (Perfetto, about:tracing)."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from xla_go import _runtime, _xspace, errors

__all__ = ["trace"]

_OWNER = "profiler"


@contextmanager
def trace(path: str | os.PathLike[str]) -> Iterator[None]:
    """Writes a trace of the block to `path` (JSON).

    Every span is one that a time metric has observed, under the metric's name: GraphCutTime, LoweringTime, CompileTime,
    ExecuteTime (from the call to the end of the run), TransferToDeviceTime, ReadTime (the wait for a value and its
    copy) and so on. Spans of one name that overlap lie on rows of their own. The end of the block waits for queued
    steps, so that they are in the trace. Raises FailedPreconditionError where another trace is going on.

    The spans are also in a file beside the trace, named `path` and ".xplane.pb", in the form that XProf and TensorBoard read (a
    serialized XSpace): there those of the client's methods have torch_xla's names (PjRtComputationClient::Compile, ...), and the
    programs that ran are there as the compiler has left them, with the names that `xla_go.debug.scope` gave to operators.

    Where the plugin has a profiler (`python -m xla_go doctor` lists Profiler among its extensions), and the runtime has
    started before the block, the plugin's own events are in the trace too, each of its planes (a device, the host's
    threads) as a process; and all that the plugin recorded lies as it is in the file beside the trace. A profiler that fails is
    warned of, and the trace is written without its events.
    """
    if not _runtime.call("StartTrace", _OWNER):
        raise errors.FailedPreconditionError("trace(): expected no trace to be going on, there is one")
    finished = False
    plugin = _start_plugin_profile()
    _runtime.perform("TracePrograms")
    try:
        yield
        _runtime.wait("QueueWaitBegin")
        if _runtime.started():
            _runtime.wait("WaitDeviceOpsBegin", "")  # the ends of the last runs are told by the device
        finished = True
    finally:
        recorded = json.loads(_runtime.call("StopTrace", _OWNER))
        of_plugin, raw = _stop_plugin_profile() if plugin else ([], b"")
        raw += _traced_programs()
        if finished or recorded["spans"]:
            ours = _events(recorded["spans"])
            with open(os.fspath(path) + ".xplane.pb", "wb") as file:
                file.write(raw + _plane(ours))
            events = ours + of_plugin
            with open(path, "w") as text:
                json.dump({"traceEvents": events, "displayTimeUnit": "ms", "lost": recorded["lost"]}, text)


def _start_plugin_profile() -> bool:
    if not _runtime.started():
        return False
    try:
        return bool(_runtime.call("StartPluginProfile"))
    except errors.XlaError as error:
        warnings.warn(f"trace(): the plugin's profiler does not start, its events will be missing: {error}", stacklevel=4)
        return False


def _traced_programs() -> bytes:
    handle = _runtime.call("TracedPrograms")
    return _runtime.take_bytes(handle) if handle else b""


# The client's methods behind metrics of times.
_METHODS = {
    "CompileTime": "Compile",
    "EagerOpCompileTime": "Compile",
    "EagerOpExecuteTime": "ExecuteComputation",
    "ExecuteTime": "ExecuteComputation",
    "ExecuteReplicatedTime": "ExecuteReplicated",
    "TransferFromDeviceTime": "TransferFromDevice",
    "TransferToDeviceTime": "TransferToDevice",
}


def _plane(events: list[dict[str, Any]]) -> bytes:
    """The runtime's spans, of `_events`, as an XSpace."""
    client = "IfrtComputationClient" if os.environ.get("XLA_USE_IFRT", "").lower() in ("1", "true") else "PjRtComputationClient"
    lines: dict[int, tuple[str, list[tuple[str, int, int]]]] = {}
    for one in events:
        if one["ph"] == "M" and one["name"] == "thread_name":
            lines[one["tid"]] = (one["args"]["name"], [])
        elif one["ph"] == "X":
            method = _METHODS.get(one["name"])
            name = f"{client}::{method}" if method else one["name"]
            lines[one["tid"]][1].append((name, round(one["ts"] * 1000), round(one["dur"] * 1000)))
    return _xspace.plane("xla_go", lines.values())


def _stop_plugin_profile() -> tuple[list[dict[str, Any]], bytes]:
    """Ends the plugin's recording and gives its events as Chrome's, and as it made them."""
    try:
        handle = _runtime.call("StopPluginProfile")
        try:
            found = json.loads(_runtime.call("PluginEvents", handle))
        finally:
            raw = _runtime.take_bytes(handle)
    except errors.XlaError as error:
        warnings.warn(f"trace(): the plugin's profiler failed, its events are missing: {error}", stacklevel=4)
        return [], b""
    events: list[dict[str, Any]] = []
    processes: dict[str, int] = {}
    lines: set[tuple[int, int]] = set()
    for one in found:
        plane = one["plane"]
        if plane not in processes:
            processes[plane] = os.getpid() + 1_000_000 * (len(processes) + 1)  # of nobody else
            events.append({"ph": "M", "name": "process_name", "pid": processes[plane], "args": {"name": plane}})
        process, line = processes[plane], one["line_id"]
        if (process, line) not in lines:
            lines.add((process, line))
            events.append({"ph": "M", "name": "thread_name", "pid": process, "tid": line, "args": {"name": one["line"]}})
        events.append({"ph": "X", "name": one["name"], "pid": process, "tid": line, "ts": one["start_ns"] / 1e3, "dur": one["duration_ps"] / 1e6})
    return events, raw


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
