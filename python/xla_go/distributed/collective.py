"""Collectives between replicas, under torch_xla's names.

They are operators of the namespace `xla_go`, traced like any other. All replicas run one compiled program, so their order
is that of the calls, on every replica. `groups` says who exchanges values with whom, as lists of ordinals of one size in
which each replica is once; by default all are one group. Without `launch` there is one replica. Gradients flow back
through all but "mul", "min", "max", "and" and "or".

Where programs are partitioned (`xla_go.runtime.use_spmd`), collectives with `groups` of device numbers exchange the shards of
values between `xla_go.spmd.enable_manual_sharding` and `disable_manual_sharding`; without groups there is one replica.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from xla_go import runtime

REDUCE_SUM = "sum"
REDUCE_MUL = "mul"
REDUCE_AND = "and"
REDUCE_OR = "or"
REDUCE_MIN = "min"
REDUCE_MAX = "max"
REDUCE_MEAN = "mean"

Groups = Sequence[Sequence[int]] | None


def _count() -> tuple[int, str]:
    """How many take part in the collectives that have groups, and what they are."""
    return (runtime.global_runtime_device_count(), "devices") if runtime.is_spmd() else (runtime.world_size(), "replicas")


def _flatten(function: str, groups: Groups) -> tuple[list[int], int]:
    """All members of the groups, and the size of one."""
    if not groups:
        return list(range(runtime.world_size())), runtime.world_size()
    count, what = _count()
    members = [int(member) for group in groups for member in group]
    if len({len(group) for group in groups}) != 1 or sorted(members) != list(range(count)):
        raise ValueError(f"{function}(): expected groups of one size in which each of {count} {what} is once, got {groups}")
    return members, len(groups[0])


def _factor(reduce_type: str, scale: float, size: int) -> tuple[str, float]:
    """A mean is a sum with a smaller scale."""
    return (REDUCE_SUM, scale / size) if reduce_type == REDUCE_MEAN else (reduce_type, scale)


def _into(output: torch.Tensor | None, value: torch.Tensor) -> torch.Tensor:
    if output is None:
        return value
    return output.copy_(value)


def all_reduce(
    reduce_type: str, inputs: Any, scale: float = 1.0, groups: Groups = None, pin_layout: bool = True
) -> torch.Tensor | None:
    """Combines the replicas' values by "sum", "mul", "min", "max", "and", "or" or "mean", and multiplies by `scale`.

    A tensor gives a new one; of a list each tensor is written in place. pin_layout changes nothing: one program has one
    layout on all replicas.
    """
    members, size = _flatten("all_reduce", groups)
    kind, factor = _factor(reduce_type, scale, size)
    if isinstance(inputs, torch.Tensor):
        return torch.ops.xla_go.all_reduce(inputs, kind, factor, members, size)
    for tensor in inputs:
        tensor.copy_(torch.ops.xla_go.all_reduce(tensor, kind, factor, members, size))
    return None


def all_gather(
    value: Any, dim: int = 0, groups: Groups = None, output: Any = None, pin_layout: bool = True
) -> Any:
    """The values of the group's replicas, joined along `dim` in the group's order. A list gives a list; `output` is written."""
    if not isinstance(value, torch.Tensor):
        outputs = output if output is not None else [None] * len(value)
        return [all_gather(one, dim, groups, out) for one, out in zip(value, outputs, strict=True)]
    members, size = _flatten("all_gather", groups)
    return _into(output, torch.ops.xla_go.all_gather(value, dim, members, size))


def reduce_scatter(
    reduce_type: str,
    input: Any,
    scale: float,
    scatter_dim: int,
    shard_count: int,
    groups: Groups = None,
    output: Any = None,
    pin_layout: bool = True,
) -> Any:
    """all_reduce of which each replica keeps its part along `scatter_dim`. A list gives a list; `output` is written."""
    if not isinstance(input, torch.Tensor):
        outputs = output if output is not None else [None] * len(input)
        return [reduce_scatter(reduce_type, one, scale, scatter_dim, shard_count, groups, out) for one, out in zip(input, outputs, strict=True)]
    members, size = _flatten("reduce_scatter", groups)
    if shard_count != size:
        raise ValueError(f"reduce_scatter(): expected shard_count {size}, the size of a group, got {shard_count}")
    kind, factor = _factor(reduce_type, scale, size)
    return _into(output, torch.ops.xla_go.reduce_scatter(input, kind, factor, scatter_dim, members, size))


def all_to_all(
    value: torch.Tensor,
    split_dimension: int,
    concat_dimension: int,
    split_count: int,
    groups: Groups = None,
    pin_layout: bool = True,
) -> torch.Tensor:
    """Cuts the value along `split_dimension`, sends piece i to the group's replica i, and joins what comes along `concat_dimension`."""
    members, size = _flatten("all_to_all", groups)
    if split_count != size:
        raise ValueError(f"all_to_all(): expected split_count {size}, the size of a group, got {split_count}")
    return torch.ops.xla_go.all_to_all(value, split_dimension, concat_dimension, members, size)


