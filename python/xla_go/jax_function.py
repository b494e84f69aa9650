"""Functions that are written with JAX, called with tensors on device xla as part of the step's program.

JAX lowers the function to HLO; it runs nothing, and its own devices are not used. `pip install jax`; with JAX_PLATFORMS=cpu it
leaves accelerators to this process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.autograd.function import once_differentiable

from xla_go import runtime
from xla_go.hlo_module import HloModule

__all__ = ["JaxFunction"]


class JaxFunction:
    """`function` of JAX arrays, as one of tensors on device xla.

    Arguments and results may be nested as JAX's trees are; what is no tensor among the arguments reaches the function as it is. It is
    lowered once for each kind of arguments: the tensors' sizes and dtypes, and all else by its value. Where a tensor
    requires a gradient, jax.vjp gives it, once. As in JAX, 64-bit types become 32-bit ones unless its jax_enable_x64 is on.

    Raises ImportError where JAX is missing, ValueError for tensors on other devices.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._known: dict[Any, _Lowered] = {}

    @property
    def programs(self) -> list[HloModule]:
        """The modules that JAX has lowered so far, forward and backward ones."""
        return [module for lowered in self._known.values() for module in (lowered.forward, lowered.backward) if module is not None]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the function gives. Not blocking."""
        import jax

        leaves, spec = jax.tree.flatten((args, kwargs))
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        for tensor in tensors:
            if tensor.device.type != "xla":
                raise ValueError(f"JaxFunction(): expected tensors on device xla, got one on {tensor.device}")
        takes = [torch.is_grad_enabled() and one.requires_grad for one in tensors]
        others = tuple(None if isinstance(leaf, torch.Tensor) else (type(leaf), leaf) for leaf in leaves)
        key = tuple((one.shape, one.dtype) for one in tensors), tuple(takes), others, spec, configuration()
        lowered = self._known.get(key)
        if lowered is None:
            lowered = self._known[key] = _Lowered(self._function, leaves, spec, tensors, takes)
        if lowered.backward is None:
            results: Sequence[torch.Tensor] = _call(lowered.forward, tensors)
        else:
            results = _Call.apply(lowered, *tensors)
        return lowered.result(results)


def configuration() -> Any:
    """What of JAX's settings a function is lowered with, as part of a key."""
    import jax

    try:
        from jax._src.config import trace_context

        return trace_context()
    except ImportError:  # settings of a `with` are not seen then
        return tuple(sorted((name, str(value)) for name, value in jax.config.values.items()))


def _call(module: HloModule, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    return module(*(one.to(dtype) for one, (dtype, _) in zip(tensors, module.parameters, strict=True)))


class _Lowered:
    """A function as JAX lowers it for one kind of arguments."""

    def __init__(self, function: Callable[..., Any], leaves: Sequence[Any], spec: Any, tensors: Sequence[torch.Tensor], takes: Sequence[bool]) -> None:
        import jax

        self.takes, self._spec = list(takes), None
        self.backward: HloModule | None = None
        self.outputs, self.real = 0, [False]

        def whole(arrays: Sequence[Any]) -> list[Any]:
            given = iter(arrays)
            args, kwargs = jax.tree.unflatten(spec, [next(given) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves])
            results, self._spec = jax.tree.flatten(function(*args, **kwargs))
            arrays = [jax.numpy.asarray(one) for one in results]
            self.real = [bool(jax.numpy.issubdtype(one.dtype, jax.numpy.inexact)) for one in arrays]
            self.outputs = len(arrays)
            return arrays

        shapes = [_struct(one) for one in tensors]
        if not any(takes):
            self.forward = _lower(whole, shapes)
            return
        pullback: list[Any] = []

        def with_residuals(arrays: Sequence[Any]) -> list[Any]:
            def of(*wanted: Any) -> Any:
                found = iter(wanted)
                results = whole([next(found) if has else array for has, array in zip(takes, arrays, strict=True)])
                return [one for one, real in zip(results, self.real, strict=True) if real], results

            _, back, results = jax.vjp(of, *(array for has, array in zip(takes, arrays, strict=True) if has), has_aux=True)
            residuals, tree = jax.tree.flatten(back)
            pullback[:] = [tree, [jax.typeof(one) for one in residuals]]
            return [*results, *residuals]

        self.forward = _lower(with_residuals, shapes)
        tree, residuals = pullback
        given = [_struct_of(dtype, sizes) for (dtype, sizes), real in zip(self.forward.results, self.real, strict=False) if real]
        kept = [jax.ShapeDtypeStruct(one.shape, one.dtype) for one in residuals]
        if any(self.real):
            self.backward = _lower(lambda arrays: list(jax.tree.unflatten(tree, arrays[: len(kept)])(list(arrays[len(kept) :]))), [*kept, *given])

    def result(self, tensors: Sequence[torch.Tensor]) -> Any:
        import jax

        assert self._spec is not None
        return jax.tree.unflatten(self._spec, tensors[: self.outputs])


def _struct(tensor: torch.Tensor) -> Any:
    return _struct_of(tensor.dtype, tuple(tensor.shape))


def _struct_of(dtype: torch.dtype, sizes: Sequence[int]) -> Any:
    import jax

    return jax.ShapeDtypeStruct(tuple(sizes), jax.numpy.dtype(str(dtype).removeprefix("torch.")))


def _lower(function: Callable[[Sequence[Any]], list[Any]], shapes: Sequence[Any]) -> HloModule:
    import jax

    platform = (runtime.device_type() or "cpu").lower()
    lowered = jax.jit(function, keep_unused=True).trace(list(shapes)).lower(lowering_platforms=(platform,))
    return HloModule(lowered.compiler_ir("hlo").as_serialized_hlo_module_proto())


class _Call(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, lowered: _Lowered, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ctx.lowered, ctx.dtypes = lowered, [one.dtype for one in tensors]
        results = _call(lowered.forward, tensors)
        outputs, residuals = results[: lowered.outputs], results[lowered.outputs :]
        ctx.save_for_backward(*residuals)
        ctx.mark_non_differentiable(*(one for one, real in zip(outputs, lowered.real, strict=True) if not real))
        return tuple(outputs)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *cotangents: torch.Tensor) -> tuple[Any, ...]:
        lowered = ctx.lowered
        given = [one for one, real in zip(cotangents, lowered.real, strict=True) if real]
        found = iter(_call(lowered.backward, [*ctx.saved_tensors, *given]))
        return None, *(next(found).to(dtype) if has else None for has, dtype in zip(lowered.takes, ctx.dtypes, strict=True))
