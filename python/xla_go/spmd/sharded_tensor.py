"""XLAShardedTensor: a tensor together with how it lies over the devices."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from types import EllipsisType
from typing import Any

import torch

from xla_go import _runtime, errors
from xla_go.spmd import _tensor
from xla_go.spmd._shards import Shards, Upload
from xla_go.spmd.mesh import Mesh, PartitionSpec

__all__ = ["XLAShard", "XLAShardedTensor", "from_shards"]


@dataclass
class XLAShard:
    """What one device has of a sharded tensor, on the CPU.

    data is all of the device's memory: a tile, with padding where the tiles reach over the tensor's end. indices say
    where the tile lies in the tensor, `...` for all of it. replica_id numbers the devices that have the same tile.
    """

    data: torch.Tensor
    shard_device: str
    replica_id: int
    indices: list[slice] | EllipsisType
    _size: tuple[int, ...]

    @property
    def unpadded_data(self) -> torch.Tensor:
        """The tile without padding: a view of `data`."""
        return self.data[tuple(slice(0, size) for size in self._size)]

    @unpadded_data.setter
    def unpadded_data(self, value: torch.Tensor) -> None:
        self.unpadded_data.copy_(value)


class _Unwrap(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, t: XLAShardedTensor) -> torch.Tensor:
        return t.global_tensor.detach()

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        return gradient


class _Wrap(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, t: torch.Tensor) -> XLAShardedTensor:
        return XLAShardedTensor(t.detach())

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        return unwrap_sharded_tensor(gradient)


class XLAShardedTensor(torch.Tensor):
    """A tensor on device xla that was annotated by `mark_sharding`. It can be used wherever the tensor itself can."""

    global_tensor: torch.Tensor
    mesh_shape: tuple[int, ...] | None
    partition_spec: tuple[Any, ...] | None
    # The Mesh of `mark_sharding` or the DeviceMesh of torch.distributed.tensor's functions, None for a result of operations.
    device_mesh: Any = None
    _cached_spec: Any = None

    # Results are wrapped by __torch_dispatch__ alone.
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(
        cls, elem: torch.Tensor, mesh_shape: Sequence[int] | None = None, partition_spec: PartitionSpec | None = None, requires_grad: bool = False
    ) -> XLAShardedTensor:
        r = torch.Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls, elem.size(), strides=elem.stride(), storage_offset=elem.storage_offset(), dtype=elem.dtype, layout=elem.layout,
            device=elem.device, requires_grad=requires_grad or elem.requires_grad,
        )  # fmt: skip
        r.global_tensor = elem.detach().requires_grad_() if r.requires_grad else elem
        r.mesh_shape = None if mesh_shape is None else tuple(mesh_shape)
        r.partition_spec = None if partition_spec is None else tuple(partition_spec)
        return r

    @property
    def local_shards(self) -> list[XLAShard]:
        """What each device of this process has, in their order. BLOCKING until the value is computed; compiles nothing."""
        return _shards(self.global_tensor)

    def load_local_shards_(self, shards: list[XLAShard]) -> None:
        """Puts shards, of which `data` may have been changed, into the tensor: one for each device, in their order.

        ValueError where they are not the tensor's. BLOCKING while they are copied.
        """
        _load(self.global_tensor, shards)

    @property
    def sharding_spec(self) -> str:
        """How it lies over the devices, as HLO's text writes it; "" where it is not divided."""
        return _tensor.sharding(self.global_tensor).text

    @property
    def sharding_type(self) -> Any:
        """The kind of `sharding_spec`, a ShardingType; None where it is not divided."""
        from xla_go.spmd.sharding import ShardingType

        return ShardingType.of(self.sharding_spec)

    @property
    def placements(self) -> tuple[Any, ...]:
        """torch.distributed.tensor's placements along the dimensions of `device_mesh`. ValueError for a result of operations."""
        if self.partition_spec is None or (self.device_mesh is None and self.mesh_shape is None):
            raise ValueError("placements: expected a tensor of mark_sharding or distribute_tensor; how a computed one lies is told by sharding_spec")
        placements: tuple[Any, ...] = self._spec.placements
        return placements

    @property
    def _spec(self) -> Any:
        """torch's DTensorSpec, under the name that DTensor has for it: the same object until mesh or partition spec are replaced."""
        if self._cached_spec is None:
            from xla_go.spmd.placement import placements_of, tensor_spec

            if self.partition_spec is None:
                raise ValueError("_spec: expected a tensor of mark_sharding or distribute_tensor; how a computed one lies is told by sharding_spec")
            mesh = self.device_mesh or Mesh(range(math.prod(self.mesh_shape or ())), self.mesh_shape or ())
            self._cached_spec = tensor_spec(self, mesh, placements_of(mesh, self.partition_spec))
        return self._cached_spec

    def invalidate_spec_cache(self) -> None:
        """Has the next `_spec` made anew."""
        self._cached_spec = None

    def to_local(self, *, grad_placements: Any = None) -> torch.Tensor:
        """The tensor as a plain one, all of it: one process has all parts."""
        return plain_with_history(self)

    def full_tensor(self, *, grad_placements: Any = None) -> torch.Tensor:
        """`to_local`."""
        return self.to_local()

    def redistribute(self, device_mesh: Any = None, placements: Sequence[Any] | None = None, *, async_op: bool = False) -> XLAShardedTensor:
        """The same values in a tensor that lies by other placements of torch.distributed.tensor. There is nothing to wait for:
        async_op is taken for the caller's sake. ValueError without a device mesh, IndexError for a dimension that the tensor has
        not, NotImplementedError for Partial placements: a tensor of one process has no partial values."""
        from torch.distributed.tensor import Partial, Shard

        from xla_go.spmd import placement
        from xla_go.spmd.dtensor import distributed

        mesh = device_mesh or self.device_mesh
        if mesh is None:
            raise ValueError("redistribute(): expected a device mesh, or a tensor that has one from distribute_tensor")
        for one in placements or ():
            if isinstance(one, Partial):
                raise NotImplementedError(f"redistribute(): expected placements Shard or Replicate, got {one}")
            if isinstance(one, Shard) and not -self.dim() <= one.dim < self.dim():
                raise IndexError(f"redistribute(): expected a Shard of a dimension below {self.dim()}, got {one}")
        back = None if self.device_mesh is None or mesh != self.device_mesh else self.placements
        result: XLAShardedTensor = _Wrap.apply(distributed(self.to_local(), mesh, placements, back).to_local())
        part = placement.MeshPart.of(mesh)
        result.device_mesh, result.mesh_shape = mesh, part.mesh.mesh_shape
        result.partition_spec = placement.named_spec(part.mesh, placement.partition_spec(part.axes, placements, self.dim()))
        return result

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return f"XLAShardedTensor({self.global_tensor!r}, sharding={self.sharding_spec!r})"

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        from torch.utils._pytree import tree_map_only

        arguments, keywords = tree_map_only(XLAShardedTensor, lambda t: t.global_tensor, (args, kwargs or {}))
        result = func(*arguments, **keywords)
        if func.__name__.split(".")[0].endswith("_") and args and isinstance(args[0], XLAShardedTensor):
            return args[0]  # in place
        return tree_map_only(torch.Tensor, lambda t: t if isinstance(t, XLAShardedTensor) or t.device.type != "xla" else cls(t), result)


