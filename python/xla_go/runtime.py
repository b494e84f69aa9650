"""What devices there are and what this process is among others, under torch_xla's names.

Each function that needs the device starts the runtime.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from xla_go import _adapter, _replica, _runtime, errors

if TYPE_CHECKING:
    import torch

__all__ = [
    "addressable_device_count",
    "addressable_runtime_device_count",
    "device_type",
    "get_buffer_donation",
    "get_matmul_precision",
    "global_device_count",
    "global_ordinal",
    "global_runtime_device_attributes",
    "global_runtime_device_count",
    "host_index",
    "initialize_cache",
    "is_bf16_supported",
    "is_spmd",
    "local_device_count",
    "local_ordinal",
    "local_process_count",
    "memory_info",
    "platform_version",
    "process_count",
    "process_index",
    "reset_peak_memory",
    "runtime_device_attributes",
    "set_buffer_donation",
    "set_device_type",
    "set_matmul_precision",
    "use_spmd",
    "wait_device_ops",
    "world_size",
]


def _call(function: str, *arguments: Any) -> Any:
    _runtime.initialize()
    return _runtime.call(function, *arguments)


def _local_devices() -> list[str]:
    return _runtime.lines(_call("LocalDevices"))


def _device_name(device: Any) -> str:
    """The client's name of a device that is given as None, an index, "xla:1", "CPU:1" or a torch.device."""
    local = _local_devices()
    if device is None:
        return local[0]
    text = str(device)
    index = text.removeprefix("xla").removeprefix(":") or "0"
    if index.isdigit():
        if int(index) >= len(local):
            raise ValueError(f"expected a device number below {len(local)}, the count of local devices, got {text!r}")
        return local[int(index)]
    if text not in local:
        raise ValueError(f"expected one of the local devices {', '.join(local)}, got {text!r}")
    return text


def device_type() -> str:
    """The platform's name in upper case: "CPU", "CUDA", "TPU", ..."""
    return _call("DeviceType")


def set_device_type(pjrt_device: str) -> None:
    """Chooses the platform, as PJRT_DEVICE does. Raises RuntimeError once the runtime has started."""
    if _runtime.started():
        raise RuntimeError(f"set_device_type(): expected to be called before the first device use, got {pjrt_device!r} after it")
    os.environ["PJRT_DEVICE"] = pjrt_device


def initialize_cache(path: str, readonly: bool = False) -> None:
    """Keeps compiled programs in a directory, for processes to come; `readonly` only uses those that are there.

    Without it they are kept in the user's cache directory (see docs/environment.md). Raises RuntimeError once the
    runtime has started.
    """
    if _runtime.started():
        raise RuntimeError(f"initialize_cache(): expected to be called before the first device use, got {path!r} after it")
    os.environ.update(XLA_PERSISTENT_CACHE_PATH=os.fspath(path), XLA_PERSISTENT_CACHE_READ_ONLY=str(int(readonly)), XLA_GO_PERSISTENT_CACHE="1")


def platform_version() -> str:
    """The plugin's own version text."""
    return _call("PlatformVersion")


def global_runtime_device_count() -> int:
    """Number of devices of all processes."""
    return _call("NumDevices")


def addressable_runtime_device_count() -> int:
    """Number of devices of this process."""
    return len(_local_devices())


def global_device_count() -> int:
    """Number of xla devices of all processes: 1 where one stands for all (see `use_spmd`)."""
    return 1 if is_spmd() else global_runtime_device_count()


def addressable_device_count() -> int:
    """Number of xla devices of this process: 1 where one stands for all (see `use_spmd`)."""
    return 1 if is_spmd() else addressable_runtime_device_count()


def local_device_count() -> int:
    """Number of xla devices of this host's processes; here one process drives all devices of a host."""
    return addressable_device_count()


def local_process_count() -> int:
    """Number of processes on this host."""
    return 1


def process_index() -> int:
    """This process's number among those of the job."""
    return _call("ProcessIndex")


def process_count() -> int:
    """Number of processes of the job."""
    return _call("NumProcesses")


def host_index() -> int:
    """This host's number; one process a host, so it is the process's."""
    return process_index()


def world_size() -> int:
    """Number of replicas that run this program together: those of `xla_go.distributed.launch` on its threads, else 1."""
    replica = _replica.current()
    return 1 if replica is None else replica.count


def global_ordinal() -> int:
    """This replica's number among all: 0 with a world size of 1."""
    replica = _replica.current()
    return 0 if replica is None else replica.ordinal


def local_ordinal() -> int:
    """This replica's number on its host: 0 with a world size of 1."""
    return global_ordinal()


def is_spmd() -> bool:
    """Whether programs are partitioned over all devices (see `use_spmd`)."""
    if _runtime.started() and _runtime.call("IsPartitioned"):
        return True
    return _asked_for_spmd()


