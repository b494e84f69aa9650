"""What `torch_xla.core.functions` gives after `xla_go.compat.install()`: collectives with gradients, and layers made of them."""

from __future__ import annotations

import importlib
from typing import Any

import torch

from xla_go import distributed, runtime
from xla_go.compat._missing import attribute_error
from xla_go.distributed.batch_norm import SyncBatchNorm

__all__ = ["SyncBatchNorm", "all_gather", "all_reduce", "distributed_mm", "nms"]


def all_reduce(reduce_type: str, value: torch.Tensor, scale: float = 1.0, groups: Any = None) -> torch.Tensor:
    """xla_go.distributed.all_reduce of one tensor."""
    result = distributed.all_reduce(reduce_type, value, scale, groups)
    assert result is not None
    return result


def all_gather(value: torch.Tensor, dim: int = 0) -> torch.Tensor:
    """xla_go.distributed.all_gather of one tensor."""
    return distributed.all_gather(value, dim)


def distributed_mm(w: torch.Tensor, x: torch.Tensor, split: int = 1) -> torch.Tensor:
    """The product of a matrix whose columns are divided over the replicas, and each replica's x.

    w is N x K, x is (K * replicas) x M, the result N x M. x's columns are taken in `split` parts, which bounds the memory that
    the exchange needs. ValueError where sizes do not match.
    """
    replicas, inner, columns = runtime.world_size(), w.size(1), x.size(1)
    if x.size(0) != inner * replicas or columns % split != 0:
        raise ValueError(
            f"distributed_mm(): expected x of {inner * replicas} rows and a multiple of {split} columns, got {tuple(x.shape)}"
        )
    parts = []
    for part in x.split(columns // split, dim=1):
        rows = distributed.all_to_all(part, 0, 1, replicas)  # of every replica's x those that meet w's columns
        parts.append(distributed.reduce_scatter(distributed.REDUCE_SUM, w @ rows, 1.0, 1, replicas))
    return torch.cat(parts, dim=1)


def nms(boxes: torch.Tensor, scores: torch.Tensor, iou_threshold: float) -> torch.Tensor:
    """torchvision's non-maximum suppression, which runs on the CPU: the size of its result depends on values. BLOCKING."""
    on_cpu = importlib.import_module("torchvision.ops").nms
    return on_cpu(boxes.cpu(), scores.cpu(), iou_threshold).to(boxes.device)


def __getattr__(name: str) -> Any:
    raise attribute_error("torch_xla.core.functions", name)
