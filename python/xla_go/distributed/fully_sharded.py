"""XlaFullyShardedDataParallel: a module of whose parameters each replica keeps a part, gathered where they are used."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from torch import nn

import xla_go
from xla_go.distributed._parts import Parts, scale_to
from xla_go.distributed.collective import REDUCE_MAX, REDUCE_SUM, Groups
from xla_go.rematerialization import optimization_barrier

__all__ = ["XlaFullyShardedDataParallel"]


class _Sharded:
    """A parameter of a module, which holds this replica's part in its place."""

    def __init__(self, owner: nn.Module, name: str, place: str, parts: Parts) -> None:
        self.owner, self.name, self.place, self.parts = owner, name, place, parts
        parameter = owner._parameters[name]
        assert parameter is not None
        self.shape = parameter.shape
        part = parts.of(parameter.detach().to(xla_go.device()).reshape(-1))
        owner._parameters[name] = nn.Parameter(part, requires_grad=parameter.requires_grad)

    @property
    def part(self) -> nn.Parameter:
        found = self.owner._parameters[self.name]
        assert found is not None
        return found

    def whole(self, part: torch.Tensor) -> torch.Tensor:
        """The parameter's value, of every replica's part."""
        return self.parts.join(part, [self.shape.numel()]).view(self.shape)


class _Whole(torch.autograd.Function):
    """A parameter's value, in the type it is computed in. Its gradient is this replica's part of the replicas' mean."""

    @staticmethod
    def forward(ctx: Any, part: torch.Tensor, sharded: _Sharded, compute_dtype: torch.dtype | None, exact: bool) -> torch.Tensor:
        ctx.sharded, ctx.dtype, ctx.exact = sharded, part.dtype, exact
        return sharded.whole(part if compute_dtype is None else part.to(compute_dtype))

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:  # type: ignore[override]
        flat = gradient.reshape(-1)
        return ctx.sharded.parts.mean_of(flat.float() if ctx.exact else flat).to(ctx.dtype), None, None, None


class _Saved:
    """What the backward pass needs of a parameter: how it looks at the value, which is gathered again for it."""

    def __init__(self, part: torch.Tensor, sharded: _Sharded, value: torch.Tensor) -> None:
        self._part, self._sharded, self._dtype = part, sharded, value.dtype
        self._view = value.size(), value.stride(), value.storage_offset()

    def value(self) -> torch.Tensor:
        with torch.no_grad():
            # Without it the program would keep the value of the forward pass.
            (part,) = optimization_barrier([self._part.detach().to(self._dtype)])
            return self._sharded.whole(part).as_strided(*self._view)


