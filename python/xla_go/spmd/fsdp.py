"""Fully sharded data parallel training by annotations alone."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from xla_go.spmd.mesh import Mesh, PartitionSpec, get_global_mesh
from xla_go.spmd.sharding import annotate_custom_sharding, mark_sharding

__all__ = ["SpmdFullyShardedDataParallel"]

_AXIS = "fsdp"


def _parameter_spec(parameter: torch.Tensor) -> PartitionSpec:
    """Divides the largest dimension, the first of equal ones."""
    spec: list[str | None] = [None] * parameter.dim()
    if spec:
        spec[max(range(len(spec)), key=lambda i: parameter.shape[i])] = _AXIS
    return spec


class SpmdFullyShardedDataParallel(nn.Module):
    """A module whose parameters, gradients and outputs are divided over the mesh axis "fsdp" (torch_xla's FSDPv2).

    Each parameter is divided along its largest dimension and gathered where it is used; its gradient, and what an
    optimizer keeps for it, lie as it does. The output, which has to be a tensor or a tuple or list that begins with one, is
    divided along its first dimension, and along extra_data_axis too if one is given; shard_output(output, mesh) does it
    otherwise. A module that is not on device xla is moved there; batches are annotated by the caller.

    auto_wrap_policy wraps submodules too, as torch.distributed.fsdp's policies choose them, by
    auto_wrapper_callable(submodule, **the same arguments) or this class; then their outputs are annotated as well.

    ValueError where neither `mesh` nor a global mesh has an axis "fsdp". Attributes that the wrapper lacks are those of the
    wrapped module, whose parameters have the prefix `_orig_module.` in state_dict.
    """

    def __init__(
        self,
        module: nn.Module,
        *,
        mesh: Mesh | None = None,
        shard_output: Callable[[Any, Mesh], None] | None = None,
        auto_wrap_policy: Callable[..., Any] | None = None,
        auto_wrapper_callable: Callable[..., nn.Module] | None = None,
        extra_data_axis: str | None = None,
    ) -> None:
        super().__init__()
        if isinstance(module, SpmdFullyShardedDataParallel):
            raise ValueError("SpmdFullyShardedDataParallel(): expected a module that is not wrapped yet")
        chosen = mesh or get_global_mesh()
        if chosen is None:
            raise ValueError("SpmdFullyShardedDataParallel(): expected a mesh, or one from set_global_mesh()")
        if chosen.get_axis_name_idx(_AXIS) is None:
            raise ValueError(f"SpmdFullyShardedDataParallel(): expected a mesh with an axis {_AXIS!r}, got {chosen.axis_names}")
        if extra_data_axis is not None:
            chosen.axis(extra_data_axis)
        if any(parameter.device.type not in ("xla", "meta") for parameter in module.parameters()):
            module = module.to("xla")
        self._mesh = chosen
        self._output_axes: Any = _AXIS if extra_data_axis is None else (extra_data_axis, _AXIS)
        self._shard_output = shard_output
        if auto_wrap_policy is not None:
            from torch.distributed.fsdp.wrap import _recursive_wrap

            arguments: dict[str, Any] = {"mesh": chosen, "shard_output": shard_output, "extra_data_axis": extra_data_axis}
            wrapper: Any = functools.partial(auto_wrapper_callable or SpmdFullyShardedDataParallel, **arguments)
            _recursive_wrap(module, auto_wrap_policy, wrapper, set(), set(), only_wrap_children=True)
        self._orig_module = module
        inner = {id(p) for m in module.modules() if isinstance(m, SpmdFullyShardedDataParallel) for p in m.parameters()}
        for parameter in module.parameters():
            if id(parameter) in inner:
                continue
            spec = _parameter_spec(parameter)
            mark_sharding(parameter.data, chosen, spec)
            if parameter.requires_grad:
                parameter.register_hook(functools.partial(_annotated, mesh=chosen, spec=spec))

    @property
    def module(self) -> nn.Module:
        """The wrapped module."""
        return self._orig_module

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self._orig_module, name)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The wrapped module's output, annotated."""
        output = self._orig_module(*args, **kwargs)
        if self._shard_output is not None:
            self._shard_output(output, self._mesh)
            return output
        tensor = output[0] if isinstance(output, (tuple, list)) and output else output
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"SpmdFullyShardedDataParallel: expected an output that is a tensor or begins with one, got {type(output).__name__}: give shard_output")
        if tensor.dim() > 0:
            spec = [self._output_axes] + [None] * (tensor.dim() - 1)
            annotate_custom_sharding(tensor.detach(), self._mesh, spec)
            if tensor.requires_grad:
                tensor.register_hook(functools.partial(_annotated, mesh=self._mesh, spec=spec))
        return output


def _annotated(gradient: torch.Tensor, mesh: Mesh, spec: PartitionSpec) -> torch.Tensor:
    """A gradient that lies by spec."""
    own = gradient.clone()  # the engine may use the one that it gave elsewhere
    annotate_custom_sharding(own, mesh, spec)
    return own
