"""torch's own operator database on device xla: values, gradients, in-place and out= variants equal to the CPU's.

A chunk is a share of the entries in all dtypes; it runs in child processes, so that an operator that ends the process or hangs is a
failure like any other. What fails, and what runs on the CPU, has to be exactly what the data files in opinfo/ say.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from opinfo import expected, report, runner
from opinfo.entry import Outcome

CHUNKS = [pytest.param(n, marks=[pytest.mark.slow] if n >= runner.SAMPLE else []) for n in range(runner.CHUNKS)]


@pytest.mark.parametrize("number", CHUNKS)
def test_operators_equal_the_cpu(number: int) -> None:
    outcomes = list(runner.run(runner.chunk(number)))
    assert sum(o.samples for o in outcomes) > 100
    complaints = expected.check(outcomes)
    if complaints:
        pytest.fail("\n".join(complaints), pytrace=False)


@pytest.mark.slow
def test_operators_compiled_as_stablehlo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_STABLEHLO_COMPILE", "1")
    complaints = expected.check(runner.run(runner.chunk(0)))
    if complaints:
        pytest.fail("\n".join(complaints), pytrace=False)


def test_chunks_are_all_entries() -> None:
    dealt = [unit for n in range(runner.CHUNKS) for unit in runner.chunk(n)]
    assert sorted(dealt) == runner.units()


@pytest.mark.once
def test_a_dead_and_a_hanging_process_are_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # A worker in front of the real one that dies, or stops, when it comes to one of the units.
    code = """
        import os, signal, sys
        from opinfo import worker
        real = worker.run
        def run(op, dtype):
            if op.full_name == "exp":
                os.kill(os.getpid(), signal.SIGSEGV if dtype == "float32" else signal.SIGSTOP)
            return real(op, dtype)
        worker.run = run
        worker.main()
    """
    path = tmp_path / "worker.py"
    path.write_text("\n".join(line[8:] for line in code.splitlines()))
    popen = subprocess.Popen

    def start(command: list[str], **keywords: object) -> subprocess.Popen[str]:
        assert command[:3] == [sys.executable, "-m", "opinfo.worker"]
        return popen([sys.executable, str(path), *command[3:]], **keywords)  # type: ignore[call-overload]

    monkeypatch.setattr(subprocess, "Popen", start)
    outcomes = list(runner.run([("abs", "float32"), ("exp", "float32"), ("exp", "float64"), ("neg", "float32")], limit=20))
    failed = {(o.entry, o.dtype): o.failures[0] for o in outcomes if o.failures}
    assert failed.keys() == {("exp", "float32"), ("exp", "float64")}
    assert signal.SIGSEGV.name in failed["exp", "float32"]
    assert "no result after 20 s" in failed["exp", "float64"]
    assert {o.entry for o in outcomes if not o.failures and o.samples} == {"abs", "neg"}


def test_new_failures_and_stale_lines_are_complaints(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    failures, reasons, fallbacks = (tmp_path / name for name in ("failures", "reasons", "fallbacks"))
    failures.write_text("sin\tfloat32\tforward,out\t*\tfirst\nsin\tfloat64\tforward\t1.0\tsecond\n")
    reasons.write_text("aten::x\twhy\n")
    fallbacks.write_text("sin\taten::x\ncos\taten::x\n")
    for name, path in (("FAILURES", failures), ("REASONS", reasons), ("FALLBACKS", fallbacks)):
        monkeypatch.setattr(expected, name, path)
    monkeypatch.setattr(expected, "RELEASES", (expected.release(),))
    agrees = [
        Outcome("sin", "float32", "forward", 3, ["wrong"], ["aten::x"]),
        Outcome("sin", "float32", "out", 3, ["wrong"]),
        Outcome("sin", "float64", "forward", 3),
    ]
    failures.write_text("sin\tfloat32\tforward,out\t*\tfirst\n")
    assert expected.check(agrees) == []
    differs = [
        Outcome("sin", "float32", "forward", 3, [], ["aten::y"]),
        Outcome("sin", "float32", "out", 3, ["wrong"]),
        Outcome("sin", "float64", "forward", 3, ["wrong too"]),
    ]
    assert expected.check(differs) == [
        "sin float64 forward fails: wrong too",
        "sin float32 forward no longer fails: remove it from failures (reason was: first)",
        "aten::y ran on the CPU and has no reason in reasons",
        "sin ran aten::y on the CPU",
        "sin no longer runs aten::x on the CPU: remove it from fallbacks",
    ]
    expected.update(differs)
    assert expected.lines(failures) == [["sin", "float32", "out", "*", "first"], ["sin", "float64", "forward", "*", "wrong too"]]
    assert expected.lines(fallbacks) == [["cos", "aten::x"], ["sin", "aten::y"]]


@pytest.mark.skipif(expected.release() != expected.RELEASES[-1], reason="the document counts the newest torch's database")
def test_the_list_of_fallbacks_is_as_generated() -> None:
    assert report.DOCUMENT.read_text() == report.fallbacks_document(), f"run `make fallbacks` ({os.path.basename(report.DOCUMENT)} is stale)"
