"""Batches on their way from a data loader to devices: one thread reads them, others move them, whoever trains takes them."""

from __future__ import annotations

import logging
import os
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import torch

from xla_go import _runtime, errors

__all__ = ["Pipeline"]

logger = logging.getLogger("xla_go")

_JOIN_SLICE = 0.1  # seconds: Ctrl-C is looked at between
_PATIENCE = 10.0  # seconds that a data loader may take for a batch before a stop that waits for it says so

End = object()  # in place of a batch, where there are no more


class _Lane:
    """One device's batches, numbered from 0. Guarded by the pipeline's condition."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.waiting: deque[tuple[int, Any]] = deque()  # on the host
        self.read = 0  # how many have come from the data loader
        self.moved: dict[int, tuple[Any, BaseException | None]] = {}  # on the device, or why not
        self.places = 0  # on the device or on their way there
        self.next = 0  # the one to be taken next
        self.ended = False  # no more come
        self.told = False  # of the failure


class Pipeline:
    """Reads batches ahead and moves them to their devices: batch i to device i % n. A last round that does not come to all
    devices is left out.

    Bounds, for each device: `host_batches` that were read and wait, `device_batches` that are on the device or on their way
    there. Batches keep their order, whatever the number of threads. Its threads hold nothing but the pipeline itself, so
    that its owner's end is noticed; they end with the data, with an error, and with `close`.
    """

    def __init__(
        self, batches: Iterator[Any], devices: list[torch.device], move: Callable[[Any, torch.device], Any],
        host_batches: int, device_batches: int, threads: int,
    ) -> None:  # fmt: skip
        self._move = move
        self._host_batches, self._device_batches = host_batches, device_batches
        self._changed = threading.Condition()
        self._lanes = [_Lane(device) for device in devices]
        self._stopped = False
        # Of the data loader, or of a transfer, which stops everything. Whoever is first to ask gets it, and the pipeline keeps
        # its text alone: the frames that an error has come through lead to the owner, whose end would never come.
        self._failure: BaseException | str | None = None
        self._process = os.getpid()
        self._threads = [threading.Thread(target=self._read, args=(batches,), name="xla_go batch reader", daemon=True)]
        for lane in self._lanes:
            for _ in range(threads):
                self._threads.append(threading.Thread(target=self._transfer, args=(lane,), name=f"xla_go batch transfer {lane.device}", daemon=True))
        for thread in self._threads:
            thread.start()

    def take(self, index: int) -> Any:
        """The next batch of device `index` of the list; End after the last one, and once the pipeline is closed.

        Raises, in its place, what reading or moving it has raised; no more batches come then. Where that was another
        device's, or another has been told, AbortedError with its text. BLOCKING until it is there.
        """
        lane = self._lanes[index]
        with _runtime.measured("BatchWaitTime"), self._changed:
            self._changed.wait_for(lambda: self._stopped or lane.next in lane.moved or (lane.ended and lane.next == lane.read))
            batch: Any = End
            error: BaseException | None = None
            if not self._stopped and lane.next in lane.moved:
                batch, error = lane.moved.pop(lane.next)
                lane.next += 1
                lane.places -= 1
                if error is not None:
                    self._failure = error
                    self._stop()
            if self._failure is not None and batch is End and not lane.told:
                error = self._tell()
                lane.told = True
            self._changed.notify_all()
        if error is None:
            return batch
        try:
            raise error
        finally:
            del error  # which holds this frame

    def _tell(self) -> BaseException:
        if isinstance(self._failure, BaseException):
            error, self._failure = self._failure, "".join(traceback.format_exception(self._failure)).rstrip()
            return error
        return errors.AbortedError(f"another device of this loader has raised\n{self._failure}")

    def close(self, patient: bool = True) -> None:
        """Drops what nobody has taken and ends the threads. Idempotent.

        BLOCKING until the data loader has given the batch that is being read, which cannot be broken off, for ten seconds at
        most where not patient. Ctrl-C breaks it.
        """
        if os.getpid() != self._process:
            return  # a forked child: the threads are not here, and the lock may be held for ever
        with self._changed:
            self._failure = None
            self._stop()
            self._changed.notify_all()
        begun, warned = time.monotonic(), False
        for thread in self._threads:
            while thread.is_alive() and thread is not threading.current_thread():
                thread.join(_JOIN_SLICE)
                if not warned and time.monotonic() - begun > _PATIENCE and thread.is_alive():
                    warned = True
                    logger.warning("the data loader has not given its batch for %.0f s after the loop was left (thread %r)", _PATIENCE, thread.name)
                    if not patient:
                        return

    def _stop(self) -> None:
        self._stopped = True
        for lane in self._lanes:
            lane.waiting.clear()
            lane.moved.clear()

    # ---- on the threads ----

    def _read(self, batches: Iterator[Any]) -> None:
        error: BaseException | None = None
        try:
            while self._read_round(batches):
                pass
        except BaseException as raised:
            error = raised
        finally:
            del batches  # ends its workers
            with self._changed:
                if not self._stopped:
                    self._failure = error
                for lane in self._lanes:
                    lane.ended = True
                self._changed.notify_all()
            del error

    def _read_round(self, batches: Iterator[Any]) -> bool:
        """Reads a batch for each device; False where there are no more."""
        found = []
        for lane in self._lanes:
            with self._changed:
                self._changed.wait_for(lambda lane=lane: self._stopped or len(lane.waiting) < self._host_batches)  # type: ignore[misc]
                if self._stopped:
                    return False
            try:
                with _runtime.measured("BatchLoadTime"):
                    found.append(next(batches))
            except StopIteration:
                return False
        with self._changed:
            if self._stopped:
                return False
            for lane, batch in zip(self._lanes, found, strict=True):
                lane.waiting.append((lane.read, batch))
                lane.read += 1
            self._changed.notify_all()
        return True

    def _transfer(self, lane: _Lane) -> None:
        while self._transfer_one(lane):
            pass

    def _transfer_one(self, lane: _Lane) -> bool:
        """Moves a batch; False where there are no more. Its own function, so that no batch is held while the next is waited for."""
        with self._changed:
            # The place is taken together with the batch, so that the batch which is wanted first always has one.
            self._changed.wait_for(lambda: self._stopped or (lane.waiting and lane.places < self._device_batches) or (lane.ended and not lane.waiting))
            if self._stopped or not lane.waiting:
                return False
            number, batch = lane.waiting.popleft()
            lane.places += 1
            self._changed.notify_all()
        moved: Any = None
        error: BaseException | None = None
        try:
            with _runtime.measured("BatchTransferTime"):
                moved = self._move(batch, lane.device)
        except StopIteration as raised:  # which would end the loop without a word
            error = RuntimeError("moving a batch to the device raised StopIteration")
            error.__cause__ = raised
        except BaseException as raised:
            error = raised
        try:
            with self._changed:
                if self._stopped:
                    return False
                lane.moved[number] = (moved if error is None else End, error)
                self._changed.notify_all()
            return error is None
        finally:
            del error
