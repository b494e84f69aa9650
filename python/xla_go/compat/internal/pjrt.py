"""What `torch_xla._internal.pjrt` gives after `xla_go.compat.install()`: functions on all devices, a thread each.

torch_xla starts a process for each group of devices that the platform drives apart. Here one process drives all devices of a
host: `run_multiprocess` starts that one, `spawn` and `spawn_threads` use the running one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

from xla_go import distributed
from xla_go.compat import xlac


def _on_each_device(function: Callable[[], Any]) -> dict[int, Any]:
    return dict(enumerate(distributed.launch(_ignoring_ordinal, (function,))))


def _ignoring_ordinal(ordinal: int, function: Callable[[], Any]) -> Any:
    return function()


def run_multiprocess(fn: Callable[..., Any], *args: Any, start_method: str = "spawn", **kwargs: Any) -> dict[int, Any]:
    """`fn(*args, **kwargs)` on each device of a new process, which sees the environment as it is now; the results by ordinal.

    What goes there and comes back has to be picklable. start_method is one of multiprocessing's. RuntimeError where this process
    has used the device, which the other one may not get beside it. BLOCKING.
    """
    if xlac._xla_runtime_is_initialized():
        raise RuntimeError("run_multiprocess(): expected a process that has not used the device yet: call it before, or call torch_xla.launch()")
    with ProcessPoolExecutor(1, get_context(start_method)) as processes:
        return processes.submit(_on_each_device, functools.partial(fn, *args, **kwargs)).result()


def spawn(fn: Callable[..., Any], nprocs: int | None = None, start_method: str = "spawn", args: tuple[Any, ...] = ()) -> None:
    """`fn(ordinal, *args)` on a thread for each device, or for one with nprocs=1. BLOCKING."""
    distributed.launch(fn, args, nprocs)


def spawn_threads(fn: Callable[..., Any], args: tuple[Any, ...] = ()) -> None:
    """`fn(ordinal, *args)` on a thread for each device. BLOCKING."""
    distributed.launch(fn, args)
