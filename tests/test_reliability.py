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


LATE = """fuzz: elapsed: 15s, execs: 4126 (0/sec), new interesting: 2 (total: 9)
--- FAIL: FuzzDump (15.02s)
    context deadline exceeded
FAIL
exit status 1
FAIL	xla_go/gosrc/hlo	15.060s
"""
FOUND = """fuzz: elapsed: 0s, execs: 251 (5113/sec), new interesting: 1 (total: 2)
--- FAIL: FuzzDump (0.05s)
    --- FAIL: FuzzDump (0.00s)
        fuzz_test.go:40: context deadline exceeded

    Failing input written to testdata/fuzz/FuzzDump/771e938e4458e983
    To re-run:
    go test -run=FuzzDump/771e938e4458e983
FAIL
exit status 1
FAIL	xla_go/gosrc/hlo	0.080s
"""


def test_the_end_of_the_time_is_no_failure_and_a_failing_input_is() -> None:
    assert fuzz.tries("FuzzDump", 1, LATE) == 4126
    assert fuzz.tries("FuzzDump", 0, "execs: 10\nexecs: 12 (1/sec)\nPASS\n") == 12
    assert fuzz.tries("FuzzDump", 1, FOUND) is None
    assert fuzz.tries("FuzzDump", 1, LATE.replace("context deadline exceeded", "fuzzing process hung or terminated unexpectedly: exit status 2")) is None
    assert fuzz.tries("FuzzDump", 1, "failure while testing seed corpus entry: FuzzDump/seed#0\n" + FOUND.replace("Failing input written", "")) is None
    assert fuzz.tries("FuzzDump", 0, "fuzz: elapsed: 1s, execs: 0 (0/sec)\nPASS\n") is None
