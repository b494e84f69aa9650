"""The command line: python -m opinfo, with tests/ on PYTHONPATH.

    python -m opinfo --results all.jsonl             run everything and keep what came of it
    python -m opinfo --chunk 2                       run what tests/test_opinfo.py runs as number 2
    python -m opinfo --entry add --dtype float32     run one entry
    python -m opinfo --read all.jsonl --update       write the data files from an earlier run
    python -m opinfo --fallbacks                     write docs/fallbacks.md from the data files
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Iterator
from pathlib import Path

from opinfo import expected, report, runner
from opinfo.entry import DTYPES, Outcome


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m opinfo", description="Runs torch's operator database on device xla.")
    parser.add_argument("--entry", action="append", help="an entry's full name; may be given several times")
    parser.add_argument("--dtype", action="append", choices=DTYPES, help="a dtype; may be given several times")
    parser.add_argument("--chunk", type=int, action="append", choices=range(runner.CHUNKS), metavar="N", help="a chunk of the tests; may be given several times")
    parser.add_argument("--part", default="0/1", help="I/N: only every N-th unit from the I-th, to share the work between processes")
    parser.add_argument("--results", type=Path, help="appends each outcome to this file, a line of JSON each")
    parser.add_argument("--read", type=Path, action="append", help="takes the outcomes from this file instead of running")
    parser.add_argument("--limit", type=float, default=runner.LIMIT, help="seconds after which an entry with one dtype is ended")
    parser.add_argument("--update", action="store_true", help="writes the data files so that they agree with the outcomes")
    parser.add_argument("--fallbacks", action="store_true", help="writes docs/fallbacks.md from the data files; runs nothing")
    options = parser.parse_args()
    if options.fallbacks:
        report.DOCUMENT.write_text(report.fallbacks_document())
        return 0
    outcomes = list(read(options.read) if options.read else run(options))
    print(report.summary(outcomes))
    if options.update:
        expected.update(outcomes)
    whole = not options.dtype and options.part == "0/1"
    complaints = expected.check(outcomes) if whole else []
    print(*complaints, sep="\n")
    return 1 if complaints else 0


def read(paths: list[Path]) -> Iterator[Outcome]:
    for path in paths:
        for line in path.read_text().splitlines():
            yield Outcome(**json.loads(line))


def run(options: argparse.Namespace) -> Iterator[Outcome]:
    dtypes = options.dtype or tuple(DTYPES)
    work = runner.units(dtypes)
    if options.chunk:
        work = [unit for n in options.chunk for unit in runner.chunk(n) if unit[1] in dtypes]
    if options.entry:
        unknown = set(options.entry) - {name for name, _ in work}
        if unknown:
            sys.exit(f"python -m opinfo: expected entries of the database that have such a dtype, got {', '.join(sorted(unknown))}")
        work = [unit for unit in work if unit[0] in options.entry]
    index, parts = map(int, options.part.split("/"))
    for outcome in runner.run(work[index::parts], options.limit):
        if options.results:
            with options.results.open("a") as file:
                print(json.dumps(dataclasses.asdict(outcome)), file=file)
        for failure in outcome.failures[:1]:
            print(f"{outcome.entry} {outcome.dtype} {outcome.variant}: {len(outcome.failures)} of {outcome.samples}: {failure}", flush=True)
        yield outcome


if __name__ == "__main__":
    sys.exit(main())
