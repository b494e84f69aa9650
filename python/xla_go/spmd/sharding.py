"""Annotations: which device has which part of a tensor."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import torch

from xla_go import _runtime
from xla_go.spmd import _tensor
from xla_go.spmd.mesh import Mesh, PartitionSpec
from xla_go.spmd.sharded_tensor import XLAShardedTensor, unwrap_sharded_tensor, wrap_as_sharded_tensor

__all__ = [
    "ShardingSpec",
    "ShardingType",
    "annotate_custom_sharding",
    "clear_sharding",
    "mark_sharding",
    "mark_sharding_with_gradients",
]


class ShardingType(IntEnum):
    """Kinds of shardings, with torch_xla's numbers."""

    REPLICATED = 0
    MAXIMAL = 1
    TUPLE = 2
    TILED = 3
    MANUAL = 4
    PARTIAL = 5
    UNKNOWN = 6

    @classmethod
    def of(cls, text: str) -> ShardingType | None:
        """The kind of a sharding in HLO's text; None for "". ValueError for another text."""
        if not text:
            return None
        if "last_tile_dim_replicate" in text:
            return cls.PARTIAL
        if "devices=" in text:
            return cls.TILED
        name = re.sub(r"[{} ].*", "", text.lstrip("{"), flags=re.DOTALL).upper()
        if name not in cls.__members__:
            raise ValueError(f"ShardingType.of(): expected a sharding in HLO's text, as {{replicated}} or {{devices=[2]0,1}}, got {text!r}")
        return cls[name]


def _annotate(function: str, t: torch.Tensor | XLAShardedTensor, sharding: bytes, how: str, open_dimensions: Sequence[int] = ()) -> torch.Tensor:
    tensor = unwrap_sharded_tensor(t)
    if tensor.device.type != "xla":
        raise ValueError(f"{function}(): expected a tensor on device xla, got one on {tensor.device}: move it there first; nothing is transferred before the annotation")
    if tensor.numel() > 0:
        dimensions = ",".join(map(str, sorted(open_dimensions)))
        _runtime.call("MarkSharding", _tensor.view(tensor), base64.b64encode(sharding).decode(), how, dimensions)
    return tensor


def _op_sharding(function: str, t: torch.Tensor, mesh: Mesh, partition_spec: PartitionSpec) -> bytes:
    if len(partition_spec) != t.dim():
        raise ValueError(f"{function}(): expected a partition spec of {t.dim()} entries, one for each dimension, got {tuple(partition_spec)}")
    return mesh.get_op_sharding(partition_spec)


def _described(t: torch.Tensor | XLAShardedTensor, mesh: Mesh, partition_spec: PartitionSpec) -> XLAShardedTensor:
    result = wrap_as_sharded_tensor(t, mesh.mesh_shape, partition_spec)
    result.device_mesh = mesh
    return result


def mark_sharding(t: torch.Tensor | XLAShardedTensor, mesh: Mesh, partition_spec: PartitionSpec) -> XLAShardedTensor:
    """Divides a tensor over the devices: dimension i along the mesh axes of partition_spec[i], not at all for None.

    The tensor itself is annotated, and what is written into it later lies so too; the result is the same tensor together
    with its sharding. A tensor that has just come from the host is transferred shard by shard, and no device gets all of
    it; any other is moved by the next program. Not blocking, except while a program that makes the tensor is compiled.

    Raises FailedPreconditionError without `xla_go.runtime.use_spmd()`, and where the tensor is divided otherwise already
    (see `clear_sharding`); ValueError where mesh, spec and tensor do not fit.
    """
    tensor = _annotate("mark_sharding", t, _op_sharding("mark_sharding", t, mesh, partition_spec), "mark")
    return _described(t if isinstance(t, XLAShardedTensor) else tensor, mesh, partition_spec)


def clear_sharding(t: torch.Tensor | XLAShardedTensor) -> torch.Tensor:
    """Takes an annotation back: each device has the whole tensor again. Gives the plain tensor."""
    if isinstance(t, XLAShardedTensor):
        t.mesh_shape = t.partition_spec = t.device_mesh = None
        t.invalidate_spec_cache()
    return _annotate("clear_sharding", t, b"", "clear")


def annotate_custom_sharding(t: torch.Tensor | XLAShardedTensor, mesh: Mesh, partition_spec: PartitionSpec) -> XLAShardedTensor:
    """Tells the compiler how the tensor's present value is to lie at this point of the program.

    Unlike `mark_sharding` it says nothing about what is written into the tensor later, and may follow another annotation.
    """
    sharding = _op_sharding("annotate_custom_sharding", t, mesh, partition_spec)
    return _described(_annotate("annotate_custom_sharding", t, sharding, "value"), mesh, partition_spec)


class _MarkShardingWithGradients(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, t: torch.Tensor, mesh: Mesh, partition_spec: PartitionSpec) -> torch.Tensor:
        context.sharding = _op_sharding("mark_sharding_with_gradients", t, mesh, partition_spec)
        return _annotate("mark_sharding_with_gradients", t.clone(), context.sharding, "value")

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None]:  # type: ignore[override]
        return _annotate("mark_sharding_with_gradients", gradient.clone(), context.sharding, "value"), None, None


def mark_sharding_with_gradients(t: torch.Tensor | XLAShardedTensor, mesh: Mesh, partition_spec: PartitionSpec) -> torch.Tensor:
    """The tensor's value divided over the devices, and its gradient too when it comes back. Leaves `t` as it is."""
    return _MarkShardingWithGradients.apply(unwrap_sharded_tensor(t), mesh, partition_spec)


@dataclass
class ShardingSpec:
    """A mesh and a partition spec, to be applied to tensors of that rank.

    minibatch says that each process has its own part of a batch, as data loaders give it. One process drives all devices
    here, so its part is the batch.
    """

    mesh: Mesh
    partition_spec: PartitionSpec
    minibatch: bool = False

    def xla_spec(self, t: torch.Tensor) -> bytes:
        """The serialized OpSharding for a tensor."""
        return _op_sharding("ShardingSpec", t, self.mesh, self.partition_spec)

    def can_apply(self, t: torch.Tensor) -> bool:
        """Whether the tensor has as many dimensions as the partition spec has entries."""
        return t.dim() == len(self.partition_spec)

    def apply(self, t: torch.Tensor) -> None:
        """`mark_sharding` of the tensor, which has to be on device xla."""
        mark_sharding(t, self.mesh, self.partition_spec)
