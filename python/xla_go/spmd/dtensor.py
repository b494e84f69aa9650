"""torch.distributed.tensor over a device mesh of device xla, where one process drives all devices.

torch's own DTensor is what one of many processes has of a tensor. Here there is one process, and a tensor is all of it:
to distribute it is to say how it lies (`mark_sharding`), and the compiler sees to the rest. torch's functions come here by the
names that they import from torch_xla.distributed.spmd.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from xla_go.spmd.placement import MeshPart, Spec, merged_spec, named_spec, op_sharding, partition_spec
from xla_go.spmd.sharded_tensor import XLAShardedTensor, unwrap_sharded_tensor
from xla_go.spmd.sharding import _annotate

__all__ = ["DistributedTensor", "xla_distribute_module", "xla_distribute_tensor"]

# A serialized OpSharding, and the dimensions for which it does not count.
Annotation = tuple[bytes, tuple[int, ...]]


def annotation(part: MeshPart, spec: Spec) -> Annotation | None:
    """What to tell the partitioner of a value that lies by spec. Of a part of a mesh the other axes are left to it: dimensions
    that the part does not divide are open. None where there is nothing to tell."""
    return _annotation(part, tuple(spec))


@functools.lru_cache(maxsize=1024)
def _annotation(part: MeshPart, spec: tuple[tuple[int, ...], ...]) -> Annotation | None:
    open_dimensions = () if part.whole else tuple(i for i, axes in enumerate(spec) if not axes)
    return (op_sharding(part.mesh, list(spec)), open_dimensions) if len(open_dimensions) < len(spec) else None


class Place(torch.autograd.Function):
    """A tensor's value annotated, and its gradient; the tensor itself is left as it is."""

    @staticmethod
    def forward(context: Any, t: torch.Tensor, value: Annotation | None, gradient: Annotation | None) -> torch.Tensor:
        context.gradient = gradient
        return t.view_as(t) if value is None else _annotate("redistribute", t.clone(), value[0], "value", value[1])

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None]:  # type: ignore[override]
        told = context.gradient
        if told is not None:
            gradient = _annotate("redistribute", gradient.clone(), told[0], "value", told[1])
        return gradient, None, None


class DistributedTensor(torch.Tensor):
    """A tensor on device xla with the methods of torch's DTensor: what `DTensor.from_local` gives on a mesh of device xla.

    It shares its storage with the tensor it was made of, or with a copy that is laid out as the placements say. Results of
    operations are of this class, too; their placements are None, since the compiler chooses them.
    """

    device_mesh: Any = None
    placements: tuple[Any, ...] | None = None

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = super().__torch_function__(func, types, args, kwargs)
        mesh = next((argument.__dict__["device_mesh"] for argument in args if isinstance(argument, cls) and "device_mesh" in argument.__dict__), None)
        if mesh is not None:
            for tensor in result if isinstance(result, (tuple, list)) else (result,):
                if isinstance(tensor, cls):
                    tensor.__dict__.setdefault("device_mesh", mesh)
        return result

    def redistribute(self, device_mesh: Any = None, placements: Sequence[Any] | None = None, *, async_op: bool = False) -> DistributedTensor:
        """The same values laid out by other placements; the gradient comes back as `self` lies. There is nothing to wait for:
        async_op is taken for the caller's sake."""
        mesh = device_mesh or self.device_mesh
        return distributed(self.to_local(), mesh, placements, self.placements)

    def to_local(self, *, grad_placements: Sequence[Any] | None = None) -> torch.Tensor:
        """The tensor as a plain one. It is all of it: one process has all parts."""
        with torch._C.DisableTorchFunctionSubclass():
            plain = self.as_subclass(torch.Tensor)  # type: ignore[arg-type]
        if grad_placements is None:
            return plain
        part = MeshPart.of(self.device_mesh)
        return Place.apply(plain, None, annotation(part, partition_spec(part.axes, grad_placements, plain.dim())))

    def full_tensor(self, *, grad_placements: Sequence[Any] | None = None) -> torch.Tensor:
        """`to_local`."""
        return self.to_local(grad_placements=grad_placements)


def plain(value: Any) -> Any:
    """A DistributedTensor or XLAShardedTensor as a plain tensor, with its place in the graph of gradients."""
    return value.to_local() if isinstance(value, (DistributedTensor, XLAShardedTensor)) else value


def distributed(t: torch.Tensor, device_mesh: Any, placements: Sequence[Any] | None, grad_placements: Sequence[Any] | None) -> DistributedTensor:
    """A tensor that lies by placements, its gradient by grad_placements if there are any. A parameter is marked itself."""
    if t.device.type != "xla":
        t = t.to("xla")
    part = MeshPart.of(device_mesh)
    spec = partition_spec(part.axes, placements, t.dim())
    back = None if grad_placements is None else annotation(part, partition_spec(part.axes, grad_placements, t.dim()))
    if isinstance(t, nn.Parameter):
        if any(spec):
            _annotate("distribute_tensor", t.detach(), op_sharding(part.mesh, merged_spec(part, t.detach(), spec)), "replace")
        placed = t.view_as(t)
    else:
        placed = Place.apply(t, annotation(part, spec), back)
    result = placed.as_subclass(DistributedTensor)
    result.device_mesh, result.placements = device_mesh, None if placements is None else tuple(placements)
    return result


