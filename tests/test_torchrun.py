"""The coordinator among processes that torchrun started."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

from test_coordinator import environment, free_port

SCRIPT = """
    import os
    from xla_go import coordinator

    coordinator.initialize()
    rank, world_size = coordinator.rank(), coordinator.world_size()
    assert (rank, world_size) == (int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
    coordinator.set(f"rank/{rank}", f"{rank} of {world_size}")
    coordinator.barrier("all", timeout=60)
    values = [coordinator.get(f"rank/{other}", timeout=60).decode() for other in range(world_size)]
    with open(f"told-{rank}", "w") as file:
        file.write(", ".join(values))
    coordinator.close()
"""


def torchrun(tmp_path: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    (tmp_path / "script.py").write_text(textwrap.dedent(SCRIPT))
    # torchrun's own port is not the coordinator's: torch listens there.
    return subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--nnodes=1", "--nproc-per-node=2", "--master-addr=127.0.0.1", f"--master-port={free_port()}", "script.py"],
        cwd=tmp_path, env=environment(XLA_COORDINATOR_PORT=free_port(), **variables), capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip


def test_two_processes(tmp_path: Path) -> None:
    done = torchrun(tmp_path, XLA_GO_COORDINATOR_TOKEN="token-of-the-tests-0123")
    assert done.returncode == 0, done.stderr
    assert [(tmp_path / f"told-{rank}").read_text() for rank in range(2)] == ["0 of 2, 1 of 2"] * 2


def test_without_a_token(tmp_path: Path) -> None:
    done = torchrun(tmp_path)
    assert done.returncode != 0
    assert "XLA_GO_COORDINATOR_TOKEN" in done.stderr and not list(tmp_path.glob("told-*"))
