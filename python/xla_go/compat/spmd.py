"""What `torch_xla.distributed.spmd` gives after `xla_go.compat.install()`: xla_go.spmd."""

from __future__ import annotations

from typing import NoReturn

from xla_go.spmd import *  # noqa: F403


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(f"xla_go.compat: torch_xla.distributed.spmd.{name} is not provided")
