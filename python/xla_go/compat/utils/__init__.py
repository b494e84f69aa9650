"""What `torch_xla.utils` is after `xla_go.compat.install()`: the parent of `utils`, `checkpoint`, `serialization`, `dlpack`."""

from __future__ import annotations

from xla_go.compat._missing import child_modules

__getattr__ = child_modules("torch_xla.utils")
