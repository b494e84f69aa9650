"""Looking inside the runtime: what it holds, and what it compiled."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from xla_go import _adapter, _runtime, _stacks
from xla_go._graph import Graph, graph

__all__ = ["Graph", "compiles", "graph", "live_buffers", "live_counts", "record_stacks", "save_graphs", "scope"]


def live_counts() -> dict[str, int]:
    """What the runtime holds now: device buffers, IR nodes, storages, unfinished reads, and recordings of compiled functions.

    A storage counts from its first use until torch's last reference is gone; up to 256 dropped ones wait to be
    told to the runtime together, unless they hold device memory. All zero before the first device use. Not blocking.
    """
    if not _runtime.started():
        return {"buffers": 0, "nodes": 0, "reads": 0, "recordings": 0, "storages": 0}
    return json.loads(_runtime.call("LiveCounts"))


_HOW_TO_RECORD = "not recorded: set XLA_GO_IR_DEBUG=1, or call xla_go.debug.record_stacks() before it is made"


def live_buffers() -> list[dict[str, Any]]:
    """The values in device memory that tensors hold: storage (torch's views share one), device, shape, bytes, ready, op, made_at.

    op is the operator that made the value, "" where it came from the host. made_at are the lines of the user's code that
    called it, the innermost first, with " < " between them; where they were not recorded it says how they would be.
    What a pending graph alone still needs is not among them. Not blocking.
    """
    if not _runtime.started():
        return []
    found = json.loads(_runtime.call("LiveBuffers"))
    for one in found:
        one["made_at"] = one["made_at"] or _HOW_TO_RECORD
    return found


def save_graphs(path: str | os.PathLike[str] | None, form: str = "text") -> None:
    """Appends the program of every step from now on to a file, path with ".0", ".1" and so on for the devices; None ends that.

    form is "text" (a node a line), "hlo", "stablehlo" or "dot"; InvalidArgumentError for another. XLA_SAVE_TENSORS_FILE and
    XLA_SAVE_TENSORS_FMT do the same from the start. Starts the runtime. Not blocking: steps that are queued are among them.
    """
    _adapter.load().device_count()
    _runtime.call("SaveGraphs", "" if path is None else os.fspath(path), form)


def record_stacks(enable: bool = True) -> bool:
    """Records, for each operator called from now on, which lines of the user's code have called it, or ends that.

    They are shown by `graph`, in XLA_SAVE_TENSORS_FILE, as metadata of the HLO that is compiled, in errors of compiles and
    runs, and by `live_buffers`. It costs some microseconds for each operator, and programs stay the same: none is
    compiled again for it. XLA_GO_IR_DEBUG=1 does it from the start. Gives what was in force before. Starts the runtime.
    """
    _adapter.load().device_count()
    return bool(_runtime.call("RecordStacks", enable))


@contextmanager
def scope(name: str) -> Iterator[None]:
    """A name for the operators that the thread calls in the block: it stands with their lines wherever these are shown.

    That is where stacks are recorded; see record_stacks. In the metadata of HLO it is part of an operator's name, which
    profilers show. Blocks may be nested.
    """
    before = _stacks.scopes.names
    _stacks.scopes.names = (*before, name)
    try:
        yield
    finally:
        _stacks.scopes.names = before


def compiles() -> list[dict[str, Any]]:
    """The programs that were not known, oldest first (the newest 1,024): number, reason, site (the user's file and line),
    nodes, parameters, results, seconds, from_disk, error.

    Waits for queued steps, so that all of them have ended. BLOCKING; other threads run, Ctrl-C breaks it.
    XLA_GO_LOG=compiles writes a line for each to standard error.
    """
    if not _runtime.started():
        return []
    _runtime.wait("QueueWaitBegin")
    return json.loads(_runtime.call("Compiles"))
