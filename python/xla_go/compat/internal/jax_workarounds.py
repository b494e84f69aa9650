"""What `torch_xla._internal.jax_workarounds` gives after `xla_go.compat.install()`."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

_F = TypeVar("_F", bound=Callable[..., Any])


def jax_import_guard() -> None:
    """Nothing to guard: JAX has clients of its own, which share no state with this one."""


def requires_jax(fn: _F) -> _F:
    """`fn` as it is: it raises JAX's own ImportError where JAX is missing."""
    return fn


def maybe_get_jax(log: bool = True) -> Any:
    """The module jax, None where it is not installed."""
    try:
        return importlib.import_module("jax")
    except ImportError:
        return None


def maybe_get_torchax() -> Any:
    """The module torchax, None where it is not installed. Nothing here needs it."""
    try:
        return importlib.import_module("torchax")
    except ImportError:
        return None


@contextlib.contextmanager
def jax_env_context() -> Iterator[None]:
    """Nothing to set: JAX reads an environment of its own."""
    yield
