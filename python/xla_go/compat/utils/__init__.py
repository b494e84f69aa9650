"""What `torch_xla.utils` is after `xla_go.compat.install()`: the parent of `utils`, `checkpoint`, `serialization`, `dlpack`."""

from __future__ import annotations
