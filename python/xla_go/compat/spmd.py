"""What `torch_xla.distributed.spmd` gives after `xla_go.compat.install()`: xla_go.spmd."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import torch

from xla_go import runtime
from xla_go.spmd import *  # noqa: F403
from xla_go.spmd import mark_sharding_with_gradients
from xla_go.spmd.linear import *  # noqa: F403
from xla_go.spmd.mesh import Mesh, PartitionSpec
from xla_go.spmd.placement import MeshPart, partition_spec


def convert_to_xla_mesh(dt_mesh: Any) -> Mesh:
    """A torch DeviceMesh of device xla as a Mesh; of a slice that of all devices. ValueError where it has not all of them."""
    return MeshPart.of(dt_mesh).mesh


def convert_to_xla_partition_spec(tensor: torch.Tensor, placement_spec: Sequence[Any]) -> PartitionSpec:
    """The partition spec of placements along the axes of a mesh, for a tensor of that rank."""
    spec = partition_spec([(axis,) for axis in range(len(placement_spec))], placement_spec, tensor.dim())
    return tuple(None if not axes else axes[0] if len(axes) == 1 else axes for axes in spec)


class MarkShardingFunction:
    """xla_go.spmd.mark_sharding_with_gradients, called as an autograd function is."""

    @staticmethod
    def apply(torch_tensor: torch.Tensor, mesh: Mesh, partition_spec: PartitionSpec) -> torch.Tensor:
        return mark_sharding_with_gradients(torch_tensor, mesh, partition_spec)


def auto_policy(mod_name: str, mod: torch.nn.Module, mesh: Any) -> NoReturn:
    """Raises UnimplementedError: there is no automatic choice of shardings."""
    runtime.use_spmd(auto=True)
    raise AssertionError("use_spmd(auto=True) raises")


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(f"xla_go.compat: torch_xla.distributed.spmd.{name} is not provided")
