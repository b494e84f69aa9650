"""What `torch_xla.runtime` gives after `xla_go.compat.install()`: xla_go.runtime and torch_xla's own spellings."""

from __future__ import annotations

import os
from typing import NoReturn

from xla_go import runtime
from xla_go.compat import xlac
from xla_go.compat.internal import tpu
from xla_go.metrics import metric_data
from xla_go.runtime import *  # noqa: F403


def device_type() -> str | None:  # type: ignore[no-redef]
    """PJRT_DEVICE, without what follows "_" in it; else the platform that is found, None where PJRT_SELECT_DEFAULT_DEVICE=0."""
    wanted = os.environ.get("PJRT_DEVICE")
    if wanted:
        return wanted.partition("_")[0]
    return None if os.environ.get("PJRT_SELECT_DEFAULT_DEVICE") == "0" else runtime.device_type()


def set_device_type(pjrt_device: str) -> None:  # type: ignore[no-redef]
    """xla_go.runtime.set_device_type, which may be called again with the platform that is in use."""
    if xlac._xla_runtime_is_initialized():
        if device_type() != pjrt_device:
            raise RuntimeError(f"set_device_type(): expected to be called before the first device use, got {pjrt_device!r} after it")
        return
    os.environ["PJRT_DEVICE"] = pjrt_device


def get_master_ip() -> str:
    """Address of the host of process 0: MASTER_ADDR, else what a Cloud TPU machine says, else this host."""
    if "MASTER_ADDR" in os.environ:
        return os.environ["MASTER_ADDR"]
    return tpu.get_worker_ips()[0] if os.environ.get("PJRT_DEVICE") == "TPU" else "localhost"


def is_spmd() -> bool:  # type: ignore[no-redef]
    """Whether XLA_USE_SPMD asks for partitioned programs, as `use_spmd` has it do; programs take the variable away again.

    What was partitioned stays so: xla_go.runtime.is_spmd() tells.
    """
    return runtime._asked_for_spmd()


def using_pjrt() -> bool:
    """True: there is no other runtime."""
    return True


def pjrt_device() -> str:
    """What the environment's PJRT_DEVICE chooses, the platform in use where it is not set."""
    return os.environ.get("PJRT_DEVICE") or device_type()


def get_num_cached_compilation_graph() -> int:
    """Number of programs compiled since the process started or the metrics were cleared."""
    data = metric_data("CompileTime")
    return data[0] if data else 0


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(f"xla_go.compat: torch_xla.runtime.{name} is not provided")
