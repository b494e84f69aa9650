"""Runs workloads for one implementation: reads a workload's name per line, answers with JSON.

Usage: worker.py cpu|xla_go|torch_xla. A worker stays alive over all rounds, so that rounds of
different implementations can be interleaved without starting processes in between. "cpu" of the
xla_go worker's own process is asked for as "cpu:NAME".
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn


def nothing() -> None:
    pass


class Device:
    """A device and how to end a step and wait for it."""

    def __init__(self, name: str, sync: Callable[[], None], wait: Callable[[], None]) -> None:
        self.name, self.sync, self.wait = name, sync, wait


def devices(implementation: str) -> dict[str, Device]:
    """The implementation's device, and torch's CPU in the same process."""
    found = {"cpu": Device("cpu", nothing, nothing)}
    if implementation == "xla_go":
        import xla_go

        found["xla_go"] = Device("xla", xla_go.sync, lambda: xla_go.sync(wait=True))
    elif implementation == "torch_xla":
        import torch_xla
        import torch_xla.core.xla_model as xm

        found["torch_xla"] = Device("xla", torch_xla.sync, xm.wait_device_ops)
    return found


def trace_add(device: Device, grad: bool, size: int) -> float:
    """Microseconds per torch.add of two size x size tensors; graphs are thrown away, nothing runs."""
    a, b = (torch.ones(size, size).to(device.name).requires_grad_(grad) for _ in range(2))
    device.wait()
    best = float("inf")
    with torch.set_grad_enabled(grad):
        for _ in range(20):
            started = time.perf_counter()
            for _ in range(1000):
                torch.add(a, b)
            best = min(best, time.perf_counter() - started)
            device.sync()
    device.wait()
    return best / 1000 * 1e6


def mlp_step(device: Device) -> float:
    """Microseconds per SGD step of a small MLP, no read inside the loop."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)).to(device.name)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    x, target = torch.randn(32, 20).to(device.name), torch.randint(10, (32,)).to(device.name)

    def step() -> None:
        optimizer.zero_grad()
        F.cross_entropy(model(x), target).backward()
        optimizer.step()
        device.sync()

    for _ in range(20):
        step()
    device.wait()
    times = []
    for _ in range(5):
        started = time.perf_counter()
        for _ in range(100):
            step()
        device.wait()
        times.append((time.perf_counter() - started) / 100)
    return min(times) * 1e6


def read_item(device: Device) -> float:
    """Microseconds per .item() of a value that is ready."""
    x = torch.ones(()).to(device.name)
    device.wait()
    x.item()
    best = float("inf")
    for _ in range(10):
        started = time.perf_counter()
        for _ in range(1000):
            x.item()
        best = min(best, time.perf_counter() - started)
    return best / 1000 * 1e6


def small_round_trip(device: Device) -> float:
    """Microseconds per (x + 1).cpu() of a small tensor that is on the device."""
    x = torch.ones(4).to(device.name)
    device.wait()
    (x + 1).cpu()
    best = float("inf")
    for _ in range(10):
        started = time.perf_counter()
        for _ in range(200):
            (x + 1).cpu()
        best = min(best, time.perf_counter() - started)
    return best / 200 * 1e6


WORKLOADS: dict[str, Callable[[Device], float]] = {
    "add 64x64 no grad": lambda d: trace_add(d, False, 64),
    "add 64x64 grad": lambda d: trace_add(d, True, 64),
    "add 1x1 no grad": lambda d: trace_add(d, False, 1),
    "add 1x1 grad": lambda d: trace_add(d, True, 1),
    "MLP SGD step": mlp_step,
    "item() of a ready value": read_item,
    "(x + 1).cpu() of 4 elements": small_round_trip,
}


def main() -> None:
    known = devices(sys.argv[1])
    print(json.dumps({"torch": torch.__version__, "devices": sorted(known)}), flush=True)
    for line in sys.stdin:
        device, workload = json.loads(line)
        print(json.dumps(WORKLOADS[workload](known[device])), flush=True)


if __name__ == "__main__":
    main()
