"""Replicas: the same program on several devices, each with values of its own, and collectives between them.

    import torch, xla_go
    from xla_go import distributed

    def train(ordinal):
        x = torch.full((2,), float(ordinal), device="xla")   # each replica's own device
        total = distributed.all_reduce("sum", x)
        return total.tolist()

    distributed.launch(train, nprocs=4)   # [[6.0, 6.0], ...] on four devices

Names and arguments are those of torch_xla's `xla_model`, and of its `parallel_loader` for batches that are on the device before
they are asked for. Collectives are part of the traced program. Between processes there
is torch.distributed with the backend "xla".
"""

from xla_go.distributed import process_group
from xla_go.distributed.collective import (
    REDUCE_AND,
    REDUCE_MAX,
    REDUCE_MEAN,
    REDUCE_MIN,
    REDUCE_MUL,
    REDUCE_OR,
    REDUCE_SUM,
    all_gather,
    all_reduce,
    all_to_all,
    collective_broadcast,
    collective_permute,
    reduce_scatter,
)
from xla_go.distributed.parallel_loader import MpDeviceLoader, ParallelLoader, PerDeviceLoader
from xla_go.distributed.replicas import gather_objects, launch, rendezvous

process_group.register()

__all__ = [
    "REDUCE_AND",
    "REDUCE_MAX",
    "REDUCE_MEAN",
    "REDUCE_MIN",
    "REDUCE_MUL",
    "REDUCE_OR",
    "REDUCE_SUM",
    "MpDeviceLoader",
    "ParallelLoader",
    "PerDeviceLoader",
    "all_gather",
    "all_reduce",
    "all_to_all",
    "collective_broadcast",
    "collective_permute",
    "gather_objects",
    "launch",
    "reduce_scatter",
    "rendezvous",
]
