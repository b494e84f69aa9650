"""The guide docs/client.md: its code runs, and prints what its comments say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support import Child

pytestmark = pytest.mark.once

BLOCK = re.compile(r"^```python *([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# A print whose output a comment gives in full.
SHOWN = re.compile(r"^print\(.*\)  # ([^\n]*)$", re.MULTILINE)


def blocks(root: Path, mark: str) -> list[str]:
    return [code for found, code in BLOCK.findall((root / "docs" / "client.md").read_text(encoding="utf-8")) if found == mark]


def shown(code: str) -> list[str]:
    return [text for text in SHOWN.findall(code) if "..." not in text and not text.startswith("waits")]


def test_the_guide_from_top_to_bottom(child: Child, root: Path) -> None:
    code = "\n".join(blocks(root, ""))
    expected = shown(code)
    assert len(expected) >= 4
    output = child(code).stdout
    for text in expected:
        assert text in output, f"{text}\n--- in\n{output}"
    assert "INVALID_ARGUMENT" in output and "expected shape f32[], got f32[2,3]" in output


def test_the_part_of_several_devices(child: Child, root: Path) -> None:
    (code,) = blocks(root, "devices=4")
    assert "CPU:3" in child(code, env={"CPU_NUM_DEVICES": "4"}).stdout


def test_what_is_not_run_is_python(root: Path) -> None:
    (code,) = blocks(root, "no-run")
    compile(code, "docs/client.md", "exec")
