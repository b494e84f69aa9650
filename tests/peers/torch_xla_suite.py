"""Runs torch_xla's own Python tests, from a checkout of its repository, against xla_go under torch_xla's names.

    python tests/peers/torch_xla_suite.py CHECKOUT [PATTERN ...] [--json FILE] [-k TEST ...]

A file of tests passes where its process ends with status 0 and none of its tests fails. Each runs in a process of its own,
from the checkout's test folder, on the CPU. The files are those that pass with torch_xla 2.9.0 itself
(torch_xla_files.tsv, counts included); what does not pass here, and why, is in torch_xla_misses.tsv. Exit status 1 where a
file or a test fails that is not in there, or one passes that is.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tqdm import tqdm

HERE = Path(__file__).parent
WHOLE_FILE = "*"
# These have hundreds of tests, each with programs of its own.
LONG_FILES = {"test_operations.py", "test_core_aten_ops.py", "test_ops.py"}


def rows(name: str) -> list[list[str]]:
    """The rows of a data file beside this one: columns between tabs, comments after #."""
    lines = (HERE / name).read_text(encoding="utf-8").splitlines()
    return [line.split("\t") for line in lines if line and not line.startswith("#")]


@dataclass
class Reference:
    """A test file, and what torch_xla itself makes of it."""

    path: str
    tests: int
    skipped: int
    environment: dict[str, str]

    @classmethod
    def all(cls) -> list[Reference]:
        return [
            cls(path, int(tests), int(skipped), dict(pair.split("=", 1) for pair in "".join(environment).split()))
            for path, tests, skipped, _seconds, *environment in rows("torch_xla_files.tsv")
        ]


@dataclass
class Outcome:
    """What a test file came to here."""

    path: str
    status: int | None  # of the process; None where it was out of time
    seconds: float
    tests: dict[str, str] = field(default_factory=dict)  # test: passed, skipped or failed
    why: dict[str, str] = field(default_factory=dict)  # failed test: the last words of its error
    output: str = ""  # the end of it, where the file did not pass

    @property
    def passed(self) -> bool:
        return self.status == 0 and "failed" not in self.tests.values()

    def counts(self) -> Counter[str]:
        return Counter(self.tests.values())


def read_record(path: Path) -> tuple[dict[str, str], dict[str, str]]:
    """The tests of a record with their outcomes, and the errors. A test that did not end has failed."""
    tests: dict[str, str] = {}
    why: dict[str, str] = {}
    if not path.exists():
        return tests, why
    for line in path.read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        name, outcome = entry["test"], entry["outcome"]
        if tests.get(name) == "failed":
            continue
        tests[name] = outcome
        if outcome == "failed":
            why[name] = entry["why"]
    for name, outcome in tests.items():
        if outcome == "started":
            tests[name], why[name] = "failed", "did not end"
    return tests, why


def run_file(checkout: Path, reference: Reference, arguments: argparse.Namespace) -> Outcome:
    """Runs one test file. BLOCKING."""
    with tempfile.TemporaryDirectory() as folder:
        record = Path(folder) / "record.jsonl"
        environment = {
            **os.environ,
            "PJRT_DEVICE": "CPU",
            "CPU_NUM_DEVICES": "1",
            "TORCH_TEST_DEVICES": str(checkout / "test" / "pytorch_test_base.py"),
            "PYTORCH_TEST_WITH_SLOW": "1",
            "XLA_GO_PERSISTENT_CACHE": "0",  # tests count compiles
            **{name: value.format(folder=folder) for name, value in reference.environment.items()},
        }
        script = checkout / "test" / reference.path
        command = [sys.executable, str(HERE / "recorder.py"), str(record), arguments.names, str(script)]
        for pattern in arguments.k:
            command += ["-k", pattern]
        limit = arguments.long_timeout if reference.path in LONG_FILES else arguments.timeout
        begun = time.monotonic()
        with (Path(folder) / "output").open("w+b") as output:
            try:
                status: int | None = subprocess.run(
                    command, cwd=checkout / "test", env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, timeout=limit
                ).returncode
            except subprocess.TimeoutExpired:
                status = None
            output.seek(0)
            text = output.read().decode(errors="replace")
        outcome = Outcome(reference.path, status, round(time.monotonic() - begun, 1), *read_record(record))
        if not outcome.passed:
            outcome.output = text[-arguments.output :]
        return outcome


