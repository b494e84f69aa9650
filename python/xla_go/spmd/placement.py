"""torch.distributed's device meshes and placements, as meshes and partition specs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch

from xla_go.spmd import _tensor
from xla_go.spmd.mesh import Axis, Mesh

__all__ = ["MeshPart", "merged_spec", "named_spec", "op_sharding", "partition_spec", "placements_of", "present_spec", "slice_mesh", "tensor_spec"]

# The mesh axes that divide each dimension, by number, the outermost first.
Spec = list[tuple[int, ...]]

ROOT, AXES, FLATTENED, PART = "_xla_go_root", "_xla_go_axes", "_xla_go_flattened", "_xla_go_part"


class MeshPart(NamedTuple):
    """A device mesh as a part of the mesh of all devices that it was cut from."""

    mesh: Mesh
    axes: tuple[tuple[int, ...], ...]  # those that each dimension of the device mesh stands for

    @property
    def all_axes(self) -> tuple[int, ...]:
        """The axes of all of its dimensions."""
        return tuple(axis for axes in self.axes for axis in axes)

    @property
    def whole(self) -> bool:
        """Whether it has all axes of the mesh that divide anything."""
        return all(axis in self.all_axes or size == 1 for axis, size in enumerate(self.mesh.mesh_shape))

    @classmethod
    def of(cls, device_mesh: Any) -> MeshPart:
        """Of a torch DeviceMesh, or all of a Mesh. ValueError where it is not of device xla, or it and those it was cut from have
        not all devices."""
        if isinstance(device_mesh, Mesh):
            return cls(device_mesh, tuple((axis,) for axis in range(len(device_mesh.mesh_shape))))
        if device_mesh.device_type != "xla":
            raise ValueError(f"expected a device mesh of device xla, got {device_mesh}")
        known: MeshPart | None = getattr(device_mesh, PART, None)
        if known is not None:
            return known
        root = getattr(device_mesh, ROOT, device_mesh)
        mesh = Mesh(root.mesh.flatten().tolist(), tuple(root.mesh.shape), root.mesh_dim_names)
        part = cls(mesh, getattr(device_mesh, AXES, tuple((axis,) for axis in range(len(mesh.mesh_shape)))))
        setattr(device_mesh, PART, part)
        return part


def slice_mesh(device_mesh: Any, names: tuple[str, ...], axes: Sequence[tuple[int, ...]] | None = None) -> Any:
    """The device mesh of some dimensions of another one, by name; of the devices that share a place in the others, it has the
    first. axes gives the root's axes of each name, where they are not the mesh's own. KeyError for a name that is none."""
    from torch.distributed.device_mesh import DeviceMesh

    root = getattr(device_mesh, ROOT, device_mesh)
    if axes is None:
        known = dict(getattr(root, FLATTENED, {}))
        known.update(zip(device_mesh.mesh_dim_names or (), getattr(device_mesh, AXES, [(i,) for i in range(device_mesh.mesh.ndim)]), strict=True))
        for name in names:
            if name not in known:
                raise KeyError(f"expected names of dimensions of the mesh ({', '.join(known) or 'it has none'}), got {name!r}")
        axes = [known[name] for name in names]
    used = [axis for each in axes for axis in each]
    if len(set(used)) != len(used):
        raise KeyError(f"expected each dimension of the mesh at most once, got {names}")
    rest = [axis for axis in range(root.mesh.ndim) if axis not in used]
    sizes = [math.prod(root.mesh.shape[axis] for axis in each) for each in axes]
    part = DeviceMesh("xla", root.mesh.permute(*used, *rest).reshape(*sizes, -1)[..., 0], mesh_dim_names=names)
    setattr(part, ROOT, root)
    setattr(part, AXES, tuple(axes))
    return part


def partition_spec(axes: Sequence[tuple[int, ...]], placements: Sequence[Any] | None, dimensions: int) -> Spec:
    """The partition spec for a tensor of so many dimensions, of placements along a device mesh's dimensions, which stand for those
    axes. ValueError for placements that do not fit."""
    from torch.distributed.tensor import Replicate, Shard

    if placements is None:
        placements = [Replicate()] * len(axes)
    if len(placements) != len(axes):
        raise ValueError(f"expected {len(axes)} placements, one for each dimension of the device mesh, got {list(placements)}")
    spec: Spec = [()] * dimensions
    for placement, along in zip(placements, axes, strict=True):
        if type(placement) is Replicate:
            continue
        if type(placement) is not Shard:
            raise ValueError(f"expected placements Shard or Replicate, got {placement}: a tensor of one process has no partial values")
        if not -dimensions <= placement.dim < dimensions:
            raise ValueError(f"expected a Shard of a dimension below {dimensions}, got {placement}")
        spec[placement.dim] += along
    return spec


def named_spec(mesh: Mesh, spec: Spec) -> tuple[Axis | tuple[Axis, ...] | None, ...]:
    """A partition spec as users write it: with the names of axes, if they have any."""
    names: tuple[Axis, ...] = mesh.axis_names or tuple(range(len(mesh.mesh_shape)))
    return tuple(None if not axes else names[axes[0]] if len(axes) == 1 else tuple(names[axis] for axis in axes) for axes in spec)


def placements_of(device_mesh: Any, spec: Any) -> tuple[Any, ...]:
    """Placements along the dimensions of a mesh, of a partition spec over the mesh of all devices."""
    from torch.distributed.tensor import Replicate, Shard

    part = MeshPart.of(device_mesh)
    dimension = {axis: i for i, axes in enumerate(part.mesh.axes(spec)) for axis in axes}
    return tuple(Shard(dimension[axes[0]]) if axes[0] in dimension else Replicate() for axes in part.axes)


def tensor_spec(tensor: torch.Tensor, mesh: Any, placements: tuple[Any, ...]) -> Any:
    """torch's DTensorSpec of a tensor, over a torch DeviceMesh or a Mesh."""
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta

    if isinstance(mesh, Mesh):
        mesh = DeviceMesh("xla", torch.tensor(mesh.device_ids, device="cpu").reshape(mesh.mesh_shape), mesh_dim_names=mesh.axis_names)
    return DTensorSpec(mesh, placements, TensorMeta(tensor.shape, tensor.stride(), tensor.dtype))


