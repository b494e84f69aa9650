"""What `torch_xla.distributed.fsdp.wrap` gives after `xla_go.compat.install()`: torch's policies of which submodules to wrap."""

from __future__ import annotations

from typing import Any

from torch.distributed.fsdp.wrap import (
    always_wrap_policy,
    enable_wrap,
    lambda_auto_wrap_policy,
    size_based_auto_wrap_policy,
    transformer_auto_wrap_policy,
    wrap,
)

from xla_go.compat._missing import attribute_error

__all__ = [
    "always_wrap_policy",
    "enable_wrap",
    "lambda_auto_wrap_policy",
    "size_based_auto_wrap_policy",
    "transformer_auto_wrap_policy",
    "wrap",
]


def __getattr__(name: str) -> Any:
    raise attribute_error("torch_xla.distributed.fsdp.wrap", name)
