"""The module torch.xla: what generic torch code asks of a device type.

Checkpointing, fork_rng, autocast and FSDP look these names up by the device's name. Functions
that need the devices start the runtime; the others do not.
"""

from __future__ import annotations

import ctypes
import os
import sys
from types import TracebackType
from typing import Any

import torch

from xla_go import _adapter, _replica, _runtime
from xla_go._streams import Event, Stream, current_stream, default_stream, set_stream, stream

__all__ = [
    "Event",
    "Stream",
    "can_device_access_peer",
    "current_device",
    "current_stream",
    "default_stream",
    "device",
    "device_count",
    "device_of",
    "empty_cache",
    "get_amp_supported_dtype",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_rng_state",
    "get_rng_state_all",
    "init",
    "initial_seed",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "memory_summary",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "stream",
    "synchronize",
]

Device = Any  # a torch.device, "xla:1", an index, or None for the current device

_STATE_BYTES = 16
_DTYPES = (
    torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.complex128, torch.complex64,
    torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool,
)  # fmt: skip


def register() -> None:
    """Makes this module torch.xla."""
    module = sys.modules[__name__]
    if getattr(torch, "xla", None) is not module:
        torch._register_device_module("xla", module)


def _index(device: Device) -> int:
    """The index that `device` names; the current device's for None, "xla" and negative numbers."""
    if isinstance(device, int):
        index: int | None = device if device >= 0 else None
    elif device is None:
        index = None
    else:
        parsed = torch.device(device)
        if parsed.type != "xla":
            raise ValueError(f"expected an xla device, got {parsed}")
        index = parsed.index
    return current_device() if index is None else index


# ---- devices ----


def is_available() -> bool:
    """Whether the device can be used: a plugin is loaded, or one is found. Does not start the runtime."""
    from xla_go import _plugins, errors

    if _runtime.started():
        return True
    try:
        _plugins.choose(os.environ, _plugins.search(os.environ))
    except errors.XlaError:
        return False
    return True


def is_initialized() -> bool:
    """Whether the runtime has been started in this process."""
    return _adapter.loaded().is_loaded()


def init() -> None:
    """Starts the runtime."""
    device_count()


def _lazy_init() -> None:
    init()


def _is_in_bad_fork() -> bool:
    return _adapter.loaded().in_forked_child()


def device_count() -> int:
    """Number of xla devices of this process. Starts the runtime."""
    return _adapter.loaded().device_count()


def current_device() -> int:
    """Index of this thread's current device."""
    return _adapter.loaded().current_device()


def set_device(device: Device) -> None:
    """Makes `device` this thread's current device. Raises where there is no such device."""
    _adapter.loaded().set_current_device(_index(device))


class device:
    """Context manager that makes a device the thread's current one; a negative index changes nothing."""

    def __init__(self, device: Device) -> None:
        self._index = _index(device)
        self._previous = -1

    def __enter__(self) -> device:
        self._previous = current_device()
        _adapter.loaded().set_current_device(self._index)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        _adapter.loaded().set_current_device(self._previous)


class device_of(device):
    """Context manager that makes a tensor's device the thread's current one; a tensor elsewhere changes nothing."""

    def __init__(self, obj: Any) -> None:
        super().__init__(obj.device if obj.device.type == "xla" else -1)


def can_device_access_peer(device: Device, peer_device: Device) -> bool:
    """Whether values are copied between two devices of this process without the user's doing: they are."""
    return _index(device) < device_count() and _index(peer_device) < device_count()


def get_device_capability(device: Device = None) -> dict[str, Any]:
    """What the device computes with: supported_dtypes, a set."""
    return {"supported_dtypes": set(_DTYPES)}


def synchronize(device: Device = None) -> None:
    """Queues what is pending on `device` and waits until it has run. BLOCKING; Ctrl-C breaks the wait.

    Raises the error that the work ended with.
    """
    if not is_initialized():
        return
    adapter = _adapter.loaded()
    token = adapter.sync(_index(device), "synchronize()")
    if token != 0:
        try:
            while not adapter.wait(token, _runtime.WAIT_SLICE_MS):
                pass
        finally:
            adapter.cancel(token)
    from xla_go import runtime

    runtime.wait_device_ops([f"xla:{_index(device)}"])


def get_device_properties(device: Device = None) -> dict[str, Any]:
    """The attributes that the plugin gives for a device, with its name."""
    from xla_go import runtime

    return runtime.runtime_device_attributes(f"xla:{_index(device)}")


def get_device_name(device: Device = None) -> str:
    """The runtime's name of a device, such as CPU:0."""
    return str(get_device_properties(device)["name"])


# ---- random numbers ----


def manual_seed(seed: int) -> None:
    """Seeds the generators of all xla devices: one program draws for all of them. A replica seeds its own device."""
    replica = _replica.current()
    if replica is None:
        _adapter.loaded().manual_seed(int(seed) % 2**64)
    else:
        _adapter.loaded().set_rng_state(replica.ordinal, int(seed) % 2**64, 0)


