"""Meshes: the devices in a grid, whose axes tensors are divided along."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from xla_go import errors, runtime
from xla_go.client import sharding

if TYPE_CHECKING:
    import numpy as np

# An axis: its name or number, negative ones from the end; several axes divide a dimension together; None divides nothing.
Axis = int | str
PartitionSpec = Sequence[Axis | tuple[Axis, ...] | None]

__all__ = ["Axis", "HybridMesh", "Mesh", "PartitionSpec", "get_1d_mesh", "get_global_mesh", "set_global_mesh"]


def _strides(shape: Sequence[int]) -> list[int]:
    strides = [1] * len(shape)
    for i in range(len(shape) - 1, 0, -1):
        strides[i - 1] = strides[i] * shape[i]
    return strides


def _walk(shape: Sequence[int], strides: Sequence[int]) -> Iterator[int]:
    """Flat positions in row-major order of `shape`, in memory of `strides`."""
    positions = [0]
    for size, stride in zip(shape, strides, strict=True):
        positions = [position + index * stride for position in positions for index in range(size)]
    yield from positions


def transposed(ids: Sequence[int], shape: Sequence[int], order: Sequence[int]) -> list[int]:
    """Numbers of a grid in the row-major order of its axes in another order."""
    strides = _strides(shape)
    return [ids[position] for position in _walk([shape[axis] for axis in order], [strides[axis] for axis in order])]


class Mesh:
    """The numbers of all devices in a grid of `mesh_shape`, row-major, with names for its axes if there are any.

    errors.MeshError, a ValueError, where each device is not in it exactly once.
    """

    def __init__(
        self, device_ids: np.ndarray[Any, Any] | Iterable[int], mesh_shape: Sequence[int], axis_names: Sequence[str] | None = None
    ) -> None:
        flat = device_ids.ravel().tolist() if hasattr(device_ids, "ravel") else list(device_ids)
        try:
            self._ids: list[int] = [int(number) for number in flat]
            self.mesh_shape: tuple[int, ...] = tuple(int(size) for size in mesh_shape)
        except OverflowError:  # of an infinite number
            raise errors.MeshError(f"Mesh(): expected whole numbers, got device ids {flat} and shape {tuple(mesh_shape)}") from None
        self.axis_names: tuple[str, ...] | None = None if axis_names is None else tuple(axis_names)
        count = math.prod(self.mesh_shape)
        if any(size < 0 for size in self.mesh_shape):
            raise errors.MeshError(f"Mesh(): expected sizes of axes of at least 1, got shape {self.mesh_shape}")
        if len(self._ids) != count:
            raise errors.MeshError(f"Mesh(): expected {count} device ids for shape {self.mesh_shape}, got {len(self._ids)}")
        devices = runtime.global_runtime_device_count()
        if sorted(self._ids) != list(range(devices)):
            raise errors.MeshError(f"Mesh(): expected each of the {devices} devices (0 to {devices - 1}) once, got {self._ids}")
        names = self.axis_names
        if names is not None and (len(names) != len(self.mesh_shape) or len(set(names)) != len(names)):
            raise errors.MeshError(f"Mesh(): expected {len(self.mesh_shape)} different axis names for shape {self.mesh_shape}, got {list(names)}")

    @property
    def device_ids(self) -> list[int]:
        """The numbers of the devices, row-major."""
        return list(self._ids)

    def size(self) -> int:
        """Number of devices."""
        return math.prod(self.mesh_shape)

    def shape(self) -> OrderedDict[Axis, int]:
        """The sizes of the axes by name, or by number where they have none."""
        names: Iterable[Axis] = self.axis_names or range(len(self.mesh_shape))
        return OrderedDict(zip(names, self.mesh_shape, strict=True))

    def get_logical_mesh(self) -> np.ndarray[Any, Any]:
        """The device ids as a numpy array of the mesh's shape."""
        import numpy as np

        return np.array(self._ids).reshape(self.mesh_shape)

    def get_axis_name_idx(self, name: str) -> int | None:
        """The number of a named axis, None where there is none."""
        names = self.axis_names or ()
        return names.index(name) if name in names else None

    def axis(self, axis: Axis) -> int:
        """The number of an axis that is given by name or number; ValueError where there is none."""
        if isinstance(axis, str):
            index = self.get_axis_name_idx(axis)
            if index is None:
                raise ValueError(f"expected an axis of the mesh ({', '.join(self.axis_names or ()) or 'its axes have no names'}), got {axis!r}")
            return index
        rank = len(self.mesh_shape)
        if not -rank <= axis < rank:
            raise ValueError(f"expected an axis of the mesh from {-rank} to {rank - 1}, got {axis}")
        return axis % rank

    def axes(self, partition_spec: PartitionSpec) -> list[tuple[int, ...]]:
        """The mesh axes that divide each dimension, by number; ValueError where one is there twice or not at all."""
        divided = [
            () if entry is None else tuple(self.axis(a) for a in (entry if isinstance(entry, (tuple, list)) else (entry,))) for entry in partition_spec
        ]
        used = [axis for axes in divided for axis in axes]
        if len(set(used)) != len(used):
            raise ValueError(f"expected each axis of the mesh at most once in the partition spec, got {tuple(partition_spec)}")
        return divided

    def get_op_sharding(self, partition_spec: PartitionSpec) -> bytes:
        """The serialized OpSharding of a tensor whose dimensions are divided along those axes; the other axes have copies."""
        divided = self.axes(partition_spec)
        used = [axis for axes in divided for axis in axes]
        rest = [axis for axis in range(len(self.mesh_shape)) if axis not in used]
        tiles = [math.prod(self.mesh_shape[axis] for axis in axes) for axes in divided]
        if math.prod(tiles) == 1:
            return sharding.replicated()
        copies = math.prod(self.mesh_shape[axis] for axis in rest)
        devices = transposed(self._ids, self.mesh_shape, used + rest)
        return sharding.tiled([*tiles, copies], devices, replicate_on_last=True) if copies > 1 else sharding.tiled(tiles, devices)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mesh) and (self._ids, self.mesh_shape, self.axis_names) == (other._ids, other.mesh_shape, other.axis_names)

    def __hash__(self) -> int:
        return hash((tuple(self._ids), self.mesh_shape, self.axis_names))

    def __str__(self) -> str:
        return f"{{'device_ids': {self._ids}, 'mesh_shape': {self.mesh_shape}, 'axis_names': {self.axis_names}}}"

    def __repr__(self) -> str:
        return f"Mesh(device_ids={self._ids}, mesh_shape={self.mesh_shape}, axis_names={self.axis_names})"


