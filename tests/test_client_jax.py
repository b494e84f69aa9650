"""Programs that JAX exports run as they are and give JAX's results."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

import jax_programs
from support import Child, python_with_jax
from xla_go import client

pytestmark = pytest.mark.once

RECORDED = Path(__file__).parent / "testdata" / "jax"
NAMES = sorted(path.stem for path in RECORDED.glob("*.mlir"))


def check(directory: Path, name: str) -> None:
    arguments, want = jax_programs.load(directory / f"{name}.npz")
    with client.compile((directory / f"{name}.mlir").read_text(encoding="utf-8"), name=name) as computation:
        results = [result.numpy() for result in computation(*map(client.upload, arguments))]
    assert len(results) == len(want)
    for result, wanted in zip(results, want, strict=True):
        assert result.dtype == wanted.dtype and result.shape == wanted.shape
        if result.dtype.kind in "biu":
            np.testing.assert_array_equal(result, wanted)
            continue
        precise = np.complex64 if result.dtype.kind == "c" else np.float32
        # Of 8-bit and 16-bit floats one unit in the last place.
        tolerance = 1e-5 if result.dtype.itemsize >= 4 else 2**-7
        np.testing.assert_allclose(result.astype(precise), wanted.astype(precise), rtol=tolerance, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_a_recorded_program(name: str) -> None:
    if name in ("bfloat16", "float8"):
        pytest.importorskip("ml_dtypes")
    check(RECORDED, name)


def test_a_recorded_module_of_hlo() -> None:
    with client.compile((RECORDED / "pair.hlo").read_bytes()) as computation:
        x = client.upload(np.full(4, 3, np.float32))
        total, product = computation(x, x)
    assert total.numpy().tolist() == [6.0] * 4 and product.numpy().tolist() == [9.0] * 4


@pytest.mark.slow
def test_the_same_programs_of_the_installed_jax(root: Path, tmp_path: Path) -> None:
    python = python_with_jax(root)
    if python is None:
        pytest.skip("no environment with JAX: make peers")
    subprocess.run([python, str(root / "tests" / "jax_programs.py"), str(tmp_path)], check=True, timeout=300)
    found = sorted(path.stem for path in tmp_path.glob("*.mlir"))
    assert found == NAMES
    for name in found:
        check(tmp_path, name)


SHARDED = """
import sys
from pathlib import Path
import numpy as np
sys.path.insert(0, sys.argv[1])
import jax_programs
from support import Child
from xla_go import client
directory = Path(sys.argv[2])
(x, w), (y, total) = jax_programs.load(directory / "sharded.npz")
devices = client.devices()
assert len(devices) == jax_programs.PARTS
rows, whole = client.sharding.tiled([jax_programs.PARTS, 1]), client.sharding.replicated()
x = client.wrap_shards([client.upload(part, d) for part, d in zip(np.split(x, len(devices)), devices)], x.shape, rows)
w = client.wrap_shards([client.upload(w, d) for d in devices], w.shape, whole)
program = client.compile((directory / "sharded.mlir").read_text(), devices=devices, sharded=True)
assert program.parameters == ["f32[8,3]", "f32[3,5]"] and program.results == ["f32[8,5]", "f32[5]"]
results = program.execute_replicated(x, w)
assert [shard.shape for shard in results[0].shards] == [(2, 5)] * 4
for result, wanted in zip(results, (y, total)):
    np.testing.assert_allclose(result.numpy(), wanted, rtol=1e-5, atol=1e-6)
print("ok")
"""


@pytest.mark.parametrize("ifrt", ["0", "1"])
def test_a_recorded_program_over_several_devices(child: Child, root: Path, ifrt: str) -> None:
    code = SHARDED.replace("sys.argv[1]", repr(str(root / "tests"))).replace("sys.argv[2]", repr(str(RECORDED / "sharded")))
    done = child(code, env={"CPU_NUM_DEVICES": str(jax_programs.PARTS), "XLA_USE_IFRT": ifrt})
    assert done.stdout == "ok\n"
