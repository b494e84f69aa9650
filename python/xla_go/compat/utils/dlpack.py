"""What `torch_xla.utils.dlpack` gives after `xla_go.compat.install()`."""

from __future__ import annotations

from typing import Any

import torch
import torch.utils.dlpack

import xla_go


def to_dlpack(xla_tensor: torch.Tensor) -> Any:
    """A DLPack capsule of a tensor on device xla. BLOCKING until it has its value."""
    return torch.utils.dlpack.to_dlpack(xla_tensor)


def from_dlpack(ext_tensor: Any) -> torch.Tensor:
    """A tensor on device xla of another library's. See `xla_go.from_dlpack`."""
    return xla_go.from_dlpack(ext_tensor)