def _shards(tensor: torch.Tensor) -> list[XLAShard]:
    shards = []
    with Shards(tensor) as there:
        for i, tile in enumerate(there.tiles):
            whole = tile.size == tuple(tensor.shape)
            indices = ... if whole else [slice(start, start + length, 1) for start, length in zip(tile.offset, tile.size, strict=True)]
            shards.append(XLAShard(there.read(i), tile.device, tile.replica, indices, tile.size))
    return shards


def _load(tensor: torch.Tensor, shards: list[XLAShard]) -> None:
    names = _runtime.lines(_runtime.call("LocalDevices"))
    if [shard.shard_device for shard in shards] != names:
        raise ValueError(f"load_local_shards_(): expected a shard of each of {', '.join(names)} in this order, got {', '.join(s.shard_device for s in shards)}")
    memory = _tensor.sharding(tensor).tile
    upload = Upload(tensor)
    try:
        for shard in shards:
            if (shard.data.dtype, shard.data.device.type, tuple(shard.data.shape)) != (tensor.dtype, "cpu", memory):
                got = f"{shard.data.dtype} of {tuple(shard.data.shape)} on {shard.data.device}"
                raise ValueError(f"load_local_shards_(): expected shards of {tensor.dtype} of {memory} on cpu, got {got}")
            upload.put(shard.shard_device, shard.data)
        upload.finish()
    finally:
        upload.close()


