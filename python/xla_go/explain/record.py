"""The process that `python -m xla_go explain` starts: `python -m xla_go.explain.record RECORD compat|plain SCRIPT [ARGUMENT ...]`.

Runs the script as `python SCRIPT` would, and writes at the end of the process what the runtime knows of it, as JSON.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
import time
from typing import Any

import xla_go
from xla_go import _runtime, _script, debug, errors, metrics, runtime

_OWNER = "explain"


class _Record:
    """What is known of the process."""

    def __init__(self, path: str, arguments: list[str]) -> None:
        self._path, self._arguments = path, arguments
        self._process, self._directory = os.getpid(), os.getcwd()
        self._begun = time.time()
        self._device_begun: float | None = None
        self._device_took = 0.0
        self._modules: set[str] = set()  # at the device's start

    def begin(self) -> None:
        self._begun = time.time()
        _runtime.after_start(self._device_started)
        atexit.register(self._write)  # before those of the script, so it comes after them

    def _device_started(self, took: float) -> None:
        self._device_begun, self._device_took = time.time() - took, took
        self._modules = set(sys.modules)
        _runtime.call("StartTrace", _OWNER)
        _runtime.perform("RecordPlaces", True)

    def _write(self) -> None:
        if os.getpid() != self._process:
            return  # a forked child's end
        told: dict[str, Any] = {
            "arguments": self._arguments, "directory": self._directory, "begun": self._begun, "ended": time.time(),
            "device_begun": self._device_begun, "device_seconds": self._device_took,
            "imported": sorted(set(sys.modules) - self._modules),
        }  # fmt: skip
        if self._device_begun is not None:
            told.update(self._of_the_device())
        with open(self._path + ".part", "w", encoding="utf-8") as file:
            json.dump(told, file)
        os.replace(self._path + ".part", self._path)

    def _of_the_device(self) -> dict[str, Any]:
        compiles = debug.compiles()  # waits for what is queued
        traced = json.loads(_runtime.call("StopTrace", _OWNER))
        spans: dict[str, list[tuple[float, float]]] = {}
        for name, start, took in traced["spans"]:
            spans.setdefault(name, []).append((start / 1e6, took / 1e6))
        observed = {name: data[:2] for name in metrics.metric_names() if (data := metrics.metric_data(name)) is not None}
        devices = _runtime.lines(_runtime.call("LocalDevices"))
        return {
            "ended": time.time(), "platform": runtime.device_type(), "version": " ".join(runtime.platform_version().split()),
            "devices": len(devices), "plugin": plugin.path if (plugin := _runtime.plugin()) else "",
            "compiles": compiles, "places": json.loads(_runtime.call("Places")), "spans": spans, "lost_spans": traced["lost"],
            "metrics": observed, "counters": {name: metrics.counter_value(name) for name in metrics.counter_names()},
            "memory": [_memory(device) for device in devices],
        }  # fmt: skip


def _memory(device: str) -> dict[str, Any]:
    try:
        info = runtime.memory_info(device)
    except errors.XlaError as error:
        return {"device": device, "error": str(error)}
    return {"device": device, "peak": info["peak_bytes_used"], "limit": info["bytes_limit"], "source": info["source"]}


def main() -> None:
    path, names, script = sys.argv[1:4]
    sys.argv[:] = sys.argv[3:]
    if names == "compat":
        xla_go.compat.install()
    _Record(path, list(sys.argv)).begin()
    _script.run(script)


if __name__ == "__main__":
    main()
