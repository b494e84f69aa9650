"""launch: a function on every device of this process, a thread each. rendezvous: Python values between them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch

from xla_go import _adapter, _replica, _runtime, _stacks, _step, errors, runtime

__all__ = ["gather_objects", "launch", "rendezvous"]

_JOIN_SLICE = 0.1  # seconds: Ctrl-C is looked at between

_launching = threading.Lock()


class _Thread(threading.Thread):
    """One replica."""

    def __init__(self, replica: _replica.Replica, function: Callable[..., Any], arguments: Sequence[Any]) -> None:
        super().__init__(name=f"replica {replica.ordinal}", daemon=True)
        self.replica = replica
        self.result: Any = None
        self.error: BaseException | None = None
        self._function, self._arguments = function, arguments

    def run(self) -> None:
        _replica.enter(self.replica)
        _adapter.loaded().set_current_device(self.replica.ordinal)
        reason = "it has returned"
        try:
            self.result = self._function(self.replica.ordinal, *self._arguments)
            _step.sync(wait=True, cause="end of a replica")
        except BaseException as error:
            self.error = error
            reason = f"{type(error).__name__}: {error}"
        finally:
            self.replica.meeting.leave()
            _runtime.call("LeaveReplicas", self.replica.ordinal, reason)


def launch(function: Callable[..., Any], args: Sequence[Any] = (), nprocs: int | None = None) -> list[Any]:
    """Runs `function(ordinal, *args)` on the first `nprocs` devices of this process (all by default), and gives the results.

    Each call is a thread whose current device, and whose device "xla", is its own; `sync` there ends its own step alone.
    A program without collectives runs when it is queued. One with collectives runs once every replica has queued it: the
    same operator calls are expected of all. A replica that brings another program, ends, raises, or does not come within
    XLA_GO_REPLICA_TIMEOUT seconds raises on all, and nothing hangs.

    torch.manual_seed in a replica seeds its own device and the CPU's generator, which the threads share.

    BLOCKING until all have ended and what they queued has run. Raises what the first replica raised that did not merely wait
    for another. FailedPreconditionError inside a replica, with `use_spmd` in force, and in a job of several processes.
    """
    if _replica.current() is not None:
        raise errors.FailedPreconditionError("launch(): expected to be called outside of a replica")
    if runtime.is_spmd():
        raise errors.FailedPreconditionError("launch(): expected devices that stand for themselves, but use_spmd() has made xla:0 stand for all")
    if runtime.process_count() > 1:
        raise errors.FailedPreconditionError("launch(): expected one process, got a job of several")
    devices = runtime.addressable_device_count()
    count = devices if nprocs is None else nprocs
    if not 1 <= count <= devices:
        raise ValueError(f"launch(): expected nprocs from 1 to {devices}, the devices of this process, got {nprocs}")
    if not _launching.acquire(blocking=False):
        raise errors.FailedPreconditionError("launch(): expected one launch at a time")
    try:
        torch.zeros(0, device="xla:0")  # so that threads find torch's device module made
        _runtime.call("SetReplicas", count)
        _adapter.loaded().follow_cpu_generator(False)
        try:
            meeting = _replica.Meeting(count)
            frames = tuple(_stacks.lines(ours=True))
            threads = [_Thread(_replica.Replica(i, count, meeting, launched_from=frames), function, args) for i in range(count)]
            for thread in threads:
                thread.start()
            for thread in threads:
                while thread.is_alive():
                    thread.join(_JOIN_SLICE)
        finally:
            _adapter.loaded().follow_cpu_generator(True)
            _runtime.call("SetReplicas", 0)
    finally:
        _launching.release()
    failures = [thread.error for thread in threads if thread.error is not None]
    if failures:
        raise next((error for error in failures if not isinstance(error, errors.AbortedError)), failures[0])
    return [thread.result for thread in threads]


def rendezvous(tag: str, payload: bytes = b"", timeout: float | None = None) -> list[bytes]:
    """The payloads of all replicas, in order, once each has called it with the same tag. Without `launch`, one's own.

    BLOCKING for at most `timeout` seconds, by default XLA_GO_REPLICA_TIMEOUT. DeadlineExceededError where a replica does not
    come, AbortedError where one has ended, and FailedPreconditionError for different tags, on all.
    """
    return gather_objects(tag, payload, timeout)


def gather_objects(tag: str, value: Any, timeout: float | None = None) -> list[Any]:
    """rendezvous with any Python value, which the replicas then share: it is not copied. BLOCKING."""
    replica = _replica.current()
    if replica is None:
        return [value]
    limit = float(os.environ.get("XLA_GO_REPLICA_TIMEOUT", "60")) if timeout is None else timeout
    try:
        met = replica.meeting.exchange(replica.ordinal, (tag, value), limit)
    except TimeoutError:
        raise errors.DeadlineExceededError(f"rendezvous(): waited {limit:g} s at {tag!r} for the other replicas") from None
    except _replica.MeetingEndedError:
        raise errors.AbortedError(f"rendezvous(): a replica has ended, and comes to {tag!r} no more") from None
    tags = [other for other, _ in met]
    if len(set(tags)) > 1:
        raise errors.FailedPreconditionError(f"rendezvous(): expected one tag on all replicas, got {tags}")
    return [brought for _, brought in met]
