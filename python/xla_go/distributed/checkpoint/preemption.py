"""Word that this machine will be taken away, and a step at which all processes of a job save."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any

from xla_go import _runtime, coordinator

__all__ = ["Preemption"]

_PREFIX = "preemption/"
# A rank that has the word at step s proposes s + 2. Ranks that meet in a collective each step are at most one step ahead of
# it, so each of them sees the proposal before it comes there.
_MARGIN = 2


class Preemption:
    """Listens for SIGTERM, by which schedulers announce that they take a machine away. `close` gives the signal back.

    The first signal is noted only, a second one does what it did before. Where the process has joined a job (see
    xla_go.coordinator), one rank's word counts for all.
    """

    def __init__(self) -> None:
        """ValueError outside the main thread, as Python's signal.signal raises it."""
        self._notice = threading.Event()
        self._proposed = False
        self._previous: Any = signal.signal(signal.SIGTERM, self._note)
        self._listens = True

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self._notice.is_set():
            self.close()
            signal.raise_signal(signal.SIGTERM)
            return
        self._notice.set()
        _runtime.logger.warning("SIGTERM: this process is to end; its next preemption sync point is near")

    def reached(self, step: int) -> bool:
        """Whether this step is the one at which to save, or after it. In a job it asks rank 0; the ranks have to call it
        at each step, and to meet in each."""
        if not coordinator.initialized():
            return self._notice.is_set()
        if self._notice.is_set() and not self._proposed:
            coordinator.set(f"{_PREFIX}{coordinator.rank()}", str(step + _MARGIN))
            self._proposed = True
        proposals = [int(value) for value in coordinator.items(_PREFIX).values()]
        return bool(proposals) and step >= max(proposals)

    def close(self) -> None:
        """Gives the signal back to whoever had it. Idempotent; in the main thread."""
        if self._listens:
            self._listens = False
            signal.signal(signal.SIGTERM, self._previous)
