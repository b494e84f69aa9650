"""What `torch_xla.runtime` gives after `xla_go.compat.install()`: xla_go.runtime and torch_xla's own spellings."""

from __future__ import annotations

import os
from typing import NoReturn

from xla_go.metrics import metric_data
from xla_go.runtime import *  # noqa: F403


def using_pjrt() -> bool:
    """True: there is no other runtime."""
    return True


def pjrt_device() -> str:
    """What the environment's PJRT_DEVICE chooses, the platform in use where it is not set."""
    return os.environ.get("PJRT_DEVICE") or device_type()  # noqa: F405


def get_num_cached_compilation_graph() -> int:
    """Number of programs compiled since the process started or the metrics were cleared."""
    data = metric_data("CompileTime")
    return data[0] if data else 0


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(f"xla_go.compat: torch_xla.runtime.{name} is not provided")
