"""What `torch_xla._XLAC` is after `xla_go.compat.install()`: the few of its functions that xla_go has."""

from __future__ import annotations

from typing import NoReturn

import torch

from xla_go import runtime, spmd


def _set_buffer_donation(tensor: torch.Tensor, should_donate: bool) -> bool:
    """xla_go.runtime.set_buffer_donation. Unlike torch_xla's it never takes memory from a tensor that is still there."""
    return runtime.set_buffer_donation(tensor, should_donate)


def _get_buffer_donation(tensor: torch.Tensor) -> bool:
    """xla_go.runtime.get_buffer_donation."""
    return runtime.get_buffer_donation(tensor)


def _get_xla_sharding_spec(tensor: torch.Tensor) -> str:
    """How a tensor lies over the devices, as HLO's text writes it; "" where it is not divided."""
    return spmd.wrap_as_sharded_tensor(tensor.detach()).sharding_spec


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(f"xla_go.compat: torch_xla._XLAC.{name} is not provided")