class HybridMesh(Mesh):
    """A mesh over slices of devices: axis i has dcn_mesh_shape[i] slices of ici_mesh_shape[i] devices each.

    Within a slice devices are linked fast (ICI), between slices by the data centre's network (DCN). The slice of a device
    is its attribute `slice_index`, where the plugin tells one, else the process that drives it; with one of
    dcn_mesh_shape everywhere there is one slice. MeshError, a ValueError, where the devices do not divide so.
    """

    def __init__(
        self, *, ici_mesh_shape: Sequence[int], dcn_mesh_shape: Sequence[int] | None = None, axis_names: Sequence[str] | None = None
    ) -> None:
        ici = tuple(ici_mesh_shape)
        dcn = tuple(dcn_mesh_shape) if dcn_mesh_shape else (1,) * len(ici)
        if len(ici) != len(dcn):
            raise errors.MeshError(f"HybridMesh(): expected as many axes in both shapes, got {ici} and {dcn}")
        self.ici_mesh_shape, self.dcn_mesh_shape = ici, dcn
        slices = _slices(math.prod(dcn))
        if any(len(devices) != math.prod(ici) for devices in slices):
            raise errors.MeshError(f"HybridMesh(): expected {math.prod(dcn)} slices of {math.prod(ici)} devices, got {[len(devices) for devices in slices]}")
        # Axis i of the mesh is the slices along it, and in each the devices along it.
        ids = [device for devices in slices for device in devices]
        order = [axis for pair in zip(range(len(dcn)), range(len(dcn), 2 * len(dcn)), strict=True) for axis in pair]
        shape = tuple(outer * inner for outer, inner in zip(dcn, ici, strict=True))
        super().__init__(transposed(ids, dcn + ici, order), shape, axis_names)


def _slices(wanted: int) -> list[list[int]]:
    attributes = runtime.global_runtime_device_attributes()
    if wanted == 1:
        return [list(range(len(attributes)))]
    by_slice: dict[int, list[int]] = {}
    for number, device in enumerate(attributes):
        index = device.get("slice_index", device.get("process_index"))
        if index is None:
            raise errors.MeshError(f"HybridMesh(): expected devices with an attribute slice_index for {wanted} slices, got {sorted(device)}: use one slice")
        by_slice.setdefault(int(index), []).append(number)
    if len(by_slice) != wanted:
        raise errors.MeshError(f"HybridMesh(): expected {wanted} slices, got {len(by_slice)}")
    return [by_slice[index] for index in sorted(by_slice)]


_global_mesh: Mesh | None = None


def set_global_mesh(mesh: Mesh) -> None:
    """Makes a mesh the one that `get_global_mesh` gives."""
    global _global_mesh
    _global_mesh = mesh


def get_global_mesh() -> Mesh | None:
    """The mesh of `set_global_mesh`, None before."""
    return _global_mesh


def get_1d_mesh(axis_name: str | None = None) -> Mesh:
    """All devices along one axis."""
    count = runtime.global_runtime_device_count()
    return Mesh(range(count), (count,), None if axis_name is None else (axis_name,))
