"""docs/environment.md names every variable that the code reads, and no other of ours."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.once

OURS = re.compile(r'"((?:XLA|PJRT|CPU_NUM|TPU|PTXLA|XPU|NEURON|TF_CPP|LIBTPU)_[A-Z_]+)"')
# Read to learn what hardware is there; setting it is not for users.
NOT_SETTINGS = {"TPU_ACCELERATOR_TYPE"}


def sources(root: Path) -> list[Path]:
    files = [*(root / "python").rglob("*.py"), *(root / "gosrc").rglob("*.go"), *(root / "pjrt").rglob("*.go"), root / "setup.py"]
    return [file for file in files if not file.name.endswith("_test.go") and "testplugin" not in file.parts]


def test_the_document_is_complete(root: Path) -> None:
    read = set()
    for file in sources(root):
        read |= set(OURS.findall(file.read_text(encoding="utf-8")))
    documented = set(re.findall(r"`([A-Z][A-Z_0-9]+)`", (root / "docs" / "environment.md").read_text(encoding="utf-8")))
    assert read - NOT_SETTINGS <= documented, read - NOT_SETTINGS - documented


def test_what_is_documented_is_read(root: Path) -> None:
    text = "".join(file.read_text(encoding="utf-8") for file in [*sources(root), root / "Makefile"])
    tables = re.findall(r"^\| (`.*?`) \|", (root / "docs" / "environment.md").read_text(encoding="utf-8"), re.MULTILINE)
    for name in re.findall(r"`([A-Z][A-Z_0-9]+)`", "".join(tables)):
        assert name in text, name
