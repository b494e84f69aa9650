"""What `torch_xla._internal` is after `xla_go.compat.install()`: the parent of `pjrt`, `tpu` and `jax_workarounds`."""

from __future__ import annotations

from xla_go.compat._missing import child_modules

__getattr__ = child_modules("torch_xla._internal")