def from_local(
    local_tensor: torch.Tensor, device_mesh: Any, placements: Sequence[Any] | None = None, *, run_check: bool = False,
    shape: Any = None, stride: Any = None, grad_placements: Sequence[Any] | None = None,
) -> DistributedTensor:  # fmt: skip
    """DTensor.from_local on a mesh of device xla: `local_tensor` is all of the tensor. ValueError for a shape that is not its own."""
    tensor = plain(local_tensor)
    if shape is not None and tuple(shape) != tuple(tensor.shape):
        raise ValueError(f"DTensor.from_local(): expected no shape but {tuple(tensor.shape)}, since one process has all of the tensor, got {tuple(shape)}")
    return distributed(tensor, device_mesh, placements, grad_placements or placements)


def xla_distribute_tensor(tensor: torch.Tensor, device_mesh: Any, placements: Sequence[Any] | None = None) -> XLAShardedTensor:
    """torch.distributed.tensor.distribute_tensor on a mesh of device xla: moves a tensor there if need be, and marks it.

    A tensor on device xla is marked itself. Shard placements divide it along dimensions of the device mesh, Replicate leaves
    it whole along them (the default for all); on a slice of a mesh they add to how it lies along the other dimensions.

    RuntimeError for a tensor in the middle of a graph of gradients, as torch has it; ValueError for Partial placements, for
    a meta tensor, and for a tensor that the mesh divides otherwise already; FailedPreconditionError without
    `xla_go.runtime.use_spmd()`.
    """
    if tensor.is_meta:
        raise ValueError("distribute_tensor(): expected a tensor with contents, got a meta tensor: give it some by to_empty(device='xla') first")
    if tensor.requires_grad and not tensor.is_leaf:
        raise RuntimeError("distribute_tensor(): expected a leaf of the graph of gradients, got a computed tensor: use xla_go.spmd.mark_sharding_with_gradients")
    part = MeshPart.of(device_mesh)
    whole = unwrap_sharded_tensor(tensor).detach()
    whole = whole.as_subclass(torch.Tensor) if isinstance(whole, DistributedTensor) else whole  # type: ignore[arg-type]
    whole = whole if whole.device.type == "xla" else whole.to("xla")
    spec = merged_spec(part, whole, partition_spec(part.axes, placements, whole.dim()))
    _annotate("distribute_tensor", whole, op_sharding(part.mesh, spec), "replace")
    result = XLAShardedTensor(whole, part.mesh.mesh_shape, named_spec(part.mesh, spec), requires_grad=tensor.requires_grad)
    result.device_mesh = device_mesh
    return result


def _arguments(function: Callable[..., Any], name: str) -> int:
    count = len(inspect.signature(function).parameters)
    if count not in (2, 3):
        raise ValueError(f"distribute_module(): expected {name} of the module, its {name.removesuffix('_fn')}s and the device mesh, got one of {count} arguments")
    return count


def _keep_plain(module: nn.Module, before: dict[str, nn.Parameter | None]) -> None:
    """Puts plain parameters and buffers in the place of distributed ones: they lie as those, and cost no Python per operation."""
    for name, parameter in module._parameters.items():
        if isinstance(parameter, (XLAShardedTensor, DistributedTensor)):
            whole, old = plain(parameter).detach(), before.get(name)
            same = old is not None and old.device == whole.device and old.untyped_storage()._cdata == whole.untyped_storage()._cdata
            kept = old if same and old is not None else nn.Parameter(whole)
            module._parameters[name] = kept.requires_grad_(parameter.requires_grad)
    for name, buffer in module._buffers.items():
        if isinstance(buffer, (XLAShardedTensor, DistributedTensor)):
            module._buffers[name] = plain(buffer).detach()


def xla_distribute_module(
    module: nn.Module, device_mesh: Any, partition_fn: Callable[..., Any] | None = None,
    input_fn: Callable[..., Any] | None = None, output_fn: Callable[..., Any] | None = None,
) -> nn.Module:  # fmt: skip
    """torch.distributed.tensor.distribute_module on a mesh of device xla, and so parallelize_module.

    The module is moved to device xla; partition_fn(name, submodule, device_mesh) distributes parameters, and those it leaves
    alone are whole on each device. They stay plain parameters, whatever partition_fn puts in their place. input_fn(module,
    inputs, device_mesh) and output_fn(module, outputs, device_mesh) see distributed tensors, forward and whoever called it
    plain ones. Gives the module back.
    """
    from torch.utils._pytree import tree_map

    MeshPart.of(device_mesh)
    takes = {name: _arguments(function, name) for name, function in (("input_fn", input_fn), ("output_fn", output_fn)) if function is not None}
    module.to("xla")
    if partition_fn is not None:
        for name, submodule in list(module.named_modules()):
            before = [(each, dict(each._parameters)) for each in submodule.modules()]
            partition_fn(name, submodule, device_mesh)
            for each, parameters in before:
                _keep_plain(each, parameters)

    def seen(value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or isinstance(value, (XLAShardedTensor, DistributedTensor)) or value.device.type != "xla":
            return value
        result = value.as_subclass(DistributedTensor)
        result.device_mesh = device_mesh
        return result

    if input_fn is not None:
        prepare = input_fn

        def before_forward(this: nn.Module, inputs: Any) -> Any:
            return tree_map(plain, prepare(this, inputs, device_mesh) if takes["input_fn"] == 3 else prepare(inputs, device_mesh))

        module.register_forward_pre_hook(before_forward)
    if output_fn is not None:
        finish = output_fn

        def after_forward(this: nn.Module, inputs: Any, outputs: Any) -> Any:
            outputs = tree_map(seen, outputs)
            return tree_map(plain, finish(this, outputs, device_mesh) if takes["output_fn"] == 3 else finish(outputs, device_mesh))

        module.register_forward_hook(after_forward)
    module._distribute_module_applied = True  # type: ignore[assignment]  # torch refuses a second time
    return module
