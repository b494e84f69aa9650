"""Batch normalization over the batches of all replicas."""

from __future__ import annotations

import torch

from xla_go import runtime
from xla_go.distributed.collective import REDUCE_SUM, all_reduce

__all__ = ["SyncBatchNorm"]


class SyncBatchNorm(torch.nn.Module):
    """Normalizes each channel (dimension 1 of 2 to 5) with the mean and the variance of all replicas' batches together.

    In training it exchanges two numbers a channel between the replicas, forward and backward, and moves running_mean and running_var
    (of the unbiased variance, as torch's does) by `momentum`; in evaluation it normalizes with these. Each replica needs a
    batch of the same size.
    """

    running_mean: torch.Tensor
    running_var: torch.Tensor

    def __init__(self, num_features: int, eps: float = 1e-5, momentum: float = 0.1) -> None:
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.weight = torch.nn.Parameter(torch.ones(num_features))
        self.bias = torch.nn.Parameter(torch.zeros(num_features))
        self.register_buffer("running_mean", torch.zeros(num_features))
        self.register_buffer("running_var", torch.ones(num_features))

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        if not 2 <= batch.dim() <= 5 or batch.shape[1] != self.num_features:
            raise ValueError(f"SyncBatchNorm(): expected 2 to 5 dimensions, the second of {self.num_features}, got {tuple(batch.shape)}")
        shape = [1, -1] + [1] * (batch.dim() - 2)
        if not self.training:
            return self._normalized(batch, self.running_mean, self.running_var, shape)
        others = [dim for dim in range(batch.dim()) if dim != 1]
        replicas = runtime.world_size()
        mean = _mean_of_replicas(batch.mean(others), replicas)
        # Of the differences: squares of values alone would cancel where the mean is large.
        variance = _mean_of_replicas((batch - mean.view(shape)).square().mean(others), replicas)
        count = batch.numel() // self.num_features * replicas
        with torch.no_grad():
            self.running_mean.lerp_(mean, self.momentum)
            self.running_var.lerp_(variance * (count / max(count - 1, 1)), self.momentum)
        return self._normalized(batch, mean, variance, shape)

    def _normalized(self, batch: torch.Tensor, mean: torch.Tensor, variance: torch.Tensor, shape: list[int]) -> torch.Tensor:
        factor = self.weight * torch.rsqrt(variance + self.eps)
        return (batch - mean.view(shape)) * factor.view(shape) + self.bias.view(shape)

    def extra_repr(self) -> str:
        return f"{self.num_features}, eps={self.eps}, momentum={self.momentum}"


def _mean_of_replicas(value: torch.Tensor, replicas: int) -> torch.Tensor:
    total = all_reduce(REDUCE_SUM, value, 1.0 / replicas)
    assert total is not None
    return total
