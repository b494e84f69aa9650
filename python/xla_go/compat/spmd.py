"""What `torch_xla.distributed.spmd` gives after `xla_go.compat.install()`: xla_go.spmd."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import torch

from xla_go import runtime
from xla_go.spmd import *  # noqa: F403
from xla_go.spmd.mesh import Mesh, PartitionSpec
from xla_go.spmd.placement import MeshPart, partition_spec


def convert_to_xla_mesh(dt_mesh: Any) -> Mesh:
    """A torch DeviceMesh of device xla as a Mesh; of a slice that of all devices. ValueError where it has not all of them."""
    return MeshPart.of(dt_mesh).mesh


def convert_to_xla_partition_spec(tensor: torch.Tensor, placement_spec: Sequence[Any]) -> PartitionSpec:
    """The partition spec of placements along the axes of a mesh, for a tensor of that rank."""
    spec = partition_spec([(axis,) for axis in range(len(placement_spec))], placement_spec, tensor.dim())
    return tuple(None if not axes else axes[0] if len(axes) == 1 else axes for axes in spec)


def auto_policy(mod_name: str, mod: torch.nn.Module, mesh: Any) -> NoReturn:
    """Raises UnimplementedError: there is no automatic choice of shardings."""
    runtime.use_spmd(auto=True)
    raise AssertionError("use_spmd(auto=True) raises")


def xla_patched_nn_linear_forward(m: torch.nn.Linear, input: torch.Tensor) -> torch.Tensor:
    """A linear layer that leaves the input's leading dimensions apart, so that each keeps its own sharding."""
    product = torch.einsum("...n,mn->...m", input, m.weight)
    return product if m.bias is None else product + m.bias


def apply_xla_patch_to_nn_linear(module: torch.nn.Module, patched_function: Any = None) -> torch.nn.Module:
    """`torch_xla.distributed.fsdp.utils.apply_xla_patch_to_nn_linear`."""
    from xla_go.compat.fsdp import utils

    return utils.apply_xla_patch_to_nn_linear(module, patched_function)


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(f"xla_go.compat: torch_xla.distributed.spmd.{name} is not provided")
