"""xla_go.coordinator: processes that meet, exchange values, and hear of one that has died."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support import DEVICE_VARIABLES, Child

pytestmark = pytest.mark.once

COORDINATOR_VARIABLES = ("LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "RANK", "WORLD_SIZE", "XLA_COORDINATOR_PORT", "XLA_GO_COORDINATOR_TOKEN")
HEARTBEAT_TIMEOUT = 2  # seconds

RANK = """
    import sys
    from xla_go import coordinator, errors

    coordinator.initialize()
    rank, world_size = coordinator.rank(), coordinator.world_size()
    coordinator.set(f"rank/{rank}", f"from {rank}")
    values = [coordinator.get(f"rank/{other}", timeout=60).decode() for other in range(world_size)]
    coordinator.barrier("exchanged", timeout=60)
    print("exchanged", *values, flush=True)
    sys.stdin.readline()
    print("waiting", flush=True)
    try:
        coordinator.barrier("never", timeout=60)
    except errors.UnavailableError as error:
        print("told", error, flush=True)
"""


def free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def environment(**variables: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in (*DEVICE_VARIABLES, *COORDINATOR_VARIABLES)}
    return {**kept, "MASTER_ADDR": "127.0.0.1", **variables}


@pytest.fixture
def job(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[list[subprocess.Popen[str]]]:
    """`request.param` ranks, each a process that runs RANK."""
    world_size, port = request.param, free_port()
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(RANK)],
            cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env=environment(
                RANK=str(rank), WORLD_SIZE=str(world_size), XLA_COORDINATOR_PORT=port, XLA_GO_COORDINATOR_TOKEN="token-of-the-tests-0123",
                DIST_SERVICE_HEARTBEAT_INTERVAL_IN_SEC=str(HEARTBEAT_TIMEOUT),
            ),
        )
        for rank in range(world_size)
    ]  # fmt: skip
    yield ranks
    for process in ranks:
        process.kill()
        process.communicate()


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def go_on(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


# Four processes, and all the ways to die, are tested in gosrc/coordinator, where a process starts sooner.
@pytest.mark.parametrize(("job", "victim"), [(2, 1)], indirect=["job"])
def test_a_killed_process_is_reported(job: list[subprocess.Popen[str]], victim: int) -> None:
    for process in job:
        assert line(process) == "exchanged " + " ".join(f"from {rank}" for rank in range(len(job)))
    others = [process for rank, process in enumerate(job) if rank != victim]
    for process in others:
        go_on(process)
        assert line(process) == "waiting"
    killed = time.monotonic()
    job[victim].kill()
    for process in others:
        told = line(process)
        assert told.startswith("told barrier(): ") and f"rank {victim} is dead" in told
    assert time.monotonic() - killed < 1.5 * HEARTBEAT_TIMEOUT  # the rest is for a busy machine
    for process in others:
        assert process.wait(timeout=60) == 0


def result(child: Child, code: str, **variables: str) -> Any:
    clean = dict.fromkeys(COORDINATOR_VARIABLES, "")
    done = child(code, env={**clean, "MASTER_ADDR": "127.0.0.1", "XLA_COORDINATOR_PORT": free_port(), **variables})
    assert "Traceback" not in done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_one_process(child: Child) -> None:
    code = """
        import json, os, signal, threading, time
        from xla_go import coordinator, errors

        found = {"before": coordinator.initialized(), "token": len(coordinator.new_token())}
        def kind(function, *arguments, **keywords):
            try:
                function(*arguments, **keywords)
            except Exception as error:
                return [type(error).__name__, str(error)]
        found["early"] = kind(coordinator.get, "a")
        found["no token"] = kind(coordinator.initialize, rank=1, world_size=2)
        coordinator.initialize()
        found["after"] = [coordinator.initialized(), coordinator.rank(), coordinator.world_size(), coordinator.check()]
        found["made a token"] = len(os.environ["XLA_GO_COORDINATOR_TOKEN"])
        found["twice"] = kind(coordinator.initialize)
        coordinator.set("a/1", b"\\x00\\xff")
        coordinator.set("a/2", "text \u00e9")
        coordinator.set("empty", b"")
        found["values"] = [coordinator.get("a/1").hex(), coordinator.get("a/2").decode(), coordinator.try_get("empty").hex(), coordinator.try_get("b")]
        found["items"] = {key: value.hex() for key, value in coordinator.items("a/").items()}
        coordinator.delete("a/1")
        found["deleted"] = coordinator.try_get("a/1")
        for _ in range(3):
            coordinator.barrier("alone", timeout=10)
        found["timeout"] = kind(coordinator.get, "never", timeout=0.05)
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        start = time.monotonic()
        try:
            coordinator.get("never", timeout=float("inf"))
        except KeyboardInterrupt:
            found["interrupted"] = time.monotonic() - start < 10
        coordinator.close()
        coordinator.close()
        found["closed"] = [coordinator.initialized(), *kind(coordinator.set, "a", b"")]
        coordinator.initialize()
        found["again"] = coordinator.try_get("a/2")
        print(json.dumps(found))
    """
    found = result(child, code)
    assert found["before"] is False and found["token"] >= 16
    assert found["early"][0] == "FailedPreconditionError" and "initialize()" in found["early"][1]
    assert found["no token"][0] == "FailedPreconditionError" and "XLA_GO_COORDINATOR_TOKEN" in found["no token"][1]
    assert found["after"] == [True, 0, 1, None]
    assert found["made a token"] >= 16
    assert found["twice"][0] == "FailedPreconditionError"
    assert found["values"] == ["00ff", "text \u00e9", "", None]
    assert found["items"] == {"a/1": "00ff", "a/2": "text \u00e9".encode().hex()}
    assert found["deleted"] is None
    assert found["timeout"][0] == "DeadlineExceededError" and "never" in found["timeout"][1]
    assert found["interrupted"] is True
    assert found["closed"][:2] == [False, "FailedPreconditionError"]
    assert found["again"] is None


def test_the_device_works_beside_it(child: Child) -> None:
    code = """
        import json, torch
        from xla_go import coordinator
        coordinator.initialize()
        total = (torch.ones(3, device="xla") + 1).sum().item()
        coordinator.set("total", str(total))
        print(json.dumps([total, coordinator.get("total").decode()]))
    """
    assert result(child, code) == [6.0, "6.0"]
