"""Measures uploads and reads from Python beside a plain copy of as many bytes, and beside torch_xla 2.9 and JAX.

xla_go.client and torch's device "xla" run in this process; the others in processes of their own. Each round goes
through all ways of one form of array, so a figure is the median of the rounds' own ratios of bandwidths: 1 is as fast as
the copy. An upload counts until its source may be changed and its value is there, a read until its result is in memory
of its own. What is made is freed after the clock was read. JAX does not copy an aligned array at all: the device then
shows what is written to the array later.

    python benchmarks/transfer.py --peers PYTHON
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
from typing import Any

import numpy as np
from process import WorkerProcess

SIZES = (4 << 10, 1 << 20, 256 << 20)
# Uploads of a large dense array as parts of a copy to warm memory, and reads as parts of one to fresh memory.
LIMITS = {"upload": 0.6, "read": 0.9}

# A way takes what is to be moved and gives what has to be kept while the clock runs.
Way = Callable[[Any], object]


def forms(size: int) -> dict[str, np.ndarray[Any, Any]]:
    """One array of `size` bytes in each form that a source can have."""
    rows = 1
    while rows * rows * 4 < size:
        rows *= 2
    columns = size // 4 // rows
    memory = np.zeros(2 * size + 128, np.uint8)
    memory[:] = np.arange(len(memory), dtype=np.uint8)
    start = -memory.ctypes.data % 64
    aligned = memory[start : start + size].view(np.float32).reshape(rows, columns)
    unaligned = memory[start + 4 : start + 4 + size].view(np.float32).reshape(rows, columns)
    wide = memory[start : start + 2 * size].view(np.float32).reshape(rows, 2 * columns)
    return {"aligned": aligned, "unaligned": unaligned, "transposed": aligned.reshape(columns, rows).T, "columns": wide[:, 1 : columns + 1]}


def copies() -> dict[str, Way]:
    """What the others are compared with: copies of the dense array."""
    warm: list[np.ndarray[Any, Any]] = []

    def to_warm(array: np.ndarray[Any, Any]) -> object:
        if not warm or warm[0].shape != array.shape:
            warm[:] = [np.zeros_like(array)]
        np.copyto(warm[0], array)
        return None

    return {"copy to warm": to_warm, "copy to fresh": lambda array: array.copy()}


def xla_go() -> dict[str, Way]:
    import torch

    from xla_go import client

    def upload(array: np.ndarray[Any, Any]) -> object:
        data = client.upload(array)
        data.wait()
        return data

    device = torch.device("xla")
    return {
        "upload, client": upload,
        "upload, torch": lambda array: torch.from_numpy(array).to(device),
        "read, client": lambda data: data.numpy(),
        "read, torch": lambda tensor: tensor.cpu(),
    }


def torch_xla() -> dict[str, Way]:
    import torch
    import torch_xla
    import torch_xla.core.xla_model as xm

    device = torch_xla.device()

    def upload(array: np.ndarray[Any, Any]) -> object:
        tensor = torch.from_numpy(array).to(device)
        xm.wait_device_ops()
        return tensor

    return {"upload, torch_xla": upload, "read, torch_xla": lambda tensor: tensor.cpu()}


def jax() -> dict[str, Way]:
    import jax

    def upload(array: np.ndarray[Any, Any]) -> object:
        return jax.device_put(array).block_until_ready()

    return {"upload, jax": upload, "read, jax": lambda array: np.array(array, copy=True)}


IMPLEMENTATIONS = {"xla_go": xla_go, "torch_xla": torch_xla, "jax": jax}


class Runner:
    """The ways of one implementation in this process."""

    def __init__(self, ways: dict[str, Way]) -> None:
        self.ways = ways
        self.prepared: tuple[int, str] | None = None
        self.sources: dict[str, object] = {}

    def prepare(self, size: int, form: str) -> None:
        """Makes the array, and uploads it for the reads."""
        if self.prepared == (size, form):
            return
        self.sources.clear()
        arrays = forms(size)
        self.sources = {"copy to warm": arrays["aligned"], "copy to fresh": arrays["aligned"]}
        for name, way in self.ways.items():
            kind, _, by = name.partition(", ")
            if kind == "upload":
                self.sources[name] = arrays[form]
                self.sources[f"read, {by}"] = way(arrays[form])
        self.prepared = size, form

    def seconds(self, size: int, form: str, name: str) -> float:
        self.prepare(size, form)
        way, source = self.ways[name], self.sources[name]
        repeats = min(max((32 << 20) // size, 1), 200)
        spent = 0.0
        for _ in range(repeats):
            started = time.perf_counter()
            result = way(source)
            spent += time.perf_counter() - started
            del result
        return spent / repeats


class Worker(WorkerProcess):
    """An implementation in a process of its own."""

    def __init__(self, implementation: str, python: str) -> None:
        environment = {**os.environ, "PJRT_DEVICE": "CPU", "JAX_PLATFORMS": "cpu"}
        super().__init__([python, str(Path(__file__).resolve()), "--serve", implementation], environment)
        self.ways: list[str] = self.answer()

    def seconds(self, size: int, form: str, name: str) -> float:
        return float(self.ask([size, form, name]))


def serve(implementation: str) -> None:
    ways = IMPLEMENTATIONS[implementation]()
    runner = Runner(ways)
    print(json.dumps(list(ways)), flush=True)
    for line in sys.stdin:
        print(json.dumps(runner.seconds(*json.loads(line))), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--serve", choices=IMPLEMENTATIONS, help=argparse.SUPPRESS)
    parser.add_argument("--peers", metavar="PYTHON", help="python of an environment with torch_xla 2.9 and JAX (make peers)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", default="transfer.json")
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments.serve)
        return 0

    ours = xla_go()
    runner = Runner({**copies(), **ours})
    workers = [Worker(name, arguments.peers) for name in ("torch_xla", "jax")] if arguments.peers else []
    ways: dict[str, Callable[[int, str, str], float]] = {name: runner.seconds for name in runner.ways}
    for worker in workers:
        ways |= dict.fromkeys(worker.ways, worker.seconds)
    report = []
    failed = False
    print(f"ratio to the copy: median (lowest to highest) of {arguments.rounds} rounds; uploads beside a dense copy to warm memory, reads beside one to fresh")
    for size in SIZES:
        for form in ("aligned", "unaligned", "transposed", "columns"):
            # What is read has no form any more, so reads are measured once.
            names = [name for name in ways if form == "aligned" or not name.startswith("read, ")]
            samples: dict[str, list[float]] = {name: [] for name in names}
            for number in range(arguments.rounds + 1):
                for name in names:
                    spent = ways[name](size, form, name)
                    if number:  # the first warms up
                        samples[name].append(spent)
            for name, times in samples.items():
                kind = name.split(",")[0]
                line = f"  {size >> 10:7} KiB {form:10} {name:18} {statistics.median(times) * 1e6:11.1f} us"
                if kind not in LIMITS:
                    print(line)
                    continue
                base = samples["copy to warm" if kind == "upload" else "copy to fresh"]
                ratios = [b / t for b, t in zip(base, times, strict=True)]
                middle = statistics.median(ratios)
                report.append({"size": size, "form": form, "way": name, "seconds": times, "ratios": ratios})
                if size == SIZES[-1] and form in ("aligned", "unaligned") and name in ours:
                    ok = middle >= LIMITS[kind]
                    failed |= not ok
                    line += f"   at least {LIMITS[kind]}: {'ok' if ok else 'FAIL'}"
                print(f"{line}   {middle:5.2f} ({min(ratios):.2f} to {max(ratios):.2f})")
    for worker in workers:
        worker.close()
    Path(arguments.json).write_text(json.dumps(report, indent=1))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
