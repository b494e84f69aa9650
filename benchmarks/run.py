"""Measures xla_go beside torch on the CPU and, where its environment is there, torch_xla 2.9.

Rounds are interleaved over the implementations; a figure is the median over the rounds, and its
spread is given as the lowest and highest round. Ratios are medians of the rounds' own ratios.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
from pathlib import Path

from process import WorkerProcess
from tqdm import tqdm

HERE = Path(__file__).resolve().parent

# (workload, workload of the peer, peer, the most that the ratio may be): the peer "cpu" runs in
# xla_go's own process.
LIMITS = [
    ("add 64x64 no grad", "add 1x1 no grad", "cpu", 1.3),
    ("add 64x64 no grad", "add 64x64 no grad", "torch_xla", 0.3),
    ("MLP SGD step", "MLP SGD step", "cpu", 1.3),
    ("MLP SGD step", "MLP SGD step", "torch_xla", 0.3),
    ("(x + 1).cpu() of 4 elements", "(x + 1).cpu() of 4 elements", "torch_xla", 0.6),
]
# Measured and shown, without a limit here.
SHOWN = [
    ("add 64x64 grad", "add 1x1 grad", "cpu"),
    ("add 64x64 grad", "add 64x64 grad", "torch_xla"),
    ("item() of a ready value", "item() of a ready value", "torch_xla"),
]


class Worker(WorkerProcess):
    """One implementation in its own process."""

    def __init__(self, implementation: str, python: str) -> None:
        environment = dict(os.environ, PJRT_DEVICE="CPU") if implementation == "torch_xla" else dict(os.environ)
        super().__init__([python, str(HERE / "worker.py"), implementation], environment)
        self.about = self.answer()

    def run(self, device: str, workload: str) -> float:
        return float(self.ask([device, workload]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peers", help="python of an environment with torch_xla 2.9 (make peers)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", default="bench.json")
    arguments = parser.parse_args()

    ours = Worker("xla_go", sys.executable)
    workers = {"xla_go": ours, "cpu": ours}
    if arguments.peers:
        workers["torch_xla"] = Worker("torch_xla", arguments.peers)
    pairs = [row for row in [*LIMITS, *((*row, None) for row in SHOWN)] if row[2] in workers]
    wanted = sorted({(device, workload) for mine, theirs, peer, _ in pairs for device, workload in (("xla_go", mine), (peer, theirs))})
    samples: dict[tuple[str, str], list[float]] = {key: [] for key in wanted}
    for _ in tqdm(range(arguments.rounds), desc="rounds"):
        for device, workload in wanted:
            samples[device, workload].append(workers[device].run(device, workload))
    for worker in {id(w): w for w in workers.values()}.values():
        worker.close()

    print(f"{platform.machine()}, {os.cpu_count()} cores; torch {ours.about['torch']}; microseconds: median (lowest to highest) of {arguments.rounds} rounds")
    for (device, workload), times in samples.items():
        print(f"  {device:10} {workload:26} {statistics.median(times):9.2f} ({min(times):.2f} to {max(times):.2f})")
    failed = False
    report = []
    print("ratios: median (lowest to highest)")
    for mine, theirs, peer, limit in pairs:
        ratios = [a / b for a, b in zip(samples["xla_go", mine], samples[peer, theirs], strict=True)]
        middle = statistics.median(ratios)
        verdict = "" if limit is None else f"  at most {limit}: {'ok' if middle <= limit else 'FAIL'}"
        failed |= limit is not None and middle > limit
        print(f"  {mine} / {peer} {theirs}: {middle:.3f} ({min(ratios):.3f} to {max(ratios):.3f}){verdict}")
        report.append({"workload": mine, "peer": peer, "peer workload": theirs, "ratio": middle, "ratios": ratios, "limit": limit})
    Path(arguments.json).write_text(json.dumps({"ratios": report, "samples": [[d, w, t] for (d, w), t in samples.items()]}, indent=1))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
