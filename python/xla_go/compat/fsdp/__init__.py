"""What `torch_xla.distributed.fsdp` gives after `xla_go.compat.install()`: parameters divided over replicas.

Where one program is divided over all devices instead, that is xla_go.spmd.SpmdFullyShardedDataParallel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from xla_go.compat._missing import attribute_error
from xla_go.compat.fsdp.utils import checkpoint_module
from xla_go.distributed import fully_sharded

__all__ = ["XlaFullyShardedDataParallel", "checkpoint_module"]


class XlaFullyShardedDataParallel(fully_sharded.XlaFullyShardedDataParallel):
    """xla_go.distributed.fully_sharded's, with torch_xla's other options.

    These change nothing: a parameter's part is flat already, is made at once, and is gathered again behind a barrier;
    layouts and channels are the program's own, and collectives are merged by XLA. For a type of its own for gathered
    values there is compute_dtype. NotImplementedError for groups given by sharding_rank and sharding_world_size alone.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        reshard_after_forward: bool = True,
        flatten_parameters: bool = False,
        execute_sharding_on_init: bool = True,
        optimization_barrier_in_forward: bool = True,
        optimization_barrier_in_backward: bool = True,
        mark_step_on_finalization: bool = False,
        disable_reshard_on_root: bool = True,
        compute_dtype: torch.dtype | None = None,
        buffer_dtype: torch.dtype | None = None,
        fp32_reduce_scatter: bool = False,
        sharding_groups: Any = None,
        sharding_rank: int | None = None,
        sharding_world_size: int | None = None,
        shard_param_on_dim_0: bool = False,
        pin_layout_in_collective_ops: bool = True,
        coalesce_all_gather_ops: bool = False,
        auto_wrap_policy: Callable[..., Any] | None = None,
        auto_wrapper_callable: Callable[..., Any] | None = None,
        param_init_fn: Callable[[torch.nn.Module], Any] | None = None,
    ) -> None:
        if sharding_groups is None and (sharding_rank is not None or sharding_world_size is not None):
            raise NotImplementedError("XlaFullyShardedDataParallel(): expected sharding_groups with sharding_rank and sharding_world_size: they tell these by themselves")
        super().__init__(
            module,
            reshard_after_forward=reshard_after_forward,
            compute_dtype=compute_dtype,
            buffer_dtype=buffer_dtype,
            fp32_reduce_scatter=fp32_reduce_scatter,
            sharding_groups=sharding_groups,
            auto_wrap_policy=auto_wrap_policy,
            auto_wrapper_callable=auto_wrapper_callable,
            param_init_fn=param_init_fn,
        )


def __getattr__(name: str) -> Any:
    raise attribute_error("torch_xla.distributed.fsdp", name)
