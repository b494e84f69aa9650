"""What `torch_xla.experimental.eager` gives after `xla_go.compat.install()`: xla_go.eager_mode."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from xla_go import eager_mode, is_eager_mode

__all__ = ["eager_mode", "eager_mode_context", "is_eager_mode"]


@contextmanager
def eager_mode_context(enable: bool) -> Iterator[None]:
    """`eager_mode(enable)` for the block, and what it was before after it."""
    before = is_eager_mode()
    eager_mode(enable)
    try:
        yield
    finally:
        eager_mode(before)
