"""What `torch_xla.experimental.deprecation` gives after `xla_go.compat.install()`: warnings of old names."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any, TypeVar

_F = TypeVar("_F", bound=Callable[..., Any])


def _warns(new: Callable[..., Any], old: str, extra_msg: str | None) -> Callable[..., Any]:
    @functools.wraps(new)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        logging.warning("%s is deprecated, use %s.%s instead. %s", old, new.__module__, new.__name__, extra_msg or "")
        return new(*args, **kwargs)

    return wrapper


def deprecated(module: Any, new: _F, old_name: str | None = None, extra_msg: str | None = None) -> _F:
    """`new`, with a warning at each call that the module's old name is going away."""
    return _warns(new, f"{module.__name__}.{old_name or new.__name__}", extra_msg)  # type: ignore[return-value]


def mark_deprecated(new: Callable[..., Any], extra_msg: str | None = None) -> Callable[[_F], _F]:
    """A decorator of an old function: calls go to `new`, with a warning."""

    def decorate(old: _F) -> _F:
        return _warns(new, f"{old.__module__}.{old.__name__}", extra_msg)  # type: ignore[return-value]

    return decorate


def register_deprecated(module: Any, new: Callable[..., Any]) -> None:
    """Gives a module `new` under its own name, with a warning at each call."""
    setattr(module, new.__name__, deprecated(module, new))
