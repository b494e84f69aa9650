"""What `torch_xla.distributed.spmd` gives after `xla_go.compat.install()`: xla_go.spmd."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import torch

from xla_go import runtime, spmd
from xla_go.spmd import *  # noqa: F403
from xla_go.spmd import mark_sharding_with_gradients
from xla_go.spmd.linear import *  # noqa: F403
from xla_go.spmd.mesh import PartitionSpec
from xla_go.spmd.placement import MeshPart, partition_spec

if TYPE_CHECKING:
    import numpy as np


class Mesh(spmd.Mesh):  # type: ignore[no-redef]
    """xla_go.spmd.Mesh, whose numbers of devices are an array of numpy."""

    @property
    def device_ids(self) -> np.ndarray[Any, Any]:  # type: ignore[override]
        """The numbers of the devices, row-major."""
        import numpy as np

        return np.array(self._ids)


class HybridMesh(spmd.HybridMesh, Mesh):  # type: ignore[no-redef,misc]
    """xla_go.spmd.HybridMesh, whose numbers of devices are an array of numpy."""

    device_ids = Mesh.device_ids  # type: ignore[assignment]


def get_1d_mesh(axis_name: str | None = None) -> Mesh:  # type: ignore[no-redef]
    """All devices along one axis."""
    count = runtime.global_runtime_device_count()
    return Mesh(range(count), (count,), None if axis_name is None else (axis_name,))


def _literal(text: str) -> Any:
    return ast.literal_eval(text) if text else None


def _dynamo_mark_sharding(input: torch.Tensor, device_ids: Sequence[int], mesh_shape: Sequence[int], axis_names: str, partition_spec: str) -> torch.Tensor:
    """mark_sharding as an operator, which a graph of torch.compile can hold: axis_names and partition_spec are Python literals."""
    spmd.mark_sharding(input, Mesh(device_ids, mesh_shape, _literal(axis_names)), _literal(partition_spec))
    return input.view_as(input)


_operators = torch.library.Library("xla", "FRAGMENT")
_operators.define("dynamo_mark_sharding(Tensor input, int[] device_ids, int[] mesh_shape, str axis_names, str partition_spec) -> Tensor")
_operators.impl("dynamo_mark_sharding", _dynamo_mark_sharding, "XLA")
_operators.impl("dynamo_mark_sharding", lambda input, *rest: torch.empty_like(input), "Meta")


def convert_to_xla_mesh(dt_mesh: Any) -> Mesh:
    """A torch DeviceMesh of device xla as a Mesh; of a slice that of all devices. MeshError, which is an
    AssertionError too, where it has not all of them."""
    mesh = MeshPart.of(dt_mesh).mesh
    return Mesh(mesh.device_ids, mesh.mesh_shape, mesh.axis_names)


def convert_to_xla_partition_spec(tensor: torch.Tensor, placement_spec: Sequence[Any]) -> PartitionSpec:
    """The partition spec of placements along the axes of a mesh, for a tensor of that rank."""
    spec = partition_spec([(axis,) for axis in range(len(placement_spec))], placement_spec, tensor.dim())
    return tuple(None if not axes else axes[0] if len(axes) == 1 else axes for axes in spec)


class MarkShardingFunction:
    """xla_go.spmd.mark_sharding_with_gradients, called as an autograd function is."""

    @staticmethod
    def apply(torch_tensor: torch.Tensor, mesh: spmd.Mesh, partition_spec: PartitionSpec) -> torch.Tensor:
        return mark_sharding_with_gradients(torch_tensor, mesh, partition_spec)


def auto_policy(mod_name: str, mod: torch.nn.Module, mesh: Any) -> NoReturn:
    """Raises UnimplementedError: there is no automatic choice of shardings."""
    runtime.use_spmd(auto=True)
    raise AssertionError("use_spmd(auto=True) raises")


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(f"xla_go.compat: torch_xla.distributed.spmd.{name} is not provided")
