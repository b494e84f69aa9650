"""What `torch_xla.distributed.parallel_loader` gives after `xla_go.compat.install()`: xla_go.distributed.parallel_loader."""

from __future__ import annotations

from typing import NoReturn

from xla_go.distributed.parallel_loader import *  # noqa: F403


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(f"xla_go.compat: torch_xla.distributed.parallel_loader.{name} is not provided")
