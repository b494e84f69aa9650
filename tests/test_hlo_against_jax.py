"""The optimized programs of two training steps hold no more dots, fusions, copies, transposes and
scatters than 1.1 times those of the same maths in JAX (golden/jax_opcodes.json)."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.once

GOLDEN = Path(__file__).parent / "golden"
KINDS = ("dot", "fusion", "copy", "transpose", "scatter")


@pytest.mark.parametrize("name", ["mlp", "gpt"])
def test_steady_step_is_no_larger_than_jax(name: str, tmp_path: Path) -> None:
    environment = dict(os.environ, XLA_GO_DUMP_DIRECTORY=str(tmp_path))
    subprocess.run([sys.executable, str(GOLDEN / "steps.py"), name], check=True, env=environment, timeout=300)
    ours = json.loads(max(tmp_path.glob("step_*.opcodes.json")).read_text())
    jax = json.loads((GOLDEN / "jax_opcodes.json").read_text())[name]
    table = {kind: (ours.get(kind, 0), jax.get(kind, 0)) for kind in KINDS}
    print(f"{name}: opcode (xla_go, JAX) {table}")
    too_many = {kind: pair for kind, pair in table.items() if pair[0] > 1.1 * pair[1]}
    assert not too_many, f"opcodes (xla_go, JAX): {table}"
    assert table["dot"][0] > 0