def _asked_for_spmd() -> bool:
    """What XLA_USE_SPMD says."""
    return os.environ.get("XLA_USE_SPMD", "0").lower() in ("1", "true", "yes", "on")


def use_spmd(auto: bool = False) -> None:
    """Partitions programs over all devices from now on: xla:0 stands for all of them, `xla_go.spmd` says what lies where.

    What nobody annotates is on each device in full; values that are there already are copied when a program first takes
    them. There is no way back. Raises FailedPreconditionError where tensors lie on another device than xla:0, and
    UnimplementedError for `auto`, which would have the compiler choose all shardings. BLOCKING until queued steps have
    ended. XLA_USE_SPMD=1 does the same.
    """
    if auto:
        raise errors.UnimplementedError("use_spmd(auto=True): expected shardings from mark_sharding, the plugins have no automatic partitioner: call use_spmd()")
    os.environ["XLA_USE_SPMD"] = "1"
    if not _runtime.started():
        _runtime.refresh_environment()
        return
    _runtime.call("UsePartitions")
    _adapter.load().forget_device_count()


def is_bf16_supported() -> bool:
    """Whether the device has bfloat16. Every PJRT platform that is known here computes it, some in software."""
    return True


def runtime_device_attributes(device: Any = None) -> dict[str, Any]:
    """A device's attributes, as the plugin gives them, with its name."""
    name = _device_name(device)
    return {"name": name, **json.loads(_call("DeviceAttributes", name))}


def global_runtime_device_attributes() -> list[dict[str, Any]]:
    """The attributes of every device of all processes."""
    return [{"name": name, **json.loads(_call("DeviceAttributes", name))} for name in _runtime.lines(_call("AllDevices"))]


def memory_info(device: Any = None) -> dict[str, Any]:
    """A device's memory in bytes: bytes_used, bytes_limit, peak_bytes_used (0 where unknown), allocator_stats, source.

    source is "plugin" where the plugin's allocator counts. CPU plugins do not: there it is "data", and the numbers
    are what this process's values take, without what a program uses while it runs.
    """
    name = _device_name(device)
    try:
        return {**json.loads(_call("MemoryInfo", name)), "source": "plugin"}
    except errors.UnimplementedError:
        return {"bytes_limit": 0, "allocator_stats": {}, **json.loads(_call("DataMemory", name)), "source": "data"}


def reset_peak_memory(device: Any = None) -> None:
    """Makes what this process's values take now the peak that memory_info tells where its source is "data"."""
    _call("ResetPeakDataMemory", _device_name(device))


def set_buffer_donation(tensor: torch.Tensor, donate: bool = True, *, release: bool = False) -> bool:
    """Asks that the step which reads the tensor's value last reuses its memory, or asks no more.

    A step reuses what it overwrites anyway; this is for values that are dropped, such as a batch. It is a wish: a value that
    a tensor, a view or pending work can still reach after the step is kept, whatever was asked. With `release` tensors do not
    keep it: the next step that reads the value takes its memory, and reading this tensor, or a view of it, raises
    FailedPreconditionError from then on, until it is written to. It holds for the value that
    the tensor's storage has now, not for those that come later. Where the step's program is known without the
    donation, it is compiled once more. False, with nothing asked, where the value is not in device memory yet: call
    `xla_go.sync` first. Not blocking.
    """
    storage = _adapter.storage_id(tensor)
    return storage != 0 and bool(_call("SetBufferDonation", storage, donate, release))


def get_buffer_donation(tensor: torch.Tensor) -> bool:
    """Whether `set_buffer_donation` has asked for the tensor's value. Not blocking."""
    storage = _adapter.storage_id(tensor)
    return storage != 0 and bool(_call("BufferDonation", storage))


def set_matmul_precision(precision: str) -> None:
    """Chooses how exact products of float32 are in matrix products and convolutions that are traced into programs from now on.

    "default" is the device's fastest (a TPU's multiplies bfloat16), "high" takes three and "highest" six passes there;
    CPUs always compute with whole float32. Compiled functions keep what was in force when they were compiled. Raises
    InvalidArgumentError for another word. Starts the runtime.
    """
    _adapter.load().device_count()
    _call("SetPrecision", precision)


def get_matmul_precision() -> str:
    """What `set_matmul_precision` has chosen, "default" where it was not called. Not blocking."""
    return _runtime.call("Precision") if _runtime.started() else "default"


def wait_device_ops(devices: list[Any] | None = None) -> None:
    """Waits for all queued work of the given devices, of all local ones by default. BLOCKING; Ctrl-C breaks it."""
    names = [_device_name(device) for device in devices or []]
    _runtime.initialize()
    with _runtime.measured("DeviceWaitTime"):
        _runtime.wait("QueueWaitBegin")  # steps that have not come to the client yet
        _runtime.wait("WaitDeviceOpsBegin", "\n".join(names))
