"""What `import torch_xla.distributed` gives after `xla_go.compat.install()`: the modules below it."""

from __future__ import annotations

from xla_go.compat._missing import child_modules

# A package without a place of its own: the modules below it are those that install() put in place.
__path__: list[str] = []

__getattr__ = child_modules("torch_xla.distributed")
