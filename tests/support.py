"""What the tests import; fixtures are in conftest.py."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

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
