"""Devices: their names, and what is known about each."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from xla_go import _runtime

__all__ = ["Device", "all_devices", "default_device", "devices", "platform_version", "wait_device_ops"]


class Device(str):
    """A device's name, for example "CPU:0": the platform in upper case and the global ordinal.

    It is a string, so a plain one serves wherever a device is asked for.
    """

    __slots__ = ()

    @property
    def ordinal(self) -> int:
        """The position among the devices of all processes."""
        return _runtime.call("DeviceOrdinal", self)

    @property
    def kind(self) -> str:
        """The kind of device in the vendor's words, for example "NVIDIA H200"."""
        return _runtime.call("DeviceKind", self)

    @property
    def attributes(self) -> dict[str, Any]:
        """What the plugin says about the device; names and values are the plugin's own."""
        return json.loads(_runtime.call("DeviceAttributes", self)) or {}

    def memory(self) -> dict[str, Any]:
        """Memory in bytes: bytes_used, bytes_limit, peak_bytes_used (0 where unknown) and allocator_stats.

        Raises UnimplementedError where the plugin does not count.
        """
        return json.loads(_runtime.call("MemoryInfo", self))

    def __repr__(self) -> str:
        return f"Device({str(self)!r})"


def devices() -> list[Device]:
    """This process's devices, in the order of shards everywhere. Starts the runtime."""
    _runtime.initialize()
    return [Device(name) for name in _runtime.lines(_runtime.call("LocalDevices"))]


def all_devices() -> list[Device]:
    """The devices of all processes of the job, in the order of ordinals. Starts the runtime."""
    _runtime.initialize()
    return [Device(name) for name in _runtime.lines(_runtime.call("AllDevices"))]


def default_device() -> Device:
    """The device that is used where none is named. Starts the runtime."""
    _runtime.initialize()
    return Device(_runtime.call("DefaultDevice"))


def platform() -> str:
    """The platform's name in upper case, for example "CPU". Starts the runtime."""
    _runtime.initialize()
    return _runtime.call("DeviceType")


def platform_version() -> str:
    """The plugin's own version text. Starts the runtime."""
    _runtime.initialize()
    return _runtime.call("PlatformVersion")


def wait_device_ops(devices: Iterable[str] = ()) -> None:
    """Waits for all work queued on these devices, on all local ones by default. BLOCKING."""
    _runtime.initialize()
    _runtime.wait("WaitDeviceOpsBegin", "\n".join(devices))
