"""What `torch_xla.test` is after `xla_go.compat.install()`: the parent of `test_utils`."""

from __future__ import annotations

from xla_go.compat._missing import child_modules

__getattr__ = child_modules("torch_xla.test")
