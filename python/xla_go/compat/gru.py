"""What `torch_xla.experimental.gru` gives after `xla_go.compat.install()`, which also puts it in place of torch.nn.GRU."""

from __future__ import annotations

from xla_go.recurrent import GRU

__all__ = ["GRU"]
