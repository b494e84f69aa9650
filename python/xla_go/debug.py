"""Looking inside the runtime: what it holds."""

from __future__ import annotations

import json

from xla_go import _runtime


def live_counts() -> dict[str, int]:
    """What the runtime holds now: device buffers, IR nodes, storages, and unfinished reads.

    A storage counts from its first use until torch's last reference is gone; up to 256 dropped ones wait to be
    told to the runtime together, unless they hold device memory. All zero before the first device use. Not blocking.
    """
    if not _runtime.started():
        return {"buffers": 0, "nodes": 0, "reads": 0, "storages": 0}
    return json.loads(_runtime.call("LiveCounts"))
