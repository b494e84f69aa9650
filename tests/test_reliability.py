"""docs/reliability.md: its tables are those of the data files, and the tests that they name exist."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent / "reliability"))
import fuzz
import page

pytestmark = pytest.mark.once


def test_the_page_is_as_its_data_files() -> None:
    text = page.PAGE.read_text(encoding="utf-8")
    assert page.page(text) == text, "run `make reliability`"


def test_the_tests_that_it_names_exist(root: Path) -> None:
    for kind, fault, outcome, tests in page.rows("faults"):
        assert kind and fault and outcome and tests.split()
        for test in tests.split():
            path, _, name = test.partition(":")
            text = (root / path).read_text(encoding="utf-8")
            assert not name or re.search(rf"^(def|func) {name}\(", text, re.MULTILINE), test


def test_every_target_is_in_the_table() -> None:
    assert [tuple(row[:2]) for row in page.rows("fuzz")] == fuzz.targets()


def test_what_stays_has_its_reason(root: Path) -> None:
    text = (root / "pyproject.toml").read_text(encoding="utf-8")
    ignored = dict(re.findall(r'^"(python/[^"]+)" = \["(S\d+)"\]', text, re.MULTILINE))
    assert ignored == {place: rule for rule, place, why in page.rows("audit") if place.startswith("python/") and why}
