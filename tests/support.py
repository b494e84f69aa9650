"""What the tests import; fixtures are in conftest.py."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

# The type of the `child` fixture.
Child = Callable[..., "subprocess.CompletedProcess[str]"]

# The type of fixtures that run code in a process with eight devices.
Eight = Callable[..., "subprocess.CompletedProcess[str]"]

# Begins what a child runs: refuses() calls a function that has to raise an error of a kind, with a part of its text.
REFUSES = """
    def refuses(kind, part, function, *arguments, **keywords):
        try:
            function(*arguments, **keywords)
        except kind as error:
            assert part in str(error), error
        else:
            raise AssertionError(f"expected {kind.__name__}")
"""

# Variables that choose a device or a plugin: a test sets those that it is about.
DEVICE_VARIABLES = (
    "CPU_NUM_DEVICES",
    "PJRT_DEVICE",
    "PJRT_LIBRARY_PATH",
    "PJRT_NAMES_AND_LIBRARY_PATHS",
    "XLA_FLAGS",
    "XLA_GO_FALLBACK",
    "XLA_GO_PLUGIN_PATH",
    "XLA_USE_IFRT",
)


def python_with_jax(root: Path) -> str | None:
    """An interpreter that has JAX: this one, or that of `make peers`."""
    for python in (sys.executable, str(root / ".peers" / "bin" / "python")):
        if Path(python).exists() and subprocess.run([python, "-c", "import jax"], capture_output=True, check=False).returncode == 0:
            return python
    return None


@functools.cache
def trained(program: Path, way: str, devices: int, variable: str = "") -> Any:
    """What a program prints last, as JSON, that trains in some way on so many devices; `variable` is set to 1 for it."""
    environment = {name: value for name, value in os.environ.items() if name not in DEVICE_VARIABLES}
    environment["CPU_NUM_DEVICES"] = str(devices)
    if variable:
        environment[variable] = "1"
    with tempfile.TemporaryDirectory() as directory:
        done = subprocess.run(
            [sys.executable, program, way, directory], env=environment, cwd=directory, capture_output=True, text=True, timeout=300, check=False
        )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])
