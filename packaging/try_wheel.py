"""Tries a wheel as a newcomer would: in an environment of its own, outside the tree, without a compiler.

    python packaging/try_wheel.py WHEEL [TORCH ...]

For each requirement of torch ("torch==2.9.1"; the newest by default) it installs the wheel with what that brings, runs
`doctor`, the first Python example of README.md, and the demo, and removes the environment (7 GB) again. BLOCKING: minutes.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PIP = ("-m", "pip", "--disable-pip-version-check", "--quiet")
# What the demo needs beside the wheel.
DEMO = ("scikit-learn", "matplotlib", "tqdm")


def first_example() -> str:
    found = re.search(r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert found is not None, "README.md has no example"
    return found[1]


def attempt(wheel: Path, torch: str) -> None:
    """Installs and runs all of it. BLOCKING. Raises CalledProcessError where a step fails."""
    with tempfile.TemporaryDirectory(prefix="try-wheel-") as scratch:
        folder = Path(scratch)
        interpreter = str(folder / "environment" / "bin" / "python")
        subprocess.run([sys.executable, "-m", "venv", str(folder / "environment")], check=True)
        subprocess.run([interpreter, *PIP, "install", "--no-cache-dir", str(wheel), torch, *DEMO], check=True)
        outside = folder / "outside"
        outside.mkdir()
        (outside / "example.py").write_text(first_example(), encoding="utf-8")
        # The adapter has to be the wheel's own: there is nothing here to build one.
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("XLA_", "PJRT_", "PYTHON"))}
        environment |= {"CXX": "no-compiler", "XLA_GO_CACHE_DIR": str(folder / "cache")}
        for command in (["-m", "xla_go", "doctor"], ["example.py"], [str(ROOT / "examples" / "digits.py")]):
            print(f"--- {torch}: python {' '.join(command)}", flush=True)
            subprocess.run([interpreter, *command], cwd=outside, env=environment, check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("torch", nargs="*", default=["torch"])
    arguments = parser.parse_args()
    for torch in arguments.torch:
        attempt(arguments.wheel.resolve(), torch)


if __name__ == "__main__":
    main()
