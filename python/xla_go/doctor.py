"""`python -m xla_go doctor`: what is installed, what was found, and whether it works."""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import logging
import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Callable

from xla_go import _plugins, _runtime, errors


def _line(name: str, text: str) -> None:
    print(f"{name:<12} {text}")


def _attempt(name: str, check: Callable[[], str]) -> bool:
    """Prints the result of one check; an exception is its result, and a failure."""
    try:
        _line(name, check())
    except Exception as error:
        head, *rest = str(error).splitlines() or [""]
        _line(name, f"FAILED: {type(error).__name__}: {head}")
        for line in rest:
            print(f"{'':<12} {line}")
        return False
    return True


def _versions() -> str:
    return f"xla_go {importlib.metadata.version('xla-go')}, Python {platform.python_version()}, {platform.system()} {platform.machine()}"


def _torch() -> str:
    torch = importlib.import_module("torch")
    return str(torch.__version__)


def _adapter() -> str:
    from xla_go import _adapter, _device_module, _torch_patches

    module = _adapter.load()
    _torch_patches.apply()
    _device_module.register()
    return f"built for torch {module.built_for_torch}: {module.__file__}"


def _plugin(found: _plugins.Search) -> str:
    for note in found.notes:
        _line("note", note)
    plugin = _plugins.choose(os.environ, found)
    asked = os.environ.get("PJRT_DEVICE")
    if plugin.source in _plugins.EXPLICIT_PATHS:
        reason = "the plugin that was named"
    else:
        reason = f"PJRT_DEVICE={asked}" if asked else "PJRT_DEVICE is not set: the best device present"
    _load_apart(str(plugin.path))
    options = "".join(f", {name}={value}" for name, value in plugin.options.items())
    return f"{plugin.device_type or 'device type told by the plugin'} ({reason}): {plugin.path}, from {plugin.source}{options}"


def _load_apart(path: str) -> None:
    """Loads the plugin's library in a process of its own: what ends the process while it is loaded would end the doctor."""
    # Whether it loads is told by the runtime, which loads other libraries before some plugins.
    done = subprocess.run([sys.executable, "-c", _LOAD, path], capture_output=True, text=True, check=False)
    if done.returncode < 0:
        told = f"; it wrote: {done.stderr.strip().splitlines()[-1]}" if done.stderr.strip() else ""
        raise RuntimeError(f"loading {path} ends the process by {signal.Signals(-done.returncode).name}: the fault is in the plugin{told}")
    if done.returncode > 0:
        raise RuntimeError(f"loading {path} ends the process with status {done.returncode}: the fault is in the plugin")


_LOAD = """
import ctypes, os, sys
try:
    ctypes.CDLL(sys.argv[1], os.RTLD_NOW | os.RTLD_LOCAL)
except OSError:
    pass
os._exit(0)
"""


def _preload() -> None:
    """What was loaded before a CUDA plugin, once it has been."""
    preloaded = _runtime.preloaded()
    if preloaded is None:
        return
    if not preloaded.loaded and not preloaded.failed:
        _line("preload", "no NVIDIA wheels are installed: the plugin looks for CUDA in the system")
    else:
        directories = ", ".join(dict.fromkeys(str(path.parent) for path in preloaded.loaded))
        _line("preload", f"CUDA {preloaded.generation}: {', '.join(path.name for path in preloaded.loaded)}, from {directories}")
    for path, reason in preloaded.failed.items():
        _line("preload", f"not loaded: {path}: {reason}")
    if preloaded.data_dir is not None:
        _line("preload", f"compiler's files in {preloaded.data_dir}")


def _interface() -> str:
    told = json.loads(str(_runtime.call("PluginDescription")))
    attributes = "".join(f", {name}={'.'.join(map(str, value)) if isinstance(value, list) else value}" for name, value in sorted((told["attributes"] or {}).items()))
    return f"PJRT API {told['api_version']}{attributes}; extensions: {', '.join(told['extensions']) or 'none'}"


def _memory() -> str:
    shown = []
    for device in _runtime.lines(_runtime.call("LocalDevices")):
        try:
            info = json.loads(str(_runtime.call("MemoryInfo", device)))
        except errors.UnimplementedError as error:
            return f"the plugin tells nothing of its memory ({str(error).splitlines()[0]})"
        limit = f" of {info['bytes_limit'] / 2**30:.1f} GiB" if info["bytes_limit"] else ""
        shown.append(f"{device} {info['bytes_used'] / 2**30:.1f}{limit or ' GiB'} in use")
    return ", ".join(shown)


def _devices() -> str:
    from xla_go import runtime

    count = runtime.addressable_runtime_device_count()
    devices = _runtime.lines(_runtime.call("LocalDevices"))
    kinds = sorted({str(_runtime.call("DeviceKind", device)) for device in devices})
    version = " ".join(runtime.platform_version().split())
    return f"{count} of {runtime.global_runtime_device_count()} ({', '.join(devices)}), kind {', '.join(kinds)}, {version}"


def _self_test() -> str:
    import torch

    from xla_go import metrics

    start = time.perf_counter()
    a = torch.arange(12, dtype=torch.float32).reshape(3, 4)
    got = (a.to("xla") @ a.to("xla").t() + 1).cpu()
    if not torch.equal(got, a @ a.t() + 1):
        raise ValueError(f"expected {(a @ a.t() + 1).tolist()}, got {got.tolist()}")
    fallbacks = metrics.executed_fallback_ops()
    if fallbacks:
        raise ValueError(f"expected every op to run on the device, got {', '.join(fallbacks)} on the CPU")
    return f"passed: a matrix product on the device in {time.perf_counter() - start:.2f} s, its compile included"


def main() -> int:
    """Prints the report; gives 0 where everything works, else 1."""
    logging.basicConfig(level=logging.WARNING, stream=sys.stdout, format="log          %(message)s")
    found = _plugins.search(os.environ)
    ok = _attempt("versions", _versions)
    ok = _attempt("torch", _torch) and ok
    with_adapter = _attempt("adapter", _adapter)
    for line in found.tried:
        _line("tried", line)
    with_plugin = _attempt("plugin", lambda: _plugin(found))
    if with_plugin:
        with_plugin = _attempt("devices", _devices)
        _preload()
    if with_plugin:
        ok = _attempt("interface", _interface) and ok
        ok = _attempt("memory", _memory) and ok
    if with_adapter and with_plugin:
        ok = _attempt("self test", _self_test) and ok
    else:
        _line("self test", "not run")
        ok = False
    return 0 if ok else 1
