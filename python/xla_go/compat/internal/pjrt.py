"""What `torch_xla._internal.pjrt` gives after `xla_go.compat.install()`: functions on all devices of this process.

torch_xla starts a process for each group of devices; here one process drives all of them, a thread each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xla_go import distributed


def run_multiprocess(fn: Callable[..., Any], *args: Any, start_method: str = "spawn", **kwargs: Any) -> dict[int, Any]:
    """`fn(*args, **kwargs)` on a thread for each device; the results by ordinal. BLOCKING. Nothing is spawned: start_method is ignored."""
    return dict(enumerate(distributed.launch(lambda ordinal: fn(*args, **kwargs))))


def spawn(fn: Callable[..., Any], nprocs: int | None = None, start_method: str = "spawn", args: tuple[Any, ...] = ()) -> None:
    """`fn(ordinal, *args)` on a thread for each device, or for one with nprocs=1. BLOCKING."""
    distributed.launch(fn, args, nprocs)


def spawn_threads(fn: Callable[..., Any], args: tuple[Any, ...] = ()) -> None:
    """`fn(ordinal, *args)` on a thread for each device. BLOCKING."""
    distributed.launch(fn, args)
