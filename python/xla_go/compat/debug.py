"""What `torch_xla.debug` is after `xla_go.compat.install()`: the parent of `metrics`."""

from __future__ import annotations

__path__: list[str] = []
