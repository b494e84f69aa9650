"""Measures xla_go beside torch on the CPU and, where `make peers` has made their environments, torch_xla 2.9 and JAX.

Rounds are interleaved over the implementations; a figure is the median over the rounds, and its spread is the lowest and the
highest round. Ratios are medians of the rounds' own ratios. Writes bench.json and bench.png; status 1 where a ratio is above
its limit.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from process import WorkerProcess
from tqdm import tqdm

HERE = Path(__file__).resolve().parent


@dataclass
class Pair:
    """A workload of xla_go's and one of a peer's, the ratio of which is told; limit is the most that it may be, None for any."""

    workload: str
    peer: str
    limit: float | None = None
    theirs: str = ""  # the peer's workload, where it is another
    ours: str = "xla_go"  # or "xla_go jit"
    free: float = 0.0  # microseconds of ours that do not count
    ratios: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.theirs = self.theirs or self.workload

    def verdict(self) -> str:
        """"ok", "FAIL", or "" without a limit."""
        return "" if self.limit is None else "ok" if statistics.median(self.ratios) <= self.limit else "FAIL"

    def name(self) -> str:
        return self.workload if self.ours == "xla_go" else f"{self.workload}, jit"

    def __str__(self) -> str:
        limit = "" if self.limit is None else f", at most {self.limit}{f' (without {self.free:g} us)' if self.free else ''}: {self.verdict()}"
        other = "" if self.theirs == self.workload else f" {self.theirs}"
        return f"{self.name()} / {self.peer}{other}: {statistics.median(self.ratios):.3f} ({min(self.ratios):.3f} to {max(self.ratios):.3f}){limit}"


# "cpu", "compile" and "xla_go jit" run in xla_go's own process; "jax" runs on the plugin that xla_go uses, "jax own" on its own CPU.
PAIRS = [
    Pair("add 64x64 no grad", "cpu", 1.0, "add 1x1 no grad"),
    Pair("add 64x64 grad", "cpu", 1.0, "add 1x1 grad"),
    Pair("add 64x64 no grad", "torch_xla", 0.22),
    Pair("add 64x64 grad", "torch_xla", 0.28),
    *(Pair(name, "torch_xla") for name in ("add_ 64x64", "view 64x64", "mm 64x64", "cat 64x64", "index 64x64", "30 operators", "30 operators grad")),
    Pair("GPT host", "torch_xla", 0.25),
    Pair("MLP step", "torch_xla", 0.20),
    Pair("ResNet step", "torch_xla", 0.70),
    Pair("GPT step", "torch_xla", 0.95),
    *(Pair(name, "torch_xla") for name in ("LSTM step", "ViT step", "decode a token")),
    Pair("golden MLP step", "jax", 1.05, ours="xla_go jit"),
    Pair("golden GPT step", "jax", 1.05, ours="xla_go jit"),
    Pair("golden MLP step", "jax"),
    Pair("golden GPT step", "jax"),
    Pair("golden MLP step", "jax own", ours="xla_go jit"),
    Pair("golden GPT step", "jax own", ours="xla_go jit"),
    *(Pair(f"{name} step", "xla_go jit", 1.03, f"{name} program", "xla_go jit", 100.0) for name in ("golden MLP", "golden GPT", "GPT")),
    *(Pair(name, "torch_xla", ours="xla_go jit") for name in ("MLP step", "GPT step", "GPT host", "decode a token")),
    *(Pair(name, peer, ours="xla_go jit") for peer in ("cpu", "compile") for name in ("MLP step", "GPT step", "decode a token")),
    *(Pair(name, "cpu") for name in ("MLP step", "ResNet step", "GPT step", "LSTM step", "ViT step", "decode a token")),
    *(Pair(name, "compile") for name in ("MLP step", "ResNet step", "GPT step", "ViT step", "decode a token")),
    Pair("(x + 1).cpu() of 4 elements", "torch_xla", 0.6),
    *(Pair(name, "torch_xla") for name in ("item() of a ready value", "64 MiB to the device", "64 MiB from the device")),
]
# Of processes of their own: the first step, and the memory of a training.
ONCE = [Pair("first step", "torch_xla", 0.9), Pair("resident", "torch_xla", 0.9), Pair("first step, warm", "xla_go", 0.35, "first step")]


def environment(implementation: str, cache: str = "") -> dict[str, str]:
    own = {"torch_xla": {"PJRT_DEVICE": "CPU"}, "jax own": {"JAX_PLATFORMS": "cpu"}}.get(implementation, {"XLA_GO_PERSISTENT_CACHE": "1" if cache else "0"})
    return {**os.environ, **own, **({"XLA_PERSISTENT_CACHE_PATH": cache} if cache else {})}


class Worker(WorkerProcess):
    """One implementation in its own process."""

    def __init__(self, implementation: str, python: str, script: str, *arguments: str) -> None:
        own = environment(implementation)
        if implementation == "xla_go":
            self.programs = tempfile.TemporaryDirectory()  # see bare.py
            own["XLA_GO_DUMP_DIRECTORY"] = self.programs.name
        super().__init__([python, str(HERE / script), *arguments], own)
        self.about = self.answer()

    def run(self, device: str, workload: str) -> float:
        return float(self.ask([device, workload]))


def in_process(implementation: str, python: str, cache: str = "") -> dict[str, float]:
    """What a process tells once; with a cache, of programs that are kept there."""
    command = [python, str(HERE / "worker.py"), implementation, "--once"]
    done = subprocess.run(command, env=environment(implementation, cache), stdout=subprocess.PIPE, text=True, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def measure(pairs: list[Pair], workers: dict[str, Worker], rounds: int) -> dict[tuple[str, str], list[float]]:
    """The figures of each (device, workload) over the rounds; fills the pairs' ratios."""
    wanted = sorted({key for pair in pairs for key in ((pair.ours, pair.workload), (pair.peer, pair.theirs))}, key=lambda key: (key[1], key[0]))
    samples: dict[tuple[str, str], list[float]] = {key: [] for key in wanted}
    with tqdm(total=rounds * len(wanted)) as bar:
        for _ in range(rounds):
            for device, workload in wanted:
                bar.set_postfix_str(f"{workload}, {device}")
                samples[device, workload].append(workers[device].run(device, workload))
                bar.update()
    for pair in pairs:
        pair.ratios = [max(a - pair.free, 0) / b for a, b in zip(samples[pair.ours, pair.workload], samples[pair.peer, pair.theirs], strict=True)]
    return samples


