"""Builds the torch adapters of one CPython: one for each release of torch that supports it.

    python packaging/adapters.py HEADERS OUTPUT [--python PYTHON]

HEADERS is what torch_headers.py has fetched. OUTPUT, a directory of that CPython alone, then has the files that a wheel takes
in by XLA_GO_PREBUILT; those that are newer than their sources are kept. Needs `packaging` and `tqdm`; PYTHON (by default the
interpreter that runs this) needs nothing but its C headers.
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

ROOT = Path(__file__).resolve().parent.parent
ADAPTER = ROOT / "python" / "xla_go" / "_adapter.py"


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


def kept(output: Path, release: Path) -> Path | None:
    """The release's adapter of an earlier call, where no source has changed since."""
    version = Version(release.name)
    sources = [ADAPTER, *(ADAPTER.parent / "torch_adapter").iterdir(), *(ROOT / "gosrc" / "dispatch").glob("*.h")]
    changed = max(source.stat().st_mtime for source in sources)
    found = (path for path in output.glob(f"torch_{version.major}.{version.minor}_*.so") if path.stat().st_mtime > changed)
    return next(found, None)


def prebuild(python: str, headers: Path, output: Path) -> list[Path]:
    """Builds those that are missing, removes others, and gives the files. BLOCKING: about 20 s for each.

    Raises CalledProcessError where one fails.
    """
    built = []
    for release in tqdm(supported(headers, version_of(python)), unit="adapter", leave=False):
        path = kept(output, release)
        if path is None:
            command = [python, "-I", str(ADAPTER), "--prebuild", str(output), "--torch", str(release)]
            path = Path(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip())
        built.append(path)
    for other in set(output.glob("torch_*.so")) - set(built):
        other.unlink()
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
