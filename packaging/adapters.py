"""Builds the torch adapters of one CPython: one for each release of torch that supports it.

    python packaging/adapters.py HEADERS OUTPUT [--python PYTHON]

HEADERS is what torch_headers.py has fetched. OUTPUT then has the files that a wheel takes in by XLA_GO_PREBUILT. Needs
`packaging` and `tqdm`; PYTHON (by default the interpreter that runs this) needs nothing but its C headers.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from email.parser import HeaderParser
from pathlib import Path

from packaging.specifiers import SpecifierSet
from packaging.version import Version
from tqdm import tqdm

ADAPTER = Path(__file__).resolve().parent.parent / "python" / "xla_go" / "_adapter.py"


def version_of(python: str) -> str:
    """Such as "3.12.1"."""
    command = [python, "-c", "import platform; print(platform.python_version())"]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def supported(headers: Path, python_version: str) -> list[Path]:
    """The directories of the releases that are for that CPython, oldest release first."""
    found = []
    for release in sorted((path.parent for path in headers.glob("*/version.py")), key=lambda path: Version(path.name)):
        wanted = HeaderParser().parsestr((release / "METADATA").read_text(encoding="utf-8"))["Requires-Python"]
        if SpecifierSet(wanted or "").contains(python_version, prereleases=True):
            found.append(release)
    return found


def prebuild(python: str, headers: Path, output: Path) -> list[Path]:
    """Builds all of them and gives their files. BLOCKING: about 20 s for each. Raises CalledProcessError where one fails."""
    built = []
    for release in tqdm(supported(headers, version_of(python)), unit="adapter", leave=False):
        command = [python, "-I", str(ADAPTER), "--prebuild", str(output), "--torch", str(release)]
        built.append(Path(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()))
    return built


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("headers", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--python", default=sys.executable)
    arguments = parser.parse_args()
    for path in prebuild(arguments.python, arguments.headers.resolve(), arguments.output):
        print(path)


if __name__ == "__main__":
    main()