class XlaFullyShardedDataParallel(nn.Module):
    """A module whose parameters are divided over the replicas, gathered in its forward, and again in its backward pass.

    In the place of each parameter is a flat one, this replica's part of it, on device xla; give these to an optimizer, after
    wrapping. Gradients are means over the replicas, and each replica gets its part: call optimizer.step(), not
    xm.optimizer_step(). All replicas wrap modules with the same values. Submodules that are wrapped are gathered on their own,
    when they are used: wrap layers, by auto_wrap_policy or by hand, and then the whole.

    Parameters of device meta get values before: by param_init_fn(module), or empty memory and each submodule's
    reset_parameters(). reshard_after_forward=False keeps gathered values for the backward pass. compute_dtype is the type
    of gathered values and of floating point arguments; gradients are averaged in it, or as float32 with fp32_reduce_scatter.
    buffer_dtype is that of floating point buffers. sharding_groups are the replicas that divide values among themselves.

    The parts and their names in state_dict belong to a number of replicas: full_state_dict() has the whole values.
    """

    def __init__(
        self,
        module: nn.Module,
        *,
        reshard_after_forward: bool = True,
        compute_dtype: torch.dtype | None = None,
        buffer_dtype: torch.dtype | None = None,
        fp32_reduce_scatter: bool = False,
        sharding_groups: Groups = None,
        auto_wrap_policy: Callable[..., Any] | None = None,
        auto_wrapper_callable: Callable[..., nn.Module] | None = None,
        param_init_fn: Callable[[nn.Module], Any] | None = None,
    ) -> None:
        super().__init__()
        if isinstance(module, XlaFullyShardedDataParallel):
            raise ValueError("XlaFullyShardedDataParallel(): expected a module that is not wrapped yet")
        if auto_wrap_policy is not None:
            from torch.distributed.fsdp.wrap import _recursive_wrap

            arguments: dict[str, Any] = {
                "reshard_after_forward": reshard_after_forward, "compute_dtype": compute_dtype, "buffer_dtype": buffer_dtype,
                "fp32_reduce_scatter": fp32_reduce_scatter, "sharding_groups": sharding_groups, "param_init_fn": param_init_fn,
            }  # fmt: skip
            wrapper: Any = functools.partial(auto_wrapper_callable or XlaFullyShardedDataParallel, **arguments)
            _recursive_wrap(module, auto_wrap_policy, wrapper, set(), set(), only_wrap_children=True)
        self._frees, self._compute_dtype, self._exact = reshard_after_forward, compute_dtype, fp32_reduce_scatter
        self.module = module
        inner = {id(one) for other in module.modules() if isinstance(other, XlaFullyShardedDataParallel) for one in other.modules()}
        own = [(path, one) for path, one in module.named_modules() if id(one) not in inner]
        _materialize(module, [one for _, one in own], param_init_fn)
        self._parts = Parts(sharding_groups)
        self._sharded: list[_Sharded] = []
        seen: dict[nn.Parameter, _Sharded] = {}
        for path, owner in own:
            for name, parameter in owner._parameters.items():
                if parameter is None:
                    continue
                known = seen.get(parameter)
                if known is not None:  # one parameter of two modules stays one
                    owner._parameters[name] = known.part
                    continue
                found = _Sharded(owner, name, f"{path}.{name}" if path else name, self._parts)
                seen[parameter] = seen[found.part] = found
                self._sharded.append(found)
            for name, buffer in owner._buffers.items():
                if buffer is not None:
                    kind = buffer_dtype if buffer_dtype is not None and buffer.is_floating_point() else buffer.dtype
                    owner._buffers[name] = buffer.to(device=xla_go.device(), dtype=kind)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The wrapped module's output."""
        if self._compute_dtype is not None:
            args, kwargs = torch.utils._pytree.tree_map_only(torch.Tensor, self._cast, (args, kwargs))
        values: dict[str, torch.Tensor] = {}
        whole: dict[Any, tuple[torch.Tensor, _Sharded]] = {}
        for one in self._sharded:
            value = _Whole.apply(one.part, one, self._compute_dtype, self._exact)
            values[one.place] = value
            whole[value.untyped_storage()._cdata] = one.part, one

        def pack(tensor: torch.Tensor) -> Any:
            found = whole.get(tensor.untyped_storage()._cdata) if tensor.device.type == "xla" else None
            return tensor if found is None else _Saved(*found, tensor)

        def unpack(saved: Any) -> torch.Tensor:
            return saved.value() if isinstance(saved, _Saved) else saved

        gathered_again = torch.autograd.graph.saved_tensors_hooks(pack, unpack) if self._frees else nullcontext()
        with gathered_again:
            return torch.func.functional_call(self.module, values, args, kwargs)

    def _cast(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to(self._compute_dtype) if tensor.is_floating_point() else tensor

    def _all_sharded(self) -> list[tuple[str, _Sharded]]:
        """Of this module and of wrapped ones in it, with the names that parameters have in the module without wrappers."""
        found = []
        for path, one in self.named_modules():
            if isinstance(one, XlaFullyShardedDataParallel):
                steps = [step for step in path.split(".") if step] + ["module"]
                prefix = _unwrapped(self, steps)
                found += [(".".join([*prefix, sharded.place]), sharded) for sharded in one._sharded]
        return found

    @torch.no_grad()
    def clip_grad_norm_(self, max_norm: float, norm_type: float = 2.0, groups: Groups = None) -> torch.Tensor:
        """Scales the gradients so that their norm over all parameters of all replicas is at most max_norm; gives the norm.

        Over `groups` norms are combined besides (those of tensor parallelism). Not blocking.
        """
        gradients = [sharded.part.grad for _, sharded in self._all_sharded() if sharded.part.grad is not None]
        if not gradients:
            return torch.zeros((), device=xla_go.device())
        norms = torch.stack([torch.linalg.vector_norm(one.float(), norm_type) for one in gradients])
        largest = math.isinf(norm_type)
        total = norms.max() if largest else norms.pow(norm_type).sum()
        total = self._parts.total(REDUCE_MAX if largest else REDUCE_SUM, total, groups)
        norm = total if largest else total.pow(1.0 / norm_type)
        scale_to(gradients, norm, max_norm)
        return norm

    @torch.no_grad()
    def full_state_dict(self) -> dict[str, torch.Tensor]:
        """The wrapped module's state_dict with whole values, by the names it would have without wrappers, on the device.

        All replicas call it: it gathers. Not blocking.
        """
        values = {name: sharded.whole(sharded.part.detach()) for name, sharded in self._all_sharded()}
        buffers = {".".join(_unwrapped(self, ["module", *name.split(".")])): value for name, value in self.module.state_dict().items()}
        return {name: values.get(name, value) for name, value in buffers.items()}

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("module"), name)


def _unwrapped(root: nn.Module, steps: list[str]) -> list[str]:
    """The steps from a module to another, without those from a wrapper to what it wraps."""
    kept, at = [], root
    for step in steps:
        if not (isinstance(at, XlaFullyShardedDataParallel) and step == "module"):
            kept.append(step)
        at = at._modules.get(step, at) or at
    return kept


def _materialize(module: nn.Module, own: list[nn.Module], param_init_fn: Callable[[nn.Module], Any] | None) -> None:
    """Gives parameters and buffers of device meta memory and values; those of wrapped submodules have theirs."""
    bare = [one for one in own if any(value is not None and value.is_meta for value in (*one._parameters.values(), *one._buffers.values()))]
    if not bare:
        return
    if param_init_fn is not None:
        param_init_fn(module)
        return
    for one in bare:
        reset = getattr(one, "reset_parameters", None)
        if not callable(reset):
            raise ValueError(f"XlaFullyShardedDataParallel(): expected {type(one).__name__} to have reset_parameters(), or values instead of device meta: give param_init_fn")
        one.to_empty(device=xla_go.device(), recurse=False)
        with torch.no_grad():
            reset()
