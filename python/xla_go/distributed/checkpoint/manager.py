"""Checkpoints at intervals, in the background, of which the newest are kept."""

from __future__ import annotations

import operator
import os
import re
import shutil
import threading
import warnings
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.stateful import Stateful

from xla_go.distributed.checkpoint.planner import SPMDLoadPlanner, SPMDSavePlanner
from xla_go.distributed.checkpoint.preemption import Preemption

__all__ = ["CheckpointManager"]

_STEP = re.compile("0|-?[1-9][0-9]*")  # a number as `str` writes it: another name is no place that is read or removed
_METADATA = ".metadata"  # torch.distributed.checkpoint writes it last


@contextmanager
def _quiet() -> Iterator[None]:
    """Without torch's warning that there is one process."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "torch.distributed is disabled, unavailable or uninitialized")
        yield


class CheckpointManager:
    """Saves and restores the states of a training run in a directory, each in a directory of its own named by its step.

    path: a local directory, made if it is not there; of several processes all must see it.
    save_interval: `save` and `save_async` save at steps that it divides.
    max_to_keep: after a save only the newest so many are kept; 0 keeps all.
    max_pending_async: `save_async` waits where so many saves are not written yet.
    process_group: a process group of its own for checkpoints, whose collectives run beside those of the training; by default
        one by gloo is made of all processes, where there are several: then all have to make the manager.
    chkpt_on_preemption: after SIGTERM the process is not ended, and the next step is saved whatever its number (see
        `reached_preemption`); a second SIGTERM ends it. Needs the main thread.

    A checkpoint is written next to its place and moved there when it is complete: what `all_steps` gives can be restored,
    whenever the process ended.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        save_interval: int,
        max_to_keep: int | None = 0,
        max_pending_async: int = 1,
        process_group: dist.ProcessGroup | None = None,
        chkpt_on_preemption: bool = True,
    ) -> None:
        keep = max_to_keep or 0
        if "://" in os.fspath(path):
            raise ValueError(f"CheckpointManager(): expected a path of a local directory, got {os.fspath(path)!r}")
        for name, value, least in (("save_interval", save_interval, 1), ("max_to_keep", keep, 0), ("max_pending_async", max_pending_async, 1)):
            if value < least:
                raise ValueError(f"CheckpointManager(): expected {name} of at least {least}, got {value}")
        self._path = Path(path)
        if process_group is None and dist.is_available() and dist.is_initialized():
            process_group = dist.new_group(backend="gloo")
        self._interval, self._keep, self._bound, self._group = save_interval, keep, max_pending_async, process_group
        self._path.mkdir(parents=True, exist_ok=True)
        self._writer = ThreadPoolExecutor(1, "xla_go checkpoint")
        self._pending: deque[Future[None]] = deque()
        self._lock = threading.Lock()  # of the directory
        self._preemption = Preemption() if chkpt_on_preemption else None

    def should_save(self, step: int) -> bool:
        """Whether `save` saves this step: its number is due, or `reached_preemption`."""
        return operator.index(step) % self._interval == 0 or self.reached_preemption(step)

    def save(self, step: int, state_dict: dict[str, Any], force: bool = False) -> bool:
        """Saves a state if it is due, or with `force`; whether it did. BLOCKING until it is written.

        Raises what an earlier save in the background failed with; then nothing is saved.
        """
        if not (self.should_save(step) or force):
            return False
        self.join()
        self._write(step, state_dict, SPMDSavePlanner())
        return True

    def save_async(self, step: int, state_dict: dict[str, Any], force: bool = False) -> bool:
        """`save` in the background: the state may change, or be donated, once it returns.

        BLOCKING until the state is on the host, one copy of each different shard, and while max_pending_async saves are
        not written. A save that fails raises in a later call of this manager.
        """
        if not (self.should_save(step) or force):
            return False
        while self._pending and (self._pending[0].done() or len(self._pending) >= self._bound):
            self._pending.popleft().result()
        planner = SPMDSavePlanner()
        planner.stage({name: value.state_dict() if isinstance(value, Stateful) else value for name, value in state_dict.items()})
        self._pending.append(self._writer.submit(self._write, step, {}, planner))
        return True

    def restore(self, step: int, state_dict: dict[str, Any]) -> None:
        """Loads the state of a step into the tensors of `state_dict`, and replaces the values that are no tensors. BLOCKING.

        ValueError where there is no such step. Errors of SPMDLoadPlanner come in torch's CheckpointException.
        """
        self.join()
        if step not in self.all_steps():
            raise ValueError(f"CheckpointManager.restore(): expected one of the saved steps {self.all_steps()}, got {step}")
        with _quiet():
            place = self._path / str(step)
            dcp.load(state_dict, checkpoint_id=place, planner=SPMDLoadPlanner(), process_group=self._group, no_dist=self._group is None)

    def all_steps(self) -> list[int]:
        """The saved steps, ascending; those that are still being written are not among them."""
        return sorted(int(entry.name) for entry in self._path.iterdir() if _STEP.fullmatch(entry.name) and (entry / _METADATA).is_file())

    def join(self) -> None:
        """Waits until all saves in the background are written, and raises what the first of those that failed did. BLOCKING."""
        failure: BaseException | None = None
        while self._pending:
            error = self._pending.popleft().exception()
            failure = failure or error
        if failure is not None:
            raise failure

    def reached_preemption(self, step: int) -> bool:
        """Whether the process was told to end (SIGTERM), and this is the step to save. False without chkpt_on_preemption.

        In a job of several processes that have joined xla_go.coordinator it is the same step for all, if they call this at
        every step and meet in every step.
        """
        return self._preemption is not None and self._preemption.reached(step)

    def close(self) -> None:
        """`join`, and gives SIGTERM back to who had it before. Idempotent; in the main thread."""
        if self._preemption is not None:
            self._preemption.close()
        try:
            self.join()
        finally:
            self._writer.shutdown()

    def _write(self, step: int, state_dict: dict[str, Any], planner: SPMDSavePlanner) -> None:
        several = self._group is not None
        first = self._group is None or dist.get_rank(self._group) == 0
        unfinished, place = self._path / f".{step}.unfinished", self._path / str(step)
        if first:
            shutil.rmtree(unfinished, ignore_errors=True)
        if several:
            dist.barrier(self._group)
        with _quiet():
            dcp.save(state_dict, checkpoint_id=unfinished, planner=planner, process_group=self._group, no_dist=not several)
        if first:
            with self._lock:
                self._remove(place)
                unfinished.rename(place)
                if self._keep:
                    for old in self.all_steps()[: -self._keep]:
                        self._remove(self._path / str(old))
        if several:
            dist.barrier(self._group)

    def _remove(self, place: Path) -> None:
        """Removes a checkpoint, so that none that is half removed is taken for one."""
        if place.exists():
            removed = place.with_name(f".{place.name}.removed")
            shutil.rmtree(removed, ignore_errors=True)
            place.rename(removed)
            shutil.rmtree(removed)
