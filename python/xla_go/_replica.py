"""Which replica the running thread is, where it is one of `xla_go.distributed.launch`."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from types import CodeType
from typing import Any


class MeetingEndedError(Exception):
    """A replica has ended and does not come any more."""


class Meeting:
    """Where all replicas exchange Python values: each brings one and gets all, in order."""

    def __init__(self, count: int) -> None:
        self._changed = threading.Condition()
        self._brought: list[Any] = [None] * count
        self._here = 0
        self._met: list[Any] = []  # what was brought to the last one
        self._number = 0  # of times that all have met
        self._over: type[Exception] | None = None

    def exchange(self, ordinal: int, value: Any, timeout: float) -> list[Any]:
        """What each replica brought. BLOCKING until all have come; TimeoutError or MeetingEndedError, on all, where one does not."""
        with self._changed:
            number = self._number
            self._brought[ordinal] = value
            self._here += 1
            if self._here == len(self._brought):
                self._met, self._here = list(self._brought), 0
                self._number += 1
                self._changed.notify_all()
            elif not self._changed.wait_for(lambda: self._number != number or self._over, timeout):
                self._over = TimeoutError
                self._changed.notify_all()
            if self._number == number:
                raise (self._over or TimeoutError)
            return self._met  # nobody can meet again before all have these

    def leave(self) -> None:
        """Lets nobody wait any more: a replica has ended."""
        with self._changed:
            self._over = self._over or MeetingEndedError
            self._changed.notify_all()


@dataclass(frozen=True)
class Replica:
    """A thread's part: the number of its device, how many replicas there are, where they meet, and what its next sync runs."""

    ordinal: int
    count: int
    meeting: Meeting
    after_sync: list[Callable[[], None]] = field(default_factory=list, compare=False)
    launched_from: tuple[tuple[CodeType, int], ...] = ()  # the frames that called `launch`, the innermost first


class _Current(threading.local):
    replica: Replica | None = None


_current = _Current()


def current() -> Replica | None:
    """The running thread's replica; None outside of `launch`."""
    return _current.replica


def enter(replica: Replica | None) -> None:
    """Makes the running thread that replica."""
    _current.replica = replica
