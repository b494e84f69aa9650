"""What `torch_xla.experimental.assume_pure` gives after `xla_go.compat.install()`: functions that are traced once.

torch_xla traces such a function through JAX; here the device's own tracing does, and it needs no JAX.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from xla_go.compat import xla_builder
from xla_go.loop import placeholders_like
from xla_go.pure_function import PureFunction

__all__ = ["PureModule", "assume_pure", "assume_pure_torch"]

# Of functions: what they were traced to, by the types of their arguments.
_XLA_COMPUTATION_CACHE: dict[Any, Any] = {}


def _types(leaves: list[Any], spec: Any) -> Any:
    described = tuple((leaf.shape, leaf.dtype, leaf.device, leaf.requires_grad) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves)
    return described, spec, torch.is_grad_enabled()


def assume_pure(fn: Callable[..., Any], *, add_rng_seed_argument: bool = False) -> Callable[..., Any]:
    """xla_go.pure_function.PureFunction of `fn`; with add_rng_seed_argument calls take a keyword rng_seed, AssertionError without it.

    What it lowers counts among the programs of xla_builder's call_jax.
    """
    pure = PureFunction(fn, seeded=add_rng_seed_argument)

    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        assert not add_rng_seed_argument or kwargs.get("rng_seed") is not None, "assume_pure(): expected the keyword argument rng_seed, got none"
        xla_builder._JAX_TO_XLA_COMPUTATION_CACHE[wrapper] = pure
        return pure(*args, **kwargs)

    return wrapper


def assume_pure_torch(func: Callable[..., Any], use_cache: bool = False) -> Callable[..., Any]:
    """`func` without gradients; with use_cache it is traced once for each kind of arguments and replayed afterwards.

    AssertionError where gradients are on.
    """

    @functools.wraps(func)
    def wrapper(*args: Any) -> Any:
        assert not torch.is_grad_enabled(), "assume_pure_torch(): expected to be called under torch.no_grad(): use assume_pure"
        if not use_cache:
            return func(*args)
        leaves, spec = pytree.tree_flatten(args)
        key = func, _types(leaves, spec)
        if key not in _XLA_COMPUTATION_CACHE:
            _XLA_COMPUTATION_CACHE[key] = _trace(func, leaves, spec)
        graph, structure = _XLA_COMPUTATION_CACHE[key]
        return pytree.tree_unflatten(graph(*(leaf for leaf in leaves if isinstance(leaf, torch.Tensor))), structure)

    return wrapper


def _trace(func: Callable[..., Any], leaves: list[Any], spec: Any) -> tuple[Callable[..., Any], Any]:
    """The graph of a function of tensors without values, and the structure of its result."""
    places = [place for place, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    structure: list[Any] = []

    def flat(*tensors: torch.Tensor) -> list[Any]:
        given = list(leaves)
        for place, tensor in zip(places, tensors, strict=True):
            given[place] = tensor
        results, out_spec = pytree.tree_flatten(func(*pytree.tree_unflatten(given, spec)))
        structure[:] = [out_spec]
        return results

    return make_fx(flat)(*placeholders_like([leaves[place] for place in places])), structure[0]


class PureModule(torch.nn.Module):
    """A module whose forward is `assume_pure`, with its parameters and buffers as arguments."""

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self._module = module
        self._pure = PureFunction(lambda state, args, kwargs: torch.func.functional_call(module, state, args, kwargs))

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        state = {**dict(self._module.named_parameters()), **dict(self._module.named_buffers())}
        return self._pure(state, args, kwargs)
