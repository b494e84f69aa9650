"""Fully sharded data parallel training of a module in its place."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import nn

from xla_go.spmd.dtensor import Annotation, Place, annotation
from xla_go.spmd.mesh import Mesh, get_1d_mesh, get_global_mesh
from xla_go.spmd.placement import MeshPart, merged_spec, op_sharding
from xla_go.spmd.sharding import _annotate

__all__ = ["fully_shard"]

_AXIS = "fsdp"
_MARK = "_xla_go_fully_sharded"


def _part(mesh: Any) -> MeshPart:
    """The axis to divide parameters along, the last, and before it one along which they have copies, if there is one."""
    if mesh is None:
        mesh = get_global_mesh() or get_1d_mesh()
    if not isinstance(mesh, Mesh):
        part = MeshPart.of(mesh)
    elif mesh.get_axis_name_idx(_AXIS) is not None:
        part = MeshPart(mesh, ((mesh.axis(_AXIS),),))
    else:
        part = MeshPart(mesh, tuple((axis,) for axis in range(len(mesh.mesh_shape))))
    if len(part.axes) not in (1, 2):
        raise ValueError(f"fully_shard(): expected a mesh of one or two dimensions, or one with an axis {_AXIS!r}, got {mesh}")
    return part


def _roots(module: nn.Module | Sequence[nn.Module]) -> list[nn.Module]:
    modules = [module] if isinstance(module, nn.Module) else list(module)
    for each in modules:
        if isinstance(each, (nn.ModuleList, nn.ModuleDict)):
            raise ValueError(f"fully_shard(): expected modules with a forward of their own, got {type(each).__name__}: give its modules")
        if _MARK in each.__dict__:
            raise ValueError(f"fully_shard(): expected a module that is not fully sharded yet, got {type(each).__name__}")
    return modules


def fully_shard(
    module: Any,
    *,
    mesh: Any = None,
    reshard_after_forward: bool | int | None = None,
    shard_placement_fn: Callable[[nn.Parameter], Any] | None = None,
    mp_policy: Any = None,
    offload_policy: Any = None,
    ignored_params: Iterable[nn.Parameter] | None = None,
) -> Any:
    """Divides a module's parameters, gradients and outputs over the devices, as torch.distributed.fsdp.fully_shard does over
    processes; gives the module back, of which `forward` and the class stay what they are.

    Each parameter, but those of submodules that were given to fully_shard before, is divided along its first dimension, or
    by shard_placement_fn(parameter) if that gives a Shard; scalars are whole everywhere. Gradients and what an optimizer
    keeps lie alike. Outputs, and their gradients, are divided along their first dimension, the batch's. When weights are
    gathered and given up again is the compiler's choice: reshard_after_forward is taken for the caller's sake.

    mesh: a torch DeviceMesh of device xla with one dimension, or two: then parameters are divided along the second and have
        copies along the first. A slice of a larger mesh adds to how parameters lie already, by parallelize_module for
        example. Or a Mesh: its axis "fsdp", else all of it as above. By default that of set_global_mesh, else all devices.
    module: on device xla, else it is moved there; optimizers are made afterwards. Or a sequence of modules.
    ignored_params: parameters that are left as they are.

    ValueError where mesh, module and what is said of a parameter do not fit; NotImplementedError for a policy of mixed precision
    (use torch.autocast) or of offloading; FailedPreconditionError without `xla_go.runtime.use_spmd()`.
    """
    if any(getattr(mp_policy, name, None) is not None for name in ("param_dtype", "reduce_dtype", "output_dtype")):
        raise NotImplementedError("fully_shard(): mixed precision is not part of it here: use torch.autocast('xla'), or convert the module")
    if offload_policy is not None and type(offload_policy).__name__ != "OffloadPolicy":  # torch's default, which offloads nothing
        raise NotImplementedError("fully_shard(): parameters stay on the devices, there is no offloading")
    part, modules = _part(mesh), _roots(module)
    ignored = {id(parameter) for parameter in ignored_params or ()}
    for each in modules:
        ours = [id(p) for nested in each.modules() if _MARK in nested.__dict__ for p in nested.parameters()]
        taken = ignored.union(ours)
        if any(id(p) in ignored and p.device.type != "xla" for p in each.parameters()):
            raise ValueError("fully_shard(): expected ignored parameters on device xla: move the module there first")
        each.to("xla")
        for parameter in dict.fromkeys(each.parameters()):
            if id(parameter) not in taken:
                _divide(parameter, part, shard_placement_fn)
        each.__dict__[_MARK] = True
        each.register_forward_hook(functools.partial(_lay_outputs, part=part))
    return module


def _divide(parameter: nn.Parameter, part: MeshPart, shard_placement_fn: Callable[[nn.Parameter], Any] | None) -> None:
    chosen = None if shard_placement_fn is None else shard_placement_fn(parameter)
    dimension = 0 if chosen is None else chosen.dim
    if parameter.dim() == 0 or parameter.numel() == 0:
        return
    if not -parameter.dim() <= dimension < parameter.dim():
        raise ValueError(f"fully_shard(): expected a Shard of a dimension below {parameter.dim()}, got {chosen}")
    added: list[tuple[int, ...]] = [()] * parameter.dim()
    added[dimension] = part.axes[-1]
    sharding = op_sharding(part.mesh, merged_spec(part, parameter.detach(), added))
    _annotate("fully_shard", parameter.detach(), sharding, "replace")
    if parameter.requires_grad:
        parameter.register_hook(functools.partial(_lay_gradient, sharding=sharding))


def _lay_gradient(gradient: torch.Tensor, sharding: bytes) -> torch.Tensor:
    return _annotate("fully_shard", gradient.clone(), sharding, "value")


def _lay_outputs(module: nn.Module, inputs: Any, outputs: Any, part: MeshPart) -> Any:
    from torch.utils._pytree import tree_map

    def lay(value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or value.device.type != "xla" or value.dim() == 0:
            return value
        told: Annotation | None = annotation(part, [part.all_axes, *[()] * (value.dim() - 1)])
        return Place.apply(value, told, told)

    return tree_map(lay, outputs)
