"""What `torch_xla.core` is after `xla_go.compat.install()`: the parent of `xla_model`."""

from __future__ import annotations

__path__: list[str] = []
