"""How tensors are divided over replicas: along the first dimension, filled up with zeros to parts of one size."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from xla_go import runtime
from xla_go.distributed.collective import REDUCE_MEAN, Groups, all_gather, all_reduce, reduce_scatter


class Parts:
    """The division over the replicas of each group, lists of ordinals of one size; by default over all replicas."""

    def __init__(self, groups: Groups = None) -> None:
        own = runtime.global_ordinal()
        group = list(range(runtime.world_size())) if not groups else next((list(one) for one in groups if own in one), None)
        if group is None:
            raise ValueError(f"expected groups with the replica {own} in one of them, got {groups}")
        self.groups, self.count, self.place = groups, len(group), group.index(own)

    def filled(self, value: torch.Tensor) -> torch.Tensor:
        """The value with rows of zeros until `count` divides them; a scalar counts as one row."""
        rows = value.unsqueeze(0) if value.dim() == 0 else value
        missing = -rows.shape[0] % self.count
        return torch.cat([rows, rows.new_zeros([missing, *rows.shape[1:]])]) if missing else rows

    def of(self, value: torch.Tensor) -> torch.Tensor:
        """A copy of this replica's part of a value that all have."""
        rows = self.filled(value)
        parts = rows.reshape([self.count, rows.shape[0] // self.count, *rows.shape[1:]])
        # The place is a value, so that all replicas trace one program.
        return parts.index_select(0, torch.tensor([self.place]).to(parts.device)).squeeze(0)

    def mean_of(self, value: torch.Tensor) -> torch.Tensor:
        """This replica's part of the mean over the group of what each replica has."""
        return reduce_scatter(REDUCE_MEAN, self.filled(value), 1.0, 0, self.count, self.groups)

    def join(self, part: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
        """The value of that shape, from every replica's part."""
        rows = all_gather(part, 0, self.groups)
        return rows[0] if len(shape) == 0 else rows[: shape[0]]

    def total(self, reduce_type: str, value: torch.Tensor, besides: Groups) -> torch.Tensor:
        """What the replicas of this division's groups have, put together, and then over the groups of `besides`, if any."""
        for among in (self.groups, *([] if besides is None else [besides])):
            value = all_reduce(reduce_type, value, groups=among)
        return value


def scale_to(gradients: Sequence[torch.Tensor], norm: torch.Tensor, max_norm: float) -> None:
    """Scales gradients whose norm is `norm`, all together, so that it is at most max_norm."""
    factor = (max_norm / (norm + 1e-6)).clamp(max=1.0)
    for one in gradients:
        one.mul_(factor.to(one.dtype))
