"""Values that are computed again instead of kept: `checkpoint`, and the barrier that keeps XLA from merging the two."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
import torch.utils.checkpoint
from torch.utils import _pytree as pytree

__all__ = ["checkpoint", "optimization_barrier", "optimization_barrier_"]


class _Barrier(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        results = [torch.empty_like(tensor) for tensor in tensors]
        torch.ops.xla_go.optimization_barrier(list(tensors), results)
        ctx.mark_non_differentiable(*(one for one in results if not (one.is_floating_point() or one.is_complex())))
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return gradients


def optimization_barrier(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The tensors, which XLA takes for new ones: it merges and moves nothing across, and makes none before all are there.

    ValueError for a tensor that is not on device xla. Not blocking.
    """
    for tensor in tensors:
        if tensor.device.type != "xla":
            raise ValueError(f"optimization_barrier(): expected tensors on device xla, got one on {tensor.device}")
    return list(_Barrier.apply(*tensors)) if tensors else []


def optimization_barrier_(tensors: Sequence[torch.Tensor]) -> None:
    """optimization_barrier in place."""
    with torch.no_grad():
        torch.ops.xla_go.optimization_barrier(list(tensors), list(tensors))


@contextmanager
def _random_state(state: tuple[torch.Tensor, torch.Tensor]) -> Iterator[None]:
    """The random generators of the CPU and of the device as they were then, for the block."""
    device = torch.get_device_module("xla")
    before = torch.get_rng_state(), device.get_rng_state()
    torch.set_rng_state(state[0])
    device.set_rng_state(state[1])
    try:
        yield
    finally:
        torch.set_rng_state(before[0])
        device.set_rng_state(before[1])


def _autocasts() -> list[Callable[[], Any]]:
    """The autocast contexts in force."""
    cache = torch.is_autocast_cache_enabled()
    return [
        partial(torch.autocast, kind, dtype=torch.get_autocast_dtype(kind), enabled=torch.is_autocast_enabled(kind), cache_enabled=cache)
        for kind in ("xla", "cpu")
    ]


class CheckpointFunction(torch.autograd.Function):
    """Runs a function without keeping what it computes, and runs it again for the gradient."""

    @staticmethod
    def forward(ctx: Any, function: Callable[..., Any], preserve_rng_state: bool, structure: list[Any], spec: Any, *leaves: Any) -> tuple[Any, ...]:
        ctx.function, ctx.spec, ctx.autocasts = function, spec, _autocasts()
        ctx.random = (torch.get_rng_state(), torch.get_device_module("xla").get_rng_state()) if preserve_rng_state else None
        ctx.places = [place for place, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        ctx.others = [None if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        ctx.save_for_backward(*(leaves[place] for place in ctx.places))
        with torch.no_grad():
            arguments, keywords = pytree.tree_unflatten(list(leaves), spec)
            flat, out_spec = pytree.tree_flatten(function(*arguments, **keywords))
        structure[:] = [out_spec]
        return tuple(flat)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Any, ...]:
        saved = ctx.saved_tensors
        given = [gradient for gradient in gradients if gradient is not None]
        on_device = [place for place, tensor in enumerate([*saved, *given]) if tensor.device.type == "xla"]
        # Behind the barrier all is new to XLA, so it does not use what the first run has made; and it begins no sooner
        # than with the gradients, so that memory is not taken before.
        fresh = [tensor.detach() for tensor in [*saved, *given]]
        for place, tensor in zip(on_device, optimization_barrier([fresh[place] for place in on_device]), strict=True):
            fresh[place] = tensor
        inputs, tangents = fresh[: len(saved)], iter(fresh[len(saved) :])
        inputs = [one.requires_grad_(tensor.requires_grad) for one, tensor in zip(inputs, saved, strict=True)]
        leaves = list(ctx.others)
        for place, tensor in zip(ctx.places, inputs, strict=True):
            leaves[place] = tensor
        with ExitStack() as stack:
            if ctx.random is not None:
                stack.enter_context(_random_state(ctx.random))
            for autocast in ctx.autocasts:
                stack.enter_context(autocast())
            stack.enter_context(torch.enable_grad())
            arguments, keywords = pytree.tree_unflatten(leaves, ctx.spec)
            outputs = pytree.tree_leaves(ctx.function(*arguments, **keywords))
        received = [(output, None if gradient is None else next(tangents)) for output, gradient in zip(outputs, gradients, strict=True)]
        wanted = [(output, tangent) for output, tangent in received if isinstance(output, torch.Tensor) and output.requires_grad and tangent is not None]
        if not wanted:
            raise RuntimeError("checkpoint(): expected a function with an output that requires a gradient, got none: leave it without checkpoint")
        torch.autograd.backward([output for output, _ in wanted], [tangent for _, tangent in wanted])
        found: list[Any] = [None] * len(leaves)
        for place, tensor in zip(ctx.places, inputs, strict=True):
            found[place] = tensor.grad
        return (None, None, None, None, *found)


def checkpoint(function: Callable[..., Any], *args: Any, use_reentrant: bool = True, **kwargs: Any) -> Any:
    """`function(*args, **kwargs)`, of which only the arguments are kept for the gradient: the rest is computed again then.

    torch.utils.checkpoint.checkpoint does so too, but within one program XLA finds that the two runs compute the same and
    keeps the values after all; here a barrier is between them. Random numbers of the second run are those of the first one,
    unless preserve_rng_state=False. With use_reentrant (the default here) a tensor among the arguments has to require a
    gradient; use_reentrant=False takes torch's further arguments, and gradients of what the function uses besides.
    """
    if not use_reentrant:
        return torch.utils.checkpoint.checkpoint(_second_run_apart(function), *args, use_reentrant=False, **kwargs)
    preserve = kwargs.pop("preserve_rng_state", True)
    leaves, spec = pytree.tree_flatten((args, kwargs))
    if torch.is_grad_enabled() and not any(isinstance(leaf, torch.Tensor) and leaf.requires_grad for leaf in leaves):
        import warnings

        warnings.warn("checkpoint(): none of the arguments requires a gradient, so the result has none: use_reentrant=False gives one to what the function uses", stacklevel=2)
    structure: list[Any] = []
    results = CheckpointFunction.apply(function, preserve, structure, spec, *leaves)
    return pytree.tree_unflatten(list(results), structure[0])


def _second_run_apart(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which from its second call on has its tensors behind a barrier."""
    runs = 0

    def run(*args: Any, **kwargs: Any) -> Any:
        nonlocal runs
        runs += 1
        if runs > 1:
            leaves, spec = pytree.tree_flatten((args, kwargs))
            places = [place for place, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor) and leaf.device.type == "xla"]
            for place, tensor in zip(places, optimization_barrier([leaves[place] for place in places]), strict=True):
                leaves[place] = tensor
            args, kwargs = pytree.tree_unflatten(leaves, spec)
        return function(*args, **kwargs)

    return run
