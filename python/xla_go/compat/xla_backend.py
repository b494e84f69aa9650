"""What `torch_xla.distributed.xla_backend` gives after `xla_go.compat.install()`: the backend "xla" of torch.distributed.

Importing xla_go registers it.
"""

from __future__ import annotations

from xla_go.distributed.process_group import HostProcessGroup as ProcessGroupXla
from xla_go.distributed.process_group import register

register()

__all__ = ["ProcessGroupXla"]
