"""`python -m xla_go devices`: the devices of the plugin in use."""

from __future__ import annotations

import json

from xla_go import _plugins, _runtime, errors


def main() -> int:
    """Prints a line for each device; gives 0, or 1 where there is no plugin or it does not start. Starts the runtime."""
    try:
        _runtime.initialize()
        version = " ".join(str(_runtime.call("PlatformVersion")).split())
        local = _runtime.lines(_runtime.call("LocalDevices"))
        everywhere = _runtime.lines(_runtime.call("AllDevices"))
    except (ValueError, errors.XlaError, _plugins.PluginNotFoundError) as error:
        print(f"{type(error).__name__}: {error}")
        return 1
    for device in everywhere:
        attributes = json.loads(_runtime.call("DeviceAttributes", device))
        shown = "".join(f", {name}={value}" for name, value in sorted(attributes.items()))
        where = f"xla:{local.index(device)}" if device in local else "of another process"
        memory = f", {_memory(device)}" if device in local else ""
        print(f"{device:<10} {where:<8} kind {_runtime.call('DeviceKind', device)}{memory}{shown}")
    print(f"{len(local)} of {len(everywhere)} devices are this process's; {_runtime.call('DeviceType')}, {version}")
    return 0


def _memory(device: str) -> str:
    try:
        info = json.loads(_runtime.call("MemoryInfo", device))
    except errors.UnimplementedError:
        return "memory not told"
    limit = f" of {info['bytes_limit'] / 2**30:.1f} GiB" if info["bytes_limit"] else " GiB"
    return f"{info['bytes_used'] / 2**30:.1f}{limit} in use"