def collective_permute(value: torch.Tensor, pairs: Sequence[Sequence[int]]) -> torch.Tensor:
    """Sends the value from the first to the second of each pair of ordinals. A replica that gets none has zeros."""
    count, _ = _count()
    flat = [int(end) for pair in pairs for end in pair]
    if any(len(pair) != 2 for pair in pairs) or any(not 0 <= end < count for end in flat):
        raise ValueError(f"collective_permute(): expected pairs of source and target below {count}, got {pairs}")
    return torch.ops.xla_go.collective_permute(value, flat)


def collective_broadcast(
    tensors: list[torch.Tensor], root_ordinal: int = 0, groups: Groups = None, pin_layout: bool = True
) -> None:
    """Writes the value of the replica `root_ordinal`, a place in each group, into each tensor on every replica."""
    members, size = _flatten("collective_broadcast", groups)
    for tensor in tensors:
        tensor.copy_(torch.ops.xla_go.collective_broadcast(tensor, root_ordinal, members, size))


# ---- gradients, and shapes for tracing without a device ----


def _sum_only(name: str, kind: str) -> None:
    if kind != REDUCE_SUM:
        raise NotImplementedError(f"{name}(): expected the reduction sum for a gradient, got {kind!r}")


def _all_reduce_backward(context: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
    _, kind, scale, members, size = context.call
    _sum_only("all_reduce", kind)
    return torch.ops.xla_go.all_reduce(gradient, kind, scale, members, size), None, None, None, None


def _all_gather_backward(context: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
    _, dim, members, size = context.call
    return torch.ops.xla_go.reduce_scatter(gradient, REDUCE_SUM, 1.0, dim, members, size), None, None, None


def _reduce_scatter_backward(context: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
    _, kind, scale, dim, members, size = context.call
    _sum_only("reduce_scatter", kind)
    whole = torch.ops.xla_go.all_gather(gradient, dim, members, size)
    return whole if scale == 1 else whole * scale, None, None, None, None, None


def _all_to_all_backward(context: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
    _, split, join, members, size = context.call
    return torch.ops.xla_go.all_to_all(gradient, join, split, members, size), None, None, None, None


def _permute_backward(context: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
    _, pairs = context.call
    back = [end for i in range(0, len(pairs), 2) for end in (pairs[i + 1], pairs[i])]
    return torch.ops.xla_go.collective_permute(gradient, back), None


def _broadcast_backward(context: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
    _, root, members, size = context.call
    total = torch.ops.xla_go.all_reduce(gradient, REDUCE_SUM, 1.0, members, size)
    place = members.index(runtime.global_ordinal()) % size
    return total if place == root else torch.zeros_like(total), None, None, None


def _scaled_size(value: torch.Tensor, dim: int, multiply: int = 1, divide: int = 1) -> torch.Tensor:
    sizes = list(value.shape)
    sizes[dim] = sizes[dim] * multiply // divide
    return value.new_empty(sizes)


def _register() -> None:
    library = torch.library
    for name, backward in (
        ("all_reduce", _all_reduce_backward),
        ("all_gather", _all_gather_backward),
        ("reduce_scatter", _reduce_scatter_backward),
        ("all_to_all", _all_to_all_backward),
        ("collective_permute", _permute_backward),
        ("collective_broadcast", _broadcast_backward),
    ):
        library.register_autograd(f"xla_go::{name}", backward, setup_context=_setup)
    for name in ("all_reduce", "collective_permute", "collective_broadcast"):
        library.register_fake(f"xla_go::{name}", lambda value, *rest: torch.empty_like(value))
    library.register_fake("xla_go::all_gather", lambda value, dim, members, size: _scaled_size(value, dim, multiply=size))
    library.register_fake(
        "xla_go::reduce_scatter", lambda value, kind, scale, dim, members, size: _scaled_size(value, dim, divide=size)
    )

    def all_to_all_shape(value: torch.Tensor, split: int, join: int, members: list[int], size: int) -> torch.Tensor:
        return _scaled_size(_scaled_size(value, split, divide=size), join, multiply=size)

    library.register_fake("xla_go::all_to_all", all_to_all_shape)


def _setup(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    # Of the tensor only its place among the arguments is needed.
    ctx.call = (None, *inputs[1:])


_register()
