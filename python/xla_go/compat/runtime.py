"""What `torch_xla.runtime` gives after `xla_go.compat.install()`: xla_go.runtime and torch_xla's own spellings."""

from __future__ import annotations

from typing import NoReturn

from xla_go.metrics import metric_data
from xla_go.runtime import *  # noqa: F403


def using_pjrt() -> bool:
    """True: there is no other runtime."""
    return True


def get_num_cached_compilation_graph() -> int:
    """Number of programs compiled since the process started or the metrics were cleared."""
    data = metric_data("CompileTime")
    return data[0] if data else 0


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(f"xla_go.compat: torch_xla.runtime.{name} is not provided")
