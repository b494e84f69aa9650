"""What `torch_xla.distributed.zero_redundancy_optimizer` gives after `xla_go.compat.install()`."""

from __future__ import annotations

from xla_go.distributed.zero import ZeroRedundancyOptimizer

__all__ = ["ZeroRedundancyOptimizer"]
