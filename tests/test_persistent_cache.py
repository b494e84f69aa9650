"""Compiled programs outlive their process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support import Child
from xla_go import _adapter

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


def test_a_disk_that_is_full(child: Child, tmp_path: Path) -> None:
    """Files may have 2,000 bytes: programs are compiled and used all the same, and no part of a file stays."""
    directory = tmp_path / "programs"
    done = child(
        """
    import os, resource, torch, xla_go
    from xla_go import _runtime

    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, resource.RLIM_INFINITY))
    for n in range(2, 4):
        assert (torch.ones(n, device="xla") * 2 + n).sum().item() == n * (2 + n)
    _runtime.wait("CacheFlushBegin", timeout=30)
    assert xla_go.metrics.counter_value("PersistentCacheError") == 2
    assert os.listdir(os.environ["XLA_PERSISTENT_CACHE_PATH"]) == ["lock"]
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    torch.ones(5, device="xla").mul(3).cpu()
    _runtime.wait("CacheFlushBegin", timeout=30)
    """,
        env={"XLA_GO_PERSISTENT_CACHE": "1", "XLA_PERSISTENT_CACHE_PATH": str(directory)},
    )
    assert done.stderr == "" and len(list(directory.glob("*.entry"))) == 1


@pytest.mark.parametrize("kind", ["all may write", "a file"])
def test_a_directory_that_cannot_be_trusted(child: Child, tmp_path: Path, kind: str) -> None:
    directory = tmp_path / "programs"
    if kind == "a file":
        directory.write_text("")
    else:
        directory.mkdir()
        directory.chmod(0o777)
    done = child(
        "import torch, xla_go; print(torch.ones(3, device='xla').sum().item())",
        env={"XLA_GO_PERSISTENT_CACHE": "1", "XLA_PERSISTENT_CACHE_PATH": str(directory)},
    )
    assert done.stdout == "3.0\n"
    assert "no programs are kept on disk" in done.stderr and str(directory) in done.stderr and len(done.stderr.splitlines()) == 1
    assert kind == "a file" or list(directory.iterdir()) == []


def test_an_adapter_of_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built = tmp_path / "adapter.so"
    _adapter._check_owner(built)  # none is there
    built.write_text("")
    built.chmod(0o644)
    _adapter._check_owner(built)
    for mode in (0o664, 0o646):
        built.chmod(mode)
        with pytest.raises(ImportError, match=r"writable by its owner alone.*XLA_GO_CACHE_DIR"):
            _adapter._check_owner(built)
    built.chmod(0o600)
    if os.geteuid() == 0:
        os.chown(built, 12345, 12345)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(ImportError, match="belongs to user"):
        _adapter._check_owner(built)
