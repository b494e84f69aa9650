"""Parts of a partitioned program in which each device computes with its own shard, and the partitioner does nothing."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import torch

from xla_go import errors, runtime
from xla_go.spmd.mesh import Mesh, PartitionSpec, get_global_mesh
from xla_go.spmd.sharded_tensor import XLAShardedTensor, unwrap_sharded_tensor
from xla_go.spmd.sharding import _op_sharding

__all__ = ["disable_manual_sharding", "enable_manual_sharding", "shard_as"]


def _check(function: str, *tensors: torch.Tensor) -> None:
    for tensor in tensors:
        if tensor.device.type != "xla":
            raise ValueError(f"{function}(): expected a tensor on device xla, got one on {tensor.device}: move it there first")
    if not runtime.is_spmd():
        raise errors.FailedPreconditionError(f"{function}(): expected programs that are partitioned: call xla_go.runtime.use_spmd() first")


def _mesh(function: str, mesh: Mesh | None) -> Mesh:
    mesh = mesh if mesh is not None else get_global_mesh()
    if mesh is None:
        raise ValueError(f"{function}(): expected a mesh: give one, or call set_global_mesh() first")
    return mesh


class _Plain(torch.autograd.Function):
    """The tensor behind an XLAShardedTensor, with the gradient flowing back into that."""

    @staticmethod
    def forward(context: Any, wrapped: XLAShardedTensor) -> torch.Tensor:
        return wrapped.global_tensor.detach()

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        return gradient


def _plain(t: torch.Tensor | XLAShardedTensor) -> torch.Tensor:
    return _Plain.apply(t) if isinstance(t, XLAShardedTensor) else t


class _Wrapped(torch.autograd.Function):
    """A tensor as an XLAShardedTensor through which gradients flow."""

    @staticmethod
    def forward(context: Any, tensor: torch.Tensor, mesh_shape: Any, partition_spec: Any) -> torch.Tensor:
        return XLAShardedTensor(tensor, mesh_shape, partition_spec)

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None]:  # type: ignore[override]
        return unwrap_sharded_tensor(gradient), None, None


def _wrap(tensor: torch.Tensor, mesh_shape: Any = None, partition_spec: Any = None) -> XLAShardedTensor:
    wrapped = _Wrapped.apply(tensor, mesh_shape, partition_spec)
    wrapped.global_tensor = tensor  # with its history: either may be used
    return wrapped


def enable_manual_sharding(t: torch.Tensor | XLAShardedTensor, partition_spec: PartitionSpec, *, mesh: Mesh | None = None) -> XLAShardedTensor:
    """Each device's shard of `t`, as a tensor of a shard's shape: every device computes with its own from here on.

    What is computed from it is a shard too, up to `disable_manual_sharding`; devices exchange values there by the collectives
    of `xla_go.distributed` with groups. Such a tensor has one value on each device: it cannot be read, `disable_manual_sharding`
    gives one that can. The gradient is put together from the devices' shards; where devices have copies, they have to agree.

    Raises FailedPreconditionError without `xla_go.runtime.use_spmd()`; ValueError where mesh and spec do not divide the tensor
    into equal shards. mesh is the global one by default.
    """
    tensor = _plain(t)
    _check("enable_manual_sharding", tensor)
    sharding = _op_sharding("enable_manual_sharding", tensor, _mesh("enable_manual_sharding", mesh), partition_spec)
    return _wrap(torch.ops.xla_go.full_to_shard_shape(tensor, base64.b64encode(sharding).decode()))


def disable_manual_sharding(
    t: torch.Tensor | XLAShardedTensor, partition_spec: PartitionSpec, full_shape: Sequence[int], *, mesh: Mesh | None = None
) -> XLAShardedTensor:
    """The tensor of `full_shape` whose shards the devices have in `t`: `enable_manual_sharding` taken back.

    Raises as that does, and ValueError where `t` has not the shape of a shard.
    """
    tensor = _plain(t)
    _check("disable_manual_sharding", tensor)
    mesh = _mesh("disable_manual_sharding", mesh)
    sharding = _op_sharding("disable_manual_sharding", tensor, mesh, partition_spec)
    full = torch.ops.xla_go.shard_to_full_shape(tensor, base64.b64encode(sharding).decode(), list(full_shape))
    return _wrap(full, mesh.mesh_shape, partition_spec)


def shard_as(a: torch.Tensor | XLAShardedTensor, b: torch.Tensor | XLAShardedTensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The values of both, of one shape, which the partitioner is to lay over the devices alike, in the way that it chooses.

    Raises FailedPreconditionError without `xla_go.runtime.use_spmd()`; ValueError for different shapes.
    """
    first, second = _plain(a), _plain(b)
    _check("shard_as", first, second)
    return torch.ops.xla_go.shard_as(first, second)


# ---- gradients, and shapes for tracing without a device ----


def _enter(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    tensor, ctx.sharding = inputs
    ctx.full_shape = list(tensor.shape)


def _enter_backward(context: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
    return torch.ops.xla_go.shard_to_full_shape(gradient, context.sharding, context.full_shape), None


def _leave(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    ctx.sharding = inputs[1]


def _leave_backward(context: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
    return torch.ops.xla_go.full_to_shard_shape(gradient, context.sharding), None, None


def _both(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    pass


def _both_backward(context: Any, first: torch.Tensor, second: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.ops.xla_go.shard_as(first, second)


torch.library.register_autograd("xla_go::full_to_shard_shape", _enter_backward, setup_context=_enter)
torch.library.register_autograd("xla_go::shard_to_full_shape", _leave_backward, setup_context=_leave)
torch.library.register_autograd("xla_go::shard_as", _both_backward, setup_context=_both)