def from_shards(shards: Sequence[torch.Tensor], sharding: bytes, shape: Sequence[int] | None = None) -> torch.Tensor:
    """A tensor on device xla whose parts are on the CPU: one shard for each device of this process, in their order.

    sharding is an OpSharding as `Mesh.get_op_sharding` gives it. shape is the whole tensor's, by default as large as the shards
    make it; what shards have beyond it is padding. InvalidArgumentError where shards, sharding and shape do not fit;
    FailedPreconditionError without `xla_go.runtime.use_spmd()`. BLOCKING while the shards are copied.
    """
    names = _runtime.lines(_runtime.call("LocalDevices"))
    if len(shards) != len(names):
        raise errors.InvalidArgumentError(f"from_shards(): expected {len(names)} shards, one for each device of this process, got {len(shards)}")
    tile, dtype = tuple(shards[0].shape), shards[0].dtype
    for shard in shards:
        if (tuple(shard.shape), shard.dtype, shard.device.type) != (tile, dtype, "cpu"):
            raise errors.InvalidArgumentError(f"from_shards(): expected shards of {dtype} of {tile} on cpu, got one of {shard.dtype} of {tuple(shard.shape)} on {shard.device}")
    encoded = base64.b64encode(sharding).decode()
    if shape is None:
        shape = json.loads(_runtime.call("WholeDimensions", encoded, ",".join(map(str, tile))))
    whole = torch.zeros(tuple(shape), dtype=dtype, device="xla")
    _runtime.call("MarkSharding", _tensor.view(whole), encoded, "mark", "")
    memory = _tensor.sharding(whole).tile
    if memory != tile:
        raise errors.InvalidArgumentError(f"from_shards(): expected shards of {memory} for a tensor of {tuple(shape)}, got shards of {tile}")
    upload = Upload(whole)
    try:
        for name, shard in zip(names, shards, strict=True):
            upload.put(name, shard)
        upload.finish()
    finally:
        upload.close()
    return whole


def wrap_as_sharded_tensor(t: torch.Tensor | XLAShardedTensor, mesh_shape: Sequence[int] | None = None, partition_spec: PartitionSpec | None = None) -> XLAShardedTensor:
    """The tensor as an XLAShardedTensor; itself where it is one, with what is given."""
    if not isinstance(t, XLAShardedTensor):
        return XLAShardedTensor(t, mesh_shape, partition_spec)
    if mesh_shape is not None:
        if t.mesh_shape != tuple(mesh_shape):
            t.device_mesh = None
        t.mesh_shape = tuple(mesh_shape)
    if partition_spec is not None:
        t.partition_spec = tuple(partition_spec)
    t.invalidate_spec_cache()
    return t


def plain_with_history(t: torch.Tensor | XLAShardedTensor) -> torch.Tensor:
    """The tensor behind an XLAShardedTensor, through which gradients flow back into that; any other as it is."""
    return _Unwrap.apply(t) if isinstance(t, XLAShardedTensor) else t


def wrap_with_history(t: torch.Tensor, mesh_shape: Sequence[int] | None = None, partition_spec: PartitionSpec | None = None) -> XLAShardedTensor:
    """The tensor as an XLAShardedTensor through which gradients flow back into it, as they do through its global_tensor."""
    wrapped = wrap_as_sharded_tensor(_Wrap.apply(t), mesh_shape, partition_spec)
    wrapped.global_tensor = t
    return wrapped


def wrap_if_sharded(x: Any) -> Any:
    """A tensor on device xla that is divided as an XLAShardedTensor; anything else as it is."""
    if isinstance(x, torch.Tensor) and not isinstance(x, XLAShardedTensor) and x.device.type == "xla" and _tensor.sharding(x).text:
        return XLAShardedTensor(x)
    return x


def unwrap_sharded_tensor(t: torch.Tensor | XLAShardedTensor) -> torch.Tensor:
    """The tensor behind an XLAShardedTensor; any other as it is."""
    return t.global_tensor if isinstance(t, XLAShardedTensor) else t

