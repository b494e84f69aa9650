"""What `torch_xla.experimental.callback` gives after `xla_go.compat.install()`: being told when a tensor has its value."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import torch

import xla_go


def on_ready_callback(tensor: torch.Tensor, callback: Callable[[torch.Tensor], Any]) -> None:
    """Queues the step, and calls `callback(tensor)` on a thread of its own once its work has run."""
    _after_step(lambda: callback(tensor))


def on_ready_event(tensor: torch.Tensor) -> threading.Event:
    """Queues the step; the event is set once the tensor's work has run."""
    event = threading.Event()
    _after_step(event.set)
    return event


def _after_step(function: Callable[[], Any]) -> None:
    xla_go.sync(cause="on_ready_callback()")

    def wait() -> None:
        xla_go.runtime.wait_device_ops()
        function()

    threading.Thread(target=wait, daemon=True).start()
