"""Lets the processes of a job find and wait for each other: a key-value store, barriers, word of dead ranks.

Rank 0 serves it on its address, and every rank is a client of it::

    from xla_go import coordinator

    coordinator.initialize()  # rank, world size and address as torchrun sets them
    coordinator.set(f"host/{coordinator.rank()}", socket.gethostname())
    coordinator.barrier("ready", timeout=60)

All processes need the job's secret text in ``XLA_GO_COORDINATOR_TOKEN``, which whoever launches them sets
(see `new_token`). It is not encrypted on its way: the network between the processes has to be private.

Where a rank dies, calls that wait raise `UnavailableError` with its number, within the heartbeat timeout
(``DIST_SERVICE_HEARTBEAT_INTERVAL_IN_SEC``, 100 seconds). Ctrl-C breaks out of every call.
"""

from __future__ import annotations

import atexit
import base64
import json
import os
from typing import Any

from xla_go import _runtime, errors

__all__ = [
    "barrier",
    "check",
    "close",
    "delete",
    "get",
    "initialize",
    "initialized",
    "items",
    "new_token",
    "rank",
    "set",
    "try_get",
    "world_size",
]

TOKEN_VARIABLE = "XLA_GO_COORDINATOR_TOKEN"

_DEFAULT_TIMEOUT = 300.0
_LONGEST_TIMEOUT = 1e9  # seconds; "never" in a form that JSON has


def _perform(call: str, **arguments: Any) -> dict[str, Any]:
    token = _runtime.call("CoordinatorBegin", json.dumps({"call": call, **arguments}))
    try:
        while not _runtime.call("CoordinatorWait", token, _runtime.WAIT_SLICE_MS):
            pass  # between the slices Python looks for signals
        reply: dict[str, Any] = json.loads(_runtime.call("CoordinatorResult", token))
        return reply
    finally:
        _runtime.call("CoordinatorEnd", token)


def _value(reply: dict[str, Any]) -> bytes:
    return base64.b64decode(reply["value"] or "")


def initialize(
    rank: int | None = None,
    world_size: int | None = None,
    address: str | None = None,
    port: int | None = None,
    timeout: float = _DEFAULT_TIMEOUT,
) -> None:
    """Joins the job; rank 0 serves it from then on. BLOCKING until rank 0 answers, at most `timeout` seconds.

    What is None comes from the environment: RANK and WORLD_SIZE (or their PJRT_LOCAL_PROCESS_ and LOCAL_
    forms, else 0 and 1), MASTER_ADDR (localhost), XLA_COORDINATOR_PORT (8547). Rank 0 listens on that address
    only. Where it has no token it makes one and puts it into os.environ for the processes that it starts.

    To come before the first device use if the plugin's devices span several processes.

    Raises FailedPreconditionError where it has been called, or a rank other than 0 has no token;
    UnauthenticatedError where rank 0 has another token; AlreadyExistsError where another process has the rank;
    DeadlineExceededError where rank 0 does not answer; UnavailableError where rank 0 cannot listen there.
    """
    reply = _perform(
        "initialize",
        rank=rank, world_size=world_size, address=address, port=port,
        timeout=min(timeout, _LONGEST_TIMEOUT), variables=dict(os.environ),
    )  # fmt: skip
    if not os.environ.get(TOKEN_VARIABLE):
        os.environ[TOKEN_VARIABLE] = reply["token"]
    atexit.register(_leave)


def _leave() -> None:
    """Closes at the end of the process, so that the others do not take this rank for dead."""
    atexit.unregister(_leave)
    if _runtime.usable():
        try:
            close()
        except errors.XlaError as error:
            _runtime.logger.warning("%s", error)


def initialized() -> bool:
    """Whether this process has joined a job and not left it."""
    if not _runtime.usable():
        return False
    try:
        there: bool = _runtime.call("CoordinatorCheck")
    except errors.XlaError:
        return True
    return there


def check() -> None:
    """Raises UnavailableError if a rank is dead. Not blocking.

    For loops that wait in collectives, not here: the news comes with the answers to heartbeats.
    """
    _runtime.call("CoordinatorCheck")


def rank() -> int:
    """The number of this process in its job."""
    return int(_perform("describe")["rank"])


def world_size() -> int:
    """The number of processes in the job."""
    return int(_perform("describe")["world_size"])


def barrier(name: str, timeout: float = _DEFAULT_TIMEOUT) -> None:
    """Waits until all ranks have called it with the same name. BLOCKING, at most `timeout` seconds.

    A name may be used again. Raises DeadlineExceededError with the ranks that had not come; the barrier has
    then failed for all of them. Raises UnavailableError where a rank is dead or has left.
    """
    _perform("barrier", key=name, timeout=min(timeout, _LONGEST_TIMEOUT))


def set(key: str, value: bytes | str) -> None:
    """Gives a key a value, text as UTF-8, which replaces an older one. All ranks see it when this returns."""
    data = value.encode() if isinstance(value, str) else bytes(value)
    _perform("set", key=key, value=base64.b64encode(data).decode())


def get(key: str, timeout: float = _DEFAULT_TIMEOUT) -> bytes:
    """A key's value, once some rank has set it. BLOCKING, at most `timeout` seconds.

    Raises DeadlineExceededError, and UnavailableError where a rank is dead.
    """
    return _value(_perform("get", key=key, timeout=min(timeout, _LONGEST_TIMEOUT)))


def try_get(key: str) -> bytes | None:
    """A key's value, None where it has none. Waits for rank 0's answer only."""
    try:
        return _value(_perform("try_get", key=key))
    except errors.NotFoundError:
        return None


def delete(key: str) -> None:
    """Takes a key's value away; a key without one is no error."""
    _perform("delete", key=key)


def items(prefix: str = "") -> dict[str, bytes]:
    """The keys that begin with prefix and their values, sorted by key."""
    reply = _perform("list", key=prefix)
    keys, values = reply["keys"] or [], reply["values"] or []
    return {
        base64.b64decode(key).decode(errors="surrogateescape"): base64.b64decode(value or "")
        for key, value in zip(keys, values, strict=True)
    }


def close() -> None:
    """Leaves the job. BLOCKING on rank 0 until the others have left, at most 5 minutes
    (``DIST_SERVICE_SHUTDOWN_TIMEOUT_IN_MIN``). Happens at the end of the process by itself. Idempotent.
    """
    if _runtime.usable():
        _perform("close")


def new_token() -> str:
    """Secret text for a new job: a launcher puts it into ``XLA_GO_COORDINATOR_TOKEN`` of all its processes."""
    token: str = _runtime.call("CoordinatorNewToken")
    return token
