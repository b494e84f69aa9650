"""Compiled programs outlive their process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support import Child

pytestmark = pytest.mark.once

STEP = """
    import json, torch, xla_go
    from torch import nn
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 2)).to("xla")
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    for _ in range(4):
        loss = model(torch.ones(4, 8, device="xla")).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    value = loss.item()
    data = xla_go.metrics.metric_data("CompileTime")
    names = ("PersistentCacheHit", "PersistentCacheMiss", "PersistentCacheDeserializeFailure", "PersistentCacheError")
    print(json.dumps([data[0] if data else 0, value] + [xla_go.metrics.counter_value(name) or 0 for name in names]))
"""


def run(child: Child, directory: Path, **more: str) -> tuple[int, float, int, int, int, int]:
    done = child(STEP, env={"XLA_GO_PERSISTENT_CACHE": "1", "XLA_PERSISTENT_CACHE_PATH": str(directory), "PJRT_DEVICE": "CPU", **more})
    assert done.stderr == ""  # the plugin's log included
    return tuple(json.loads(done.stdout))


def test_a_second_process_compiles_nothing(child: Child, tmp_path: Path) -> None:
    directory = tmp_path / "programs"
    compiles, value, hits, misses, failures, faults = run(child, directory)
    assert (hits, failures, faults) == (0, 0, 0)
    assert compiles == misses > 0
    again = run(child, directory)
    assert again == (0, value, compiles, 0, 0, 0)
    # With flags that matter to the compiler it is another program.
    compiled, _, hits, *_ = run(child, directory, XLA_FLAGS="--xla_cpu_enable_fast_math=true")
    assert (compiled, hits) == (compiles, 0)
    reader = tmp_path / "empty"
    compiled, *_ = run(child, reader, XLA_PERSISTENT_CACHE_READ_ONLY="1")
    assert compiled == compiles and not reader.exists()
    compiled, _, hits, misses, _, _ = run(child, directory, XLA_GO_PERSISTENT_CACHE="0")
    assert (compiled, hits, misses) == (compiles, 0, 0)


def command(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **more}
    return subprocess.run([sys.executable, "-m", "xla_go", "cache", *arguments], env=environment, capture_output=True, text=True, timeout=120, check=False)


def test_the_command_lists_verifies_and_clears(child: Child, tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    compiles = run(child, programs)[0]
    here = ("--directory", str(programs))
    listed = command("list", *here)
    assert listed.returncode == 0 and f"{compiles} programs" in listed.stdout and listed.stdout.count("parameters") == compiles
    assert command("verify", *here).returncode == 0
    victim = next(programs.glob("*.entry"))
    victim.write_bytes(victim.read_bytes()[:-1])
    verified = command("verify", *here)
    assert verified.returncode == 1 and "cut off" in verified.stdout and "1 of them removed" in verified.stdout
    assert not victim.exists()
    assert run(child, programs)[:1] == (1,)
    assert f"removed {compiles} programs" in command("clear", *here).stdout
    assert "0 programs" in command("list", XLA_GO_PERSISTENT_CACHE="1", XLA_PERSISTENT_CACHE_PATH=str(programs)).stdout
    assert "no programs are kept" in command("list", XLA_GO_PERSISTENT_CACHE="0").stdout


def test_initialize_cache_comes_before_the_first_use(child: Child, tmp_path: Path) -> None:
    done = child(
        """
        import sys, torch, xla_go
        xla_go.runtime.initialize_cache(sys.argv[1] if len(sys.argv) > 1 else "programs")
        (torch.ones(3, device="xla") + 1).cpu()
        try:
            xla_go.runtime.initialize_cache("elsewhere")
        except RuntimeError as error:
            print(error)
        """,
        env={"PJRT_DEVICE": "CPU", "XLA_GO_PERSISTENT_CACHE": "0"},
    )
    assert "before the first device use" in done.stdout
    assert len(list((tmp_path / "programs").glob("*.entry"))) == 1