def table(outcomes: list[Outcome], references: dict[str, Reference]) -> str:
    """A line for each file, and the sums."""
    lines = [f"{'file':<66} {'result':<9} {'passed':>6} {'failed':>6} {'skipped':>7} {'torch_xla':>9} {'seconds':>7}"]
    for outcome in outcomes:
        result = "ok" if outcome.passed else "time" if outcome.status is None else "failed" if outcome.status >= 0 else f"signal {-outcome.status}"
        counts, tests = outcome.counts(), references[outcome.path].tests
        lines.append(f"{outcome.path:<66} {result:<9} {counts['passed']:>6} {counts['failed']:>6} {counts['skipped']:>7} {tests:>9} {outcome.seconds:>7.1f}")
    total: Counter[str] = sum((outcome.counts() for outcome in outcomes), Counter())
    files = sum(outcome.passed for outcome in outcomes)
    lines.append(f"{files} of {len(outcomes)} files pass; tests: {total['passed']} passed, {total['failed']} failed, {total['skipped']} skipped")
    return "\n".join(lines)


def unexpected(outcomes: list[Outcome], whole: bool) -> list[str]:
    """What differs from torch_xla_misses.tsv: misses that it does not have, and, of whole files, passes that it has as misses."""
    known = {(path, test) for path, test, _reason in rows("torch_xla_misses.tsv")}
    found = []
    for outcome in outcomes:
        failed = [test for test, result in outcome.tests.items() if result == "failed"]
        if not outcome.passed and (outcome.path, WHOLE_FILE) not in known:
            if not failed:
                found.append(f"{outcome.path}: did not pass: {outcome.output.strip().splitlines()[-1:]}")
            found += [f"{outcome.path}: {test} failed: {outcome.why[test]}" for test in failed if (outcome.path, test) not in known]
        if whole:
            missed = {test for path, test in known if path == outcome.path}
            found += [f"{outcome.path}: {test} passes, and is among the misses" for test in sorted(missed - set(failed) - {WHOLE_FILE})]
            if outcome.passed and WHOLE_FILE in missed:
                found.append(f"{outcome.path}: passes, and is among the misses")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path, help="folder of torch_xla's repository at v2.9.0")
    parser.add_argument("patterns", nargs="*", default=[], help="files to run, relative to its test folder, with * and ?; all by default")
    parser.add_argument("-k", action="append", default=[], metavar="TEST", help="only tests whose names contain this, or match it with * (unittest's -k)")
    parser.add_argument("--names", choices=("compat", "torch_xla"), default="compat", help="whose torch_xla to run with: xla_go's, or the real one")
    parser.add_argument("--json", type=Path, help="write what each file and test came to")
    parser.add_argument("--timeout", type=float, default=300, help="seconds for a file")
    parser.add_argument("--long-timeout", type=float, default=3600, help=f"seconds for {', '.join(sorted(LONG_FILES))}")
    parser.add_argument("--output", type=int, default=8000, help="how many characters to keep of the output of a file that fails")
    parser.add_argument("-v", "--verbose", action="store_true", help="show the errors")
    arguments = parser.parse_intermixed_args()
    checkout = arguments.checkout.resolve()
    if not (checkout / "test" / "test_operations.py").is_file():
        parser.error(f"expected a checkout of torch_xla with test/test_operations.py, got {arguments.checkout}")
    references = [one for one in Reference.all() if not arguments.patterns or any(fnmatch.fnmatch(one.path, pattern) for pattern in arguments.patterns)]
    if not references:
        parser.error(f"expected patterns of files in torch_xla_files.tsv, got {' '.join(arguments.patterns)}")
    outcomes: list[Outcome] = []
    with tqdm(references, unit="file") as bar:
        for reference in bar:
            bar.set_postfix_str(reference.path)
            outcome = run_file(checkout, reference, arguments)
            outcomes.append(outcome)
            if arguments.verbose and not outcome.passed:
                bar.write(f"--- {outcome.path}\n{outcome.output}")
            if arguments.json:
                arguments.json.write_text(json.dumps([{**asdict(one), "passed": one.passed} for one in outcomes], indent=1), encoding="utf-8")
    print(table(outcomes, {one.path: one for one in references}))
    differences = unexpected(outcomes, not arguments.k)
    print(*differences, sep="\n")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