def measure_once(pairs: list[Pair], peers: str | None, rounds: int) -> dict[tuple[str, str], list[float]]:
    """The same for what processes tell once: cold and warm ones of xla_go's, and torch_xla's."""
    samples: dict[tuple[str, str], list[float]] = {}
    for _ in tqdm(range(rounds), desc="processes"):
        with tempfile.TemporaryDirectory() as cache:
            cold, warm = (in_process("xla_go", sys.executable, cache) for _ in range(2))
        told = {("xla_go", name): value for name, value in cold.items()} | {("xla_go", "first step, warm"): warm["first step"]}
        if peers:
            told |= {("torch_xla", name): value for name, value in in_process("torch_xla", peers).items()}
        for key, value in told.items():
            samples.setdefault(key, []).append(value)
    for pair in pairs:
        pair.ratios = [a / b for a, b in zip(samples["xla_go", pair.workload], samples[pair.peer, pair.theirs], strict=True)]
    return samples


def plot(pairs: list[Pair], path: str) -> None:
    """The ratios with their spreads and limits, left of 1 where xla_go is faster."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(9, 1.2 + 0.26 * len(pairs)), layout="constrained")
    for row, pair in enumerate(reversed(pairs)):
        middle = statistics.median(pair.ratios)
        spread = [[middle - min(pair.ratios)], [max(pair.ratios) - middle]]
        color = {"ok": "tab:green", "FAIL": "tab:red", "": "tab:blue"}[pair.verdict()]
        axes.errorbar(middle, row, xerr=spread, fmt="o", color=color, capsize=3, markersize=4)
        if pair.limit is not None:
            axes.plot(pair.limit, row, "|", color="black", markersize=12)
    axes.set_yticks(range(len(pairs)), [f"{pair.name()} / {pair.peer}" for pair in reversed(pairs)], fontsize=8)
    axes.set_xscale("log")
    axes.axvline(1, color="gray", linewidth=0.8)
    axes.grid(axis="x", alpha=0.3)
    axes.set_xlabel("ratio: median, lowest and highest round; | is the limit")
    figure.savefig(path, dpi=120)


def report(pairs: list[Pair], samples: dict[tuple[str, str], list[float]], about: dict[str, Any], arguments: argparse.Namespace) -> bool:
    """Prints and writes all; False where a limit does not hold."""
    print(f"{platform.machine()}, {os.cpu_count()} cores; {about}; median (lowest to highest) of {arguments.rounds} rounds: microseconds; seconds of first steps; MiB resident")
    for (device, workload), figures in samples.items():
        print(f"  {workload:30} {device:10} {statistics.median(figures):12.2f} ({min(figures):.2f} to {max(figures):.2f})")
    print("ratios:", *pairs, sep="\n  ")
    rows = [{"workload": p.workload, "ours": p.ours, "peer": p.peer, "peer workload": p.theirs, "ratio": statistics.median(p.ratios), "ratios": p.ratios, "limit": p.limit} for p in pairs]
    Path(arguments.json).write_text(json.dumps({"about": about, "ratios": rows, "samples": [[d, w, t] for (d, w), t in samples.items()]}, indent=1))
    plot(pairs, arguments.plot)
    return all(pair.verdict() != "FAIL" for pair in pairs)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("workloads", nargs="*", help="parts of workloads' names; all without")
    parser.add_argument("--peers", help="python of an environment with torch_xla 2.9 and JAX (make peers)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", default="bench.json")
    parser.add_argument("--plot", default="bench.png")
    arguments = parser.parse_args()

    def chosen(pairs: list[Pair]) -> list[Pair]:
        known = [p for p in pairs if arguments.peers or p.peer not in ("torch_xla", "jax", "jax own")]
        return [p for p in known if not arguments.workloads or any(part in p.workload for part in arguments.workloads)]

    pairs, once = chosen(PAIRS), chosen(ONCE)
    wanted = {pair.peer for pair in pairs}
    ours = Worker("xla_go", sys.executable, "worker.py", "xla_go")
    workers = {"xla_go": ours, "xla_go jit": ours, "cpu": ours, "compile": ours}
    about: dict[str, Any] = {"xla_go": ours.about}
    if "torch_xla" in wanted:
        workers["torch_xla"] = Worker("torch_xla", arguments.peers, "worker.py", "torch_xla")
    for name, plugin in (("jax", [ours.about["plugin"]]), ("jax own", [])):
        if name in wanted:
            workers[name] = Worker(name, arguments.peers, "jax_worker.py", *plugin)
            about[name] = workers[name].about
    samples = measure(pairs, workers, arguments.rounds) if pairs else {}
    for worker in {id(worker): worker for worker in workers.values()}.values():
        worker.close()
    if once:
        samples |= measure_once(once, arguments.peers, arguments.rounds)
    return 0 if report(pairs + once, samples, about, arguments) else 1


if __name__ == "__main__":
    sys.exit(main())
