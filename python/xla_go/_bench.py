"""`python -m xla_go bench`: what calls, steps, compiles and transfers cost on this machine."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable
from typing import Any


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("--rounds", type=int, default=5, help="rounds over all measurements; the median is told, with lowest and highest (default: %(default)s)")
    parser.add_argument("--json", metavar="FILE", help="also write every round")


def main(arguments: argparse.Namespace) -> int:
    """Measures and prints; gives 0. Starts the runtime. BLOCKING for some seconds a round."""
    if arguments.rounds < 1:
        print(f"bench: expected at least one round, got {arguments.rounds}")
        return 2
    os.environ["XLA_GO_PERSISTENT_CACHE"] = "0"  # compiles are measured
    os.environ.setdefault("XLA_GO_LOG", "none")
    import torch

    import xla_go
    from xla_go import runtime

    xla_go._register()
    measurements: list[tuple[str, str, Callable[[], float]]] = [
        ("torch.add of 64x64, traced", "us", lambda: _calls("xla")),
        ("torch.add of 1x1 on torch's CPU", "us", lambda: _calls("cpu")),
        ("step of one operator, queued", "us", _step),
        ("item() of a value that is there", "us", _item),
        ("compile of a small program", "ms", _compile),
        ("training step of a small network", "us", lambda: _training("xla")),
        ("the same on torch's CPU", "us", lambda: _training("cpu")),
        ("64 MiB to the device", "GiB/s", _upload),
        ("64 MiB to the host", "GiB/s", _download),
        ("matrix product 1024x1024, f32", "GFLOP/s", _product),
    ]
    print(f"{runtime.device_type()}, {' '.join(runtime.platform_version().split())}; torch {torch.__version__}, {os.cpu_count()} processors")
    samples: dict[str, list[float]] = {name: [] for name, _, _ in measurements}
    for _ in range(arguments.rounds):
        for name, _, measure in measurements:
            samples[name].append(measure())
    for name, unit, _ in measurements:
        values = samples[name]
        print(f"{name:<34} {statistics.median(values):10.2f} {unit:<8} ({min(values):.2f} to {max(values):.2f})")
    if arguments.json:
        told = [{"name": name, "unit": unit, "rounds": samples[name]} for name, unit, _ in measurements]
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(told, file, indent=1)
    return 0


def _best(run: Callable[[], object], repeats: int) -> float:
    """The seconds of the fastest of some runs."""
    best = float("inf")
    for _ in range(repeats):
        begun = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - begun)
    return best


def _wait() -> None:
    import xla_go
    from xla_go import runtime

    xla_go.sync(wait=True)
    runtime.wait_device_ops()


def _calls(device: str) -> float:
    import torch

    import xla_go

    size = 64 if device == "xla" else 1
    a, b = torch.ones(size, size).to(device), torch.ones(size, size).to(device)
    _wait()

    def run() -> None:
        for _ in range(500):
            torch.add(a, b)

    best = _best(run, 10)
    xla_go.sync()
    _wait()
    return best / 500 * 1e6


def _step() -> float:
    import torch

    import xla_go

    x = torch.zeros(4).to("xla")

    def run() -> None:
        x.add_(1)
        xla_go.sync()

    for _ in range(5):
        run()
    _wait()
    best = _best(run, 200)
    _wait()
    return best * 1e6


def _item() -> float:
    import torch

    x = torch.ones(()).to("xla")
    _wait()
    return _best(x.item, 500) * 1e6


_compiled = 100  # each compile is of another size


def _compile() -> float:
    import torch

    global _compiled
    _compiled += 1
    x = torch.ones(_compiled).to("xla")
    _wait()

    def run() -> None:
        (x * 2 + 1).sum().item()

    return _best(run, 1) * 1e3


def _training(device: str) -> float:
    import torch
    from torch import nn

    import xla_go

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    x, target = torch.randn(32, 20).to(device), torch.randint(10, (32,)).to(device)

    def run() -> None:
        for _ in range(20):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), target).backward()
            optimizer.step()
            xla_go.sync()
        _wait()

    run()
    return _best(run, 3) / 20 * 1e6


def _mebibytes() -> Any:
    import torch

    return torch.ones(16 << 20)


def _upload() -> float:
    host = _mebibytes()

    def run() -> None:
        host.to("xla")
        _wait()

    run()
    return (64 / 1024) / _best(run, 3)


def _download() -> float:
    device = _mebibytes().to("xla")
    _wait()
    device.cpu()
    return (64 / 1024) / _best(device.cpu, 3)


def _product() -> float:
    import torch

    a, b = torch.randn(1024, 1024).to("xla"), torch.randn(1024, 1024).to("xla")

    def run() -> None:
        product = a @ b
        _wait()
        del product

    run()
    return 2 * 1024**3 / _best(run, 5) / 1e9
