"""What `import torch_xla.experimental` gives after `xla_go.compat.install()`: eager mode, and the modules below it."""

from __future__ import annotations

from xla_go.compat._missing import child_modules
from xla_go.compat.eager import eager_mode, eager_mode_context, is_eager_mode

# A package without a place of its own: the modules below it are those that install() put in place.
__path__: list[str] = []
__all__ = ["eager_mode", "eager_mode_context", "is_eager_mode"]

__getattr__ = child_modules("torch_xla.experimental")
