"""What the tests import; fixtures are in conftest.py."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

# The type of the `child` fixture.
Child = Callable[..., "subprocess.CompletedProcess[str]"]

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
