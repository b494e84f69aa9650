"""The traced program can be looked at, which changes nothing."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
import torch

import xla_go
from support import Child

pytestmark = pytest.mark.once


def test_a_program_as_text() -> None:
    x = torch.arange(6.0).reshape(2, 3).to("xla")
    y = (x * 2 + x).sum(1)
    known = len(xla_go.debug.compiles())
    shown = xla_go.debug.graph(y)
    lines = shown.ir.splitlines()
    assert lines[0] == "%0 = parameter() : f32[2,3]"
    assert any("aten::mul.Tensor(%0, %1) : f32[2,3]" in line for line in lines), shown.ir
    assert lines[-1] == f"return %{len(lines) - 2}"
    assert str(shown) == shown.ir
    assert "HloModule step" in shown.hlo and "f32[2,3]" in shown.hlo and "reduce" in shown.hlo
    assert shown.dot.startswith("digraph") and shown.dot.count("->") >= 4 and "peripheries=2" in shown.dot
    assert len(xla_go.debug.compiles()) == known
    assert y.tolist() == [9, 36]


def test_all_that_is_pending() -> None:
    xla_go.sync()
    assert xla_go.debug.graph().ir == "return \n"
    x = torch.ones(3).to("xla")
    y = x.exp()
    z = y + 1
    assert xla_go.debug.graph().ir.splitlines()[-1].count("%") == 2
    assert xla_go.debug.graph(y, y, y[1:]).ir.splitlines()[-1].count("%") == 1
    xla_go.sync()
    assert xla_go.debug.graph(z).ir == "%0 = parameter() : f32[3]\nreturn %0\n"


def test_saving(tmp_path: Path) -> None:
    shown = xla_go.debug.graph(torch.ones(3).to("xla").exp())
    for name in ("a.ir", "a.hlo", "a.dot"):
        shown.save(str(tmp_path / name))
        assert (tmp_path / name).read_text() == getattr(shown, name[2:])
    with pytest.raises(ValueError, match=r"\.svg"):
        shown.save(str(tmp_path / "a.png"))
    if shutil.which("dot"):
        assert "<svg" in shown.svg() and "<svg" in (shown._repr_svg_() or "")
    else:
        assert shown._repr_svg_() is None
        with pytest.raises(RuntimeError, match="graphviz"):
            shown.svg()


def test_bad_input() -> None:
    with pytest.raises(ValueError, match="on device xla"):
        xla_go.debug.graph(torch.ones(2))
    with pytest.raises(xla_go.errors.FailedPreconditionError, match="a value"):
        xla_go.debug.graph(torch.empty(2, device="xla"))


STEPS = """
    import torch, xla_go
    x = torch.ones(3).to("xla")
    for _ in range(3):
        x = x * 2
        xla_go.sync()
    print(x.tolist())
"""


@pytest.mark.parametrize(("form", "line"), [("text", "aten::mul.Tensor("), ("hlo", "HloModule step"), ("dot", "digraph program")])
def test_every_step_is_saved(child: Child, tmp_path: Path, form: str, line: str) -> None:
    environment = {"PJRT_DEVICE": "CPU", "XLA_SAVE_TENSORS_FILE": str(tmp_path / "steps"), "XLA_SAVE_TENSORS_FMT": form}
    assert child(STEPS, env=environment).stdout == "[8.0, 8.0, 8.0]\n"
    saved = (tmp_path / "steps.0").read_text()
    assert saved.count("# step ") == 3 and saved.count(line) == 3, saved
    assert len(re.findall(r"\nGraph Hash: [0-9a-f]{32}\n\n## BEGIN_GRAPH\n(?s:.+?)\n## END_GRAPH\n\n", saved)) == 3, saved


def test_a_file_that_cannot_be_written_stops_no_step(child: Child, tmp_path: Path) -> None:
    done = child(STEPS, env={"PJRT_DEVICE": "CPU", "XLA_SAVE_TENSORS_FILE": str(tmp_path / "nowhere" / "steps")})
    assert done.stdout == "[8.0, 8.0, 8.0]\n"
    assert done.stderr.count("XLA_SAVE_TENSORS_FILE") == 1
