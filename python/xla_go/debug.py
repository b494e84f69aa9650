"""Looking inside the runtime: what it holds, and what it compiled."""

from __future__ import annotations

import json
from typing import Any

from xla_go import _runtime
from xla_go._graph import Graph, graph

__all__ = ["Graph", "compiles", "graph", "live_buffers", "live_counts"]


def live_counts() -> dict[str, int]:
    """What the runtime holds now: device buffers, IR nodes, storages, and unfinished reads.

    A storage counts from its first use until torch's last reference is gone; up to 256 dropped ones wait to be
    told to the runtime together, unless they hold device memory. All zero before the first device use. Not blocking.
    """
    if not _runtime.started():
        return {"buffers": 0, "nodes": 0, "reads": 0, "storages": 0}
    return json.loads(_runtime.call("LiveCounts"))


def live_buffers() -> list[dict[str, Any]]:
    """The values in device memory that tensors hold: storage (torch's views share one), device, shape, bytes, ready.

    What a pending graph alone still needs is not among them. Not blocking.
    """
    return json.loads(_runtime.call("LiveBuffers")) if _runtime.started() else []


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
