"""What `torch_xla._dynamo` is after `xla_go.compat.install()`: the parent of `dynamo_bridge`."""

from __future__ import annotations

from xla_go.compat._missing import child_modules

__path__: list[str] = []

__getattr__ = child_modules("torch_xla._dynamo")
