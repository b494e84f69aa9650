"""Checkpoints of tensors that are divided over devices, through torch.distributed.checkpoint::

    import torch.distributed.checkpoint as dcp
    from xla_go.distributed.checkpoint import SPMDLoadPlanner, SPMDSavePlanner

    dcp.save(state, checkpoint_id="step_100", planner=SPMDSavePlanner())
    dcp.load(state, checkpoint_id="step_100", planner=SPMDLoadPlanner())

A divided tensor is written and read shard by shard, and no copy of all of it is made on the host. How it is divided may differ
between the two: other devices, another mesh, none. `CheckpointManager` saves at intervals, in the background, and keeps the newest.

Names and arguments are those of torch_xla.experimental.distributed_checkpoint.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xla_go.distributed.checkpoint.manager import CheckpointManager
    from xla_go.distributed.checkpoint.optimizer import prime_optimizer
    from xla_go.distributed.checkpoint.planner import SPMDLoadPlanner, SPMDSavePlanner

__all__ = ["CheckpointManager", "SPMDLoadPlanner", "SPMDSavePlanner", "prime_optimizer"]

_MODULES = {"CheckpointManager": "manager", "SPMDLoadPlanner": "planner", "SPMDSavePlanner": "planner", "prime_optimizer": "optimizer"}


# torch.distributed.checkpoint takes most of a second to import: not before somebody asks for a planner.
def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has {', '.join(__all__)}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return list(__all__)
