"""Runs every fuzz target of the Go code for a time and notes how many inputs each has tried, in fuzz.tsv beside this file.

    python tests/reliability/fuzz.py 10m [--note]

What a target finds is kept in its testdata/fuzz and tried by every `go test` from then on. Status 1 where one found something.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
NOTED = Path(__file__).with_name("fuzz.tsv")


def targets() -> list[tuple[str, str]]:
    """Package and name of each target."""
    found = []
    for path in sorted([*ROOT.glob("gosrc/**/*_test.go"), *ROOT.glob("pjrt/**/*_test.go")]):
        for name in re.findall(r"^func (Fuzz\w+)\(", path.read_text(encoding="utf-8"), re.MULTILINE):
            found.append((path.parent.relative_to(ROOT).as_posix(), name))
    return found


def tries(name: str, status: int, output: str) -> int | None:
    """Inputs that a run of `go test -fuzz` says it tried, None where one failed or none was tried.

    When a target's time ends while a worker is busy, Go may call that a failure of the target, with "context deadline exceeded" as all
    it says. Of an input that failed it says more: where it is kept, which seed it is, or that the worker ended.
    """
    tried = re.findall(r"execs: (\d+)", output)
    only_late = re.search(rf"^--- FAIL: {name} \([\d.]+s\)\n\s+context deadline exceeded\nFAIL$", output, re.MULTILINE) and output.count("--- FAIL") == 1 and "Failing input" not in output
    return int(tried[-1]) if tried and int(tried[-1]) > 0 and (status == 0 or only_late) else None


def run(package: str, name: str, time: str) -> int | None:
    """Inputs that were tried, None where one failed, whose report has been printed. BLOCKING for that time and a build."""
    # Go makes each input that reaches new code smaller, for up to a minute each and in a number of tries that grows with the
    # square of its length: a program of some 600 bytes takes all of the time. Ten tries leave the time to the search.
    command = ["go", "test", f"./{package}", "-run", "^$", "-fuzz", f"^{name}$", "-fuzztime", time, "-fuzzminimizetime", "10x"]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    tried = tries(name, done.returncode, done.stdout)
    if tried is None:
        print(done.stdout)
    return tried


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("time", help="for each target, as Go writes it: 30s, 10m")
    parser.add_argument("--note", action="store_true", help="writes the numbers into fuzz.tsv")
    arguments = parser.parse_args()
    rows, failed = [], []
    for package, name in targets():
        tried = run(package, name, arguments.time)
        print(f"{package} {name}: {'FAILED' if tried is None else f'{tried:,} inputs'}", flush=True)
        if tried is None:
            failed.append(name)
            continue
        rows.append(f"{package}\t{name}\t{tried}\t{arguments.time}\n")
        if not arguments.note:
            continue
        NOTED.write_text("# package\ttarget\tinputs\ttime\n" + "".join(rows), encoding="utf-8")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
