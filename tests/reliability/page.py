"""Writes the tables of docs/reliability.md from the data files beside this file: `make reliability`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent.parent / "docs" / "reliability.md"
TABLES = ("faults", "fuzz", "fuzz_python", "soak", "sanitizers", "audit")


def rows(name: str) -> Iterator[list[str]]:
    """The lines of a data file, without its comments."""
    for line in (HERE / f"{name}.tsv").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            yield line.split("\t")


def table(head: tuple[str, ...], lines: list[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [list(head), ["---"] * len(head), *lines])


def _shown(tests: str) -> str:
    """Each file once, with the names in it."""
    of_file: dict[str, list[str]] = {}
    for test in tests.split():
        path, _, name = test.partition(":")
        of_file.setdefault(path, []).extend([f"`{name}`"] if name else [])
    return "; ".join(f"`{path}`{': ' if names else ''}{', '.join(names)}" for path, names in of_file.items())


def faults() -> str:
    return table(("kind", "fault", "what comes of it", "shown by"), [[kind, fault, outcome, _shown(tests)] for kind, fault, outcome, tests in rows("faults")])


def fuzz() -> str:
    return table(("package", "target", "inputs", "time"), [[f"`{package}`", f"`{name}`", f"{int(tried):,}", time] for package, name, tried, time in rows("fuzz")])


def fuzz_python() -> str:
    return table(("target", "what it takes", "inputs", "time"), [[f"`{name}`", what, f"{int(tried):,}", time] for name, tried, time, what in rows("fuzz_python")])


def soak() -> str:
    report = json.loads((HERE / "soak.json").read_text(encoding="utf-8"))
    done = ", ".join(f"{count:,} {what}" for what, count in sorted(report["done"].items()))
    lines = [[name.replace("_", " "), f"{found['second_quarter']:g}", f"{found['last_quarter']:g}"] for name, found in report["verdict"].items()]
    head = f"{report['seconds'] / 60:.0f} minutes with torch {report['torch']} on two shared processor cores: {report['compiles']:,} compiles, {done}; {len(report['wrong'])} wrong values, hangs or strange errors."
    return head + "\n\n" + table(("medians", "second quarter", "last quarter"), lines)


def sanitizers() -> str:
    return table(("tool", "over what", "how", "what it found"), list(rows("sanitizers")))


def audit() -> str:
    return table(("rule", "place", "why it stays"), [[f"`{rule}`", f"`{place}`", why] for rule, place, why in rows("audit")])


def page(text: str) -> str:
    """The page with its tables as the data files have them."""
    for name in TABLES:
        begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        before, rest = text.split(begin)
        _, after = rest.split(end)
        text = before + begin + "\n" + globals()[name]() + "\n\n" + end + after
    return text


def main() -> int:
    """Status 1 with `--check` where the page is not as it would be written."""
    text = PAGE.read_text(encoding="utf-8")
    written = page(text)
    if "--check" in sys.argv:
        return int(written != text)
    PAGE.write_text(written, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