def op_sharding(mesh: Mesh, spec: Spec) -> bytes:
    """The serialized OpSharding of a partition spec of axes by number."""
    return mesh.get_op_sharding([_entry(axes) for axes in spec])


def _entry(axes: tuple[int, ...]) -> Axis | tuple[Axis, ...] | None:
    return axes or None


def _specs(mesh: Mesh, dimensions: int) -> Iterator[Spec]:
    """All partition specs of a mesh."""
    axes = [axis for axis, size in enumerate(mesh.mesh_shape) if size > 1]
    for order in itertools.permutations(axes):
        for places in itertools.product(range(-1, dimensions), repeat=len(axes)):
            spec: Spec = [()] * dimensions
            for axis, place in zip(order, places, strict=True):
                if place >= 0:
                    spec[place] += (axis,)
            yield spec


def present_spec(mesh: Mesh, tensor: torch.Tensor) -> Spec:
    """The partition spec by which a tensor on device xla lies. ValueError where no spec of this mesh gives that."""
    import base64

    lies = _tensor.sharding(tensor) if tensor.numel() else None
    if lies is None or lies.text in ("", "{replicated}"):
        return [()] * tensor.dim()
    wanted = base64.b64decode(lies.op_sharding)
    for spec in _specs(mesh, tensor.dim()):
        if op_sharding(mesh, spec) == wanted:
            return spec
    raise ValueError(f"expected a tensor that lies by a partition spec of {mesh}, got one that lies by {lies.text}: call clear_sharding() first")


def merged_spec(part: MeshPart, tensor: torch.Tensor, added: Spec) -> Spec:
    """How a tensor lies when it is divided further, over axes that do not divide it yet. ValueError where they do, otherwise."""
    present = present_spec(part.mesh, tensor)
    used = {axis for axes in present for axis in axes}
    new = {axis for axes in added for axis in axes if part.mesh.mesh_shape[axis] > 1}
    if used & set(part.all_axes):
        kept = [tuple(axis for axis in axes if axis in part.all_axes) for axes in present]
        if kept != [tuple(axis for axis in axes if axis in new) for axes in added]:
            raise ValueError(f"expected a tensor that this mesh does not divide yet, got one that lies by {present}, wanted {added}: call clear_sharding() first")
        return present
    return [old + more for old, more in zip(present, added, strict=True)]
