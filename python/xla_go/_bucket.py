"""Padding to a few sizes, so that the last batch of an epoch does not need a program of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def pad_to_bucket(
    tensor: torch.Tensor, buckets: Sequence[int] | None = None, dim: int = 0, value: float = 0
) -> tuple[torch.Tensor, torch.Tensor]:
    """Pads a dimension at its end to the smallest bucket that holds it.

    Gives the padded tensor and a mask of shape [bucket] and dtype bool on the same device: true where there is data.
    `buckets` are sizes, the powers of two by default. Weigh the loss with the mask:

        images, valid = xla_go.pad_to_bucket(images, [64])
        loss = (loss_of_each * valid).sum() / valid.sum()

    Pad on the CPU, before the tensor goes to the device: there each size that has not been seen needs a (small) program.
    Raises ValueError where no bucket is large enough.
    """
    import torch

    size = tensor.shape[dim]
    if buckets is None:
        bucket = 1 << max(size - 1, 0).bit_length()
    else:
        fitting = [b for b in buckets if b >= size]
        if not fitting:
            raise ValueError(f"pad_to_bucket(): expected a bucket of at least {size}, the size of dimension {dim}, got {sorted(buckets)}")
        bucket = min(fitting)
    valid = torch.arange(bucket, device=tensor.device) < size
    if bucket == size:
        return tensor, valid
    shape = list(tensor.shape)
    shape[dim] = bucket - size
    return torch.cat([tensor, tensor.new_full(shape, value)], dim), valid
