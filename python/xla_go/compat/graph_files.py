"""XLA_SAVE_TENSORS_FILE as torch_xla reads it: when a graph ends, and not once at the start."""

from __future__ import annotations

import os

from xla_go import _runtime, debug

_known = ("", "text")


def follow_environment() -> None:
    """Has graphs saved as the variables say now. Starts the runtime where they say something."""
    global _known
    wanted = os.environ.get("XLA_SAVE_TENSORS_FILE", ""), os.environ.get("XLA_SAVE_TENSORS_FMT", "text")
    if wanted != _known:
        debug.save_graphs(wanted[0] or None, wanted[1])
        _known = wanted


def finish() -> None:
    """Waits until the graphs that were ended so far are in their files, where they are saved. BLOCKING; Ctrl-C breaks it."""
    if _known[0]:
        _runtime.wait("QueueWaitBegin")
