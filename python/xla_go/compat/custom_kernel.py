"""What `torch_xla.experimental.custom_kernel` gives after `xla_go.compat.install()`: what needs no kernel of a TPU's own."""

from __future__ import annotations

from typing import Any

import torch

from xla_go.compat._missing import attribute_error


def repeat_with_fixed_output_size(input: torch.Tensor, repeats: torch.Tensor, total_repeat_length: int) -> torch.Tensor:
    """torch.repeat_interleave of a vector, cut to a length, or filled up to it with its last element.

    The result's size does not depend on values, so the device computes it within the step.
    """
    if input.dim() != 1 or repeats.dim() != 1:
        raise ValueError(f"repeat_with_fixed_output_size(): expected two vectors, got {tuple(input.shape)} and {tuple(repeats.shape)}")
    positions = torch.arange(total_repeat_length, device=input.device, dtype=repeats.dtype)
    owners = torch.searchsorted(repeats.cumsum(0), positions, right=True)
    return input[owners.clamp(max=input.shape[0] - 1)]


def __getattr__(name: str) -> Any:
    raise attribute_error("torch_xla.experimental.custom_kernel", name)
