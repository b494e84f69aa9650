"""Parts of a partitioned program in which each device computes with its own shard, and the partitioner does nothing."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import torch

from xla_go import errors, runtime
from xla_go.spmd.mesh import Mesh, PartitionSpec, get_global_mesh
from xla_go.spmd.sharded_tensor import XLAShardedTensor, plain_with_history, wrap_with_history
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


def enable_manual_sharding(t: torch.Tensor | XLAShardedTensor, partition_spec: PartitionSpec, *, mesh: Mesh | None = None) -> XLAShardedTensor:
    """Each device's shard of `t`, as a tensor of a shard's shape: every device computes with its own from here on.

    What is computed from it is a shard too, up to `disable_manual_sharding`; devices exchange values there by the collectives
    of `xla_go.distributed` with groups. Such a tensor has one value on each device: it cannot be read, `disable_manual_sharding`
    gives one that can. The gradient is put together from the devices' shards; where devices have copies, they have to agree.

    Raises FailedPreconditionError without `xla_go.runtime.use_spmd()`; ValueError where mesh and spec do not divide the tensor
    into equal shards. mesh is the global one by default.
    """
    tensor = plain_with_history(t)
    _check("enable_manual_sharding", tensor)
    sharding = _op_sharding("enable_manual_sharding", tensor, _mesh("enable_manual_sharding", mesh), partition_spec)
    return wrap_with_history(torch.ops.xla_go.full_to_shard_shape(tensor, base64.b64encode(sharding).decode()))


def disable_manual_sharding(
    t: torch.Tensor | XLAShardedTensor, partition_spec: PartitionSpec, full_shape: Sequence[int], *, mesh: Mesh | None = None
) -> XLAShardedTensor:
    """The tensor of `full_shape` whose shards the devices have in `t`: `enable_manual_sharding` taken back.

    Raises as that does, and ValueError where `t` has not the shape of a shard.
    """
    tensor = plain_with_history(t)
    _check("disable_manual_sharding", tensor)
    mesh = _mesh("disable_manual_sharding", mesh)
    sharding = _op_sharding("disable_manual_sharding", tensor, mesh, partition_spec)
    full = torch.ops.xla_go.shard_to_full_shape(tensor, base64.b64encode(sharding).decode(), list(full_shape))
    return wrap_with_history(full, mesh.mesh_shape, partition_spec)


def shard_as(a: torch.Tensor | XLAShardedTensor, b: torch.Tensor | XLAShardedTensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The values of both, of one shape, which the partitioner is to lay over the devices alike, in the way that it chooses.

    Raises FailedPreconditionError without `xla_go.runtime.use_spmd()`; ValueError for different shapes.
    """
    first, second = plain_with_history(a), plain_with_history(b)
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
