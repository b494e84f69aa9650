"""The code that the README shows runs as it is."""

from __future__ import annotations

import re
from pathlib import Path

from support import Child


def test_code_runs(child: Child, root: Path, tmp_path: Path) -> None:
    text = (root / "README.md").read_text(encoding="utf-8")
    quick_start, seeing = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    shown = child(quick_start).stdout
    assert float(shown.splitlines()[0]) < 1.0
    assert "Metric: CompileTime" in shown
    assert "aten::" not in shown
    shown = child(seeing).stdout
    assert shown.startswith("%0 = parameter() : f32[8,3]")
    assert "the first program" in shown and "'source': 'data'" in shown
    assert (tmp_path / "trace.json").stat().st_size > 0


def test_commands_exist(root: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (root / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for name in ("README.md", "CONTRIBUTING.md"):
        named = set(re.findall(r"`?make ([a-z-]+)", (root / name).read_text(encoding="utf-8")))
        assert named and named <= targets, named - targets


def test_links_lead_somewhere(root: Path) -> None:
    for document in [root / "README.md", root / "CONTRIBUTING.md", *(root / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", document.read_text(encoding="utf-8")):
            assert (document.parent / target).exists(), f"{document.name}: {target}"
