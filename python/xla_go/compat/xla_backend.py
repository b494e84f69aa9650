"""What `torch_xla.distributed.xla_backend` gives after `xla_go.compat.install()`: the backend "xla" of torch.distributed.

Importing xla_go registers it; importing this registers `init_method="xla://"`, too.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Any

import torch.distributed as dist

from xla_go import runtime
from xla_go.compat.runtime import get_master_ip, is_spmd
from xla_go.distributed.process_group import HostProcessGroup as ProcessGroupXla
from xla_go.distributed.process_group import register

__all__ = ["ProcessGroupXla"]

_TIMEOUT = timedelta(minutes=30)


def _rendezvous(url: str, timeout: timedelta = _TIMEOUT, **kwargs: Any) -> Iterator[tuple[dist.Store, int, int]]:
    """The processes of the job meet at the host of process 0, at MASTER_PORT (12355). Starts the runtime.

    AssertionError where programs are partitioned: one process drives all devices then, and there is nobody to meet.
    """
    if is_spmd():
        raise AssertionError("init_process_group(): expected programs that are not partitioned, got XLA_USE_SPMD: use torch_xla.distributed.spmd without a process group")
    rank, size = runtime.process_index(), runtime.process_count()
    if size == 1:
        yield dist.HashStore(), rank, size
        return
    port = int(os.environ.get("MASTER_PORT", "12355"))
    yield dist.TCPStore(get_master_ip(), port, size, rank == 0, timeout=timeout), rank, size


register()
with suppress(RuntimeError):  # there already, where this module is loaded anew
    dist.register_rendezvous_handler("xla", _rendezvous)