def manual_seed_all(seed: int) -> None:
    """Seeds the generators of all xla devices."""
    manual_seed(seed)


def seed() -> int:
    """Seeds all xla devices with a number from the system's entropy, and gives it."""
    import secrets

    value = secrets.randbits(63)
    manual_seed(value)
    return value


def seed_all() -> int:
    """Seeds all xla devices with a number from the system's entropy, and gives it."""
    return seed()


def initial_seed() -> int:
    """The seed of the current device's generator."""
    return _adapter.loaded().get_rng_state(current_device())[0]


def get_rng_state(device: Device = None) -> torch.Tensor:
    """State of a device's generator: a CPU tensor of 16 bytes, seed then offset."""
    seed, offset = _adapter.loaded().get_rng_state(_index(device))
    state = seed.to_bytes(8, sys.byteorder) + offset.to_bytes(8, sys.byteorder)
    return torch.tensor(list(state), dtype=torch.uint8, device="cpu")


def set_rng_state(new_state: torch.Tensor, device: Device = None) -> None:
    """Puts a device's generator into a state that get_rng_state gave."""
    if new_state.dtype != torch.uint8 or new_state.numel() != _STATE_BYTES:
        raise ValueError(
            f"set_rng_state(): expected {_STATE_BYTES} elements of uint8, got {new_state.numel()} of {new_state.dtype}"
        )
    state = bytes(new_state.cpu().tolist())
    seed = int.from_bytes(state[:8], sys.byteorder)
    offset = int.from_bytes(state[8:], sys.byteorder)
    _adapter.loaded().set_rng_state(_index(device), seed, offset)


def get_rng_state_all() -> list[torch.Tensor]:
    """The states of the generators of all devices. Starts the runtime."""
    return [get_rng_state(index) for index in range(device_count())]


def set_rng_state_all(new_states: list[torch.Tensor]) -> None:
    """Sets the states of the generators of all devices."""
    for index, state in enumerate(new_states):
        set_rng_state(state, index)


# ---- autocast ----


def get_amp_supported_dtype() -> list[torch.dtype]:
    """The dtypes that torch.autocast("xla") can lower to."""
    return [torch.bfloat16, torch.float16]


def is_bf16_supported() -> bool:
    """Whether the device computes in bfloat16."""
    from xla_go import runtime

    return runtime.is_bf16_supported()


# ---- memory ----


def _memory(device: Device) -> dict[str, Any]:
    from xla_go import errors, runtime

    try:
        return runtime.memory_info(f"xla:{_index(device)}")
    except errors.UnimplementedError as error:
        raise NotImplementedError(f"the plugin counts no memory: {error}") from error


def memory_allocated(device: Device = None) -> int:
    """Bytes in use on the device. NotImplementedError where the plugin does not count them."""
    return int(_memory(device)["bytes_used"])


def max_memory_allocated(device: Device = None) -> int:
    """The most bytes that were in use on the device at a time."""
    return int(_memory(device)["peak_bytes_used"])


def mem_get_info(device: Device = None) -> tuple[int, int]:
    """Free and total bytes of the device."""
    info = _memory(device)
    return int(info["bytes_limit"]) - int(info["bytes_used"]), int(info["bytes_limit"])


def memory_reserved(device: Device = None) -> int:
    """Bytes in use: the runtime keeps no memory beyond them for torch."""
    return memory_allocated(device)


def max_memory_reserved(device: Device = None) -> int:
    """The most bytes that were in use at a time."""
    return max_memory_allocated(device)


def reset_peak_memory_stats(device: Device = None) -> None:
    """Makes what is in use now the peak. NotImplementedError where the plugin counts, which keeps its own peak."""
    from xla_go import runtime

    if _memory(device)["source"] != "data":
        raise NotImplementedError("reset_peak_memory_stats(): expected a peak that this process counts, got the plugin's, which cannot be reset; compare two peaks instead")
    runtime.reset_peak_memory(_index(device))


def memory_summary(device: Device = None, abbreviated: bool = False) -> str:
    """What is known of the device's memory, as text."""
    return "\n".join(f"{name}: {value}" for name, value in _memory(device).items())


def memory_stats(device: Device = None) -> dict[str, Any]:
    """What the plugin's allocator counts."""
    return _memory(device)


def empty_cache() -> None:
    """Hands dropped storages to the runtime now; their device memory is freed at once.

    Where the device's memory is the host's, the C library gives what is free of its own back to the system: pieces between
    blocks in use, which can add up where large tensors come and go.
    """
    from xla_go import runtime

    if not is_initialized():
        return
    _adapter.loaded().drain()
    if runtime.device_type() == "CPU":
        ctypes.CDLL(None).malloc_trim(0)


def __getattr__(name: str) -> Any:
    # torch.utils.checkpoint reads this attribute to decide whether there is a state to keep.
    if name == "_initialized":
        return is_initialized()
    raise AttributeError(f"module 'torch.xla' has no attribute {name!r}")
