"""What `torch_xla.distributed.fsdp` gives after `xla_go.compat.install()`; sharded training is that of xla_go.spmd."""

from __future__ import annotations

from typing import Any

from xla_go.compat._missing import attribute_error
from xla_go.compat.fsdp.utils import checkpoint_module

__all__ = ["checkpoint_module"]

def __getattr__(name: str) -> Any:
    raise attribute_error("torch_xla.distributed.fsdp", name)
