"""Measures steps of SPMD programs against the number of devices and of divided tensors, and draws them.

Each number of virtual CPU devices is a process of its own; rounds are interleaved. "update" adds 1 to each of a number of
small divided tensors: what it takes is the host's part (tracing, key, one execution over all devices). "MLP" is a training
step with FSDP. Times are of the clock and of all of the process's threads, per step; nothing is read in between.

    python benchmarks/devices.py [--rounds 7] [--json devices.json] [--plot devices.png]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

from process import WorkerProcess

DEVICES = (1, 2, 4, 8)
TENSORS = (1, 8, 64)
STEPS = 100
LIMIT_MICROSECONDS = 50.0  # of the host, per device, in a step of one divided tensor


def update(count: int) -> Callable[[], None]:
    import torch

    import xla_go
    from xla_go import runtime, spmd

    devices = runtime.global_runtime_device_count()
    mesh = spmd.Mesh(range(devices), (devices,), ("data",))
    tensors = [torch.zeros(4 * devices).to("xla") for _ in range(count)]
    for tensor in tensors:
        spmd.mark_sharding(tensor, mesh, ("data",))

    def step() -> None:
        for tensor in tensors:
            tensor.add_(1)
        xla_go.sync()

    return step


def mlp() -> Callable[[], None]:
    import torch

    import xla_go
    from xla_go import runtime, spmd
    from xla_go.spmd.fsdp import SpmdFullyShardedDataParallel

    devices = runtime.global_runtime_device_count()
    mesh = spmd.Mesh(range(devices), (devices, 1), ("fsdp", "model"))
    spmd.set_global_mesh(mesh)
    model = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.GELU(), torch.nn.Linear(256, 256), torch.nn.GELU(), torch.nn.Linear(256, 16)).to("xla")
    model = SpmdFullyShardedDataParallel(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    x, target = torch.randn(64, 256).to("xla"), torch.randint(16, (64,)).to("xla")
    spmd.mark_sharding(x, mesh, ("fsdp", None))

    def step() -> None:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), target).backward()
        optimizer.step()
        xla_go.sync()

    return step


def serve() -> None:
    """Answers each line of input, "mlp" or a number of tensors, with microseconds per step, by the clock and the processor."""
    from xla_go import runtime

    runtime.use_spmd()
    steps: dict[str, Callable[[], None]] = {}
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        name = str(json.loads(line))
        if name not in steps:
            steps[name] = mlp() if name == "mlp" else update(int(name))
            for _ in range(10):
                steps[name]()
            runtime.wait_device_ops()
        started, used = time.perf_counter(), time.process_time()
        for _ in range(STEPS):
            steps[name]()
        runtime.wait_device_ops()
        print(json.dumps([(time.perf_counter() - started) / STEPS * 1e6, (time.process_time() - used) / STEPS * 1e6]), flush=True)


def draw(medians: dict[str, dict[int, tuple[float, float]]], path: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot, ticker

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
    for name, of_devices in medians.items():
        label = "MLP with FSDP" if name == "mlp" else f"{name} divided tensor{'s' if name != '1' else ''}"
        left.plot(list(of_devices), [wall for wall, _ in of_devices.values()], marker="o", label=label)
        if name != "mlp":
            right.plot(list(of_devices), [wall / devices for devices, (wall, _) in of_devices.items()], marker="o", label=label)
    right.axhline(LIMIT_MICROSECONDS, color="grey", linestyle="--", label="limit for one tensor")
    for axes, title in ((left, "microseconds per step"), (right, "microseconds per step and device")):
        axes.set(title=title, xlabel="virtual CPU devices", xscale="log", yscale="log", xticks=DEVICES, xticklabels=DEVICES)
        axes.xaxis.set_minor_locator(ticker.NullLocator())
        axes.grid(alpha=0.3)
        axes.legend()
    figure.savefig(path, dpi=120)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", default="devices.json")
    parser.add_argument("--plot", default="devices.png")
    arguments = parser.parse_args()
    if arguments.serve:
        serve()
        return 0

    names = [*map(str, TENSORS), "mlp"]
    command = [sys.executable, str(Path(__file__).resolve()), "--serve"]
    workers = {n: WorkerProcess(command, {**os.environ, "CPU_NUM_DEVICES": str(n), "PJRT_DEVICE": "CPU"}) for n in DEVICES}
    for worker in workers.values():
        worker.answer()
    samples: dict[str, dict[int, list[tuple[float, float]]]] = {name: {n: [] for n in DEVICES} for name in names}
    for _ in range(arguments.rounds):
        for name in names:
            for n, worker in workers.items():
                samples[name][n].append(tuple(worker.ask(name)))
    for worker in workers.values():
        worker.close()

    medians = {name: {n: (statistics.median(w for w, _ in s), statistics.median(p for _, p in s)) for n, s in of.items()} for name, of in samples.items()}
    print(f"microseconds per step, median (lowest) of {arguments.rounds} rounds of {STEPS} steps, and of the processor; per device")
    for name, of_devices in medians.items():
        for n, (wall, processor) in of_devices.items():
            least = min(w for w, _ in samples[name][n])
            print(f"  {name:>4} on {n} devices: {wall:9.1f} ({least:.1f})   {processor:9.1f}   per device {wall / n:8.1f}")
    Path(arguments.json).write_text(json.dumps(samples))
    draw(medians, arguments.plot)
    # What one more device adds to a step, its own run included.
    wall = {n: times[0] for n, times in medians["1"].items()}
    added = (wall[DEVICES[-1]] - wall[DEVICES[0]]) / (DEVICES[-1] - DEVICES[0])
    ok = added <= LIMIT_MICROSECONDS
    print(f"a device adds {added:.1f} us to a step of one tensor, at most {LIMIT_MICROSECONDS} us: {'ok' if ok else 'FAIL'}")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
