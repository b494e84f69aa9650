"""One process that trains, reads, fails, forks, compiles and is interrupted for a long time, next to the CPU.

Each round does some of everything, in an order drawn at random, and compares each value with the CPU's. Between rounds, when
nothing is at work, it samples what could grow: resident memory, goroutines, threads, descriptors, and what the runtime holds.
Compiles, runs and transfers fail by a plugin in front of the real one, pjrt/testplugin/proxy.

The report is written after each sample, so that a run that is ended early has one. Its verdict compares the second quarter
of the samples with the last. Status 1 where something grew, a value was wrong, or what failed was no error of its class.

    python benchmarks/soak.py [--minutes 120] [--seed 0] [--json soak.json] [--plot soak.png]
    python benchmarks/soak.py --draw soak.json --plot soak.png
"""

from __future__ import annotations

import argparse
import copy
import gc
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SECONDS_BETWEEN_SAMPLES = 10.0
SORTS = ("compile", "execute", "transfer")
# What a sample may be above that of the second quarter, at the end: the rest is a leak.
ALLOWED = {"resident_megabytes": 32.0, "goroutines": 2, "threads": 2, "descriptors": 2, "buffers": 8, "nodes": 8, "storages": 8, "recordings": 0, "reads": 0}


def plugin_that_refuses(directory: Path) -> Path:
    """Builds the proxy and names it, with the real plugin behind it, in the environment. Before the first device use."""
    import importlib.util

    spec = importlib.util.find_spec("fastatomstruct_xla_cpu")
    if spec is None or spec.origin is None:
        raise SystemExit("soak: expected fastatomstruct-xla-cpu to be installed")
    library = directory / "proxy.so"
    source = ROOT / "pjrt" / "testplugin" / "proxy" / "proxy.c"
    subprocess.run(["cc", "-std=gnu11", "-fPIC", "-shared", "-fvisibility=hidden", f"-I{ROOT / 'pjrt'}", str(source), "-o", str(library), "-ldl"], check=True)
    os.environ.update(
        PJRT_DEVICE="CPU", XLA_GO_PLUGIN_PATH=str(library), XLA_GO_TEST_PROXIED=str(Path(spec.origin).parent / "libpjrt_cpu.so"),
        # Programs of new shapes all the time: the limit is met within minutes, and from then on each new one ends another.
        XLA_COMPILATION_CACHE_SIZE="96", XLA_GO_PERSISTENT_CACHE="1", XLA_PERSISTENT_CACHE_PATH=str(directory / "programs"),
        XLA_GO_PERSISTENT_CACHE_LIMIT=str(32 << 20), XLA_GO_LOG="none",
    )  # fmt: skip
    return library


class Soak:
    """The state of a run: a model on both devices, what was done and what went wrong."""

    def __init__(self, seed: int, proxy: Path) -> None:
        import ctypes

        import torch

        import xla_go

        self.torch, self.xla_go = torch, xla_go
        self.random = random.Random(seed)
        torch.manual_seed(seed)
        self.proxy = ctypes.CDLL(str(proxy))
        self.proxy.refuse.argtypes = [ctypes.c_char_p, ctypes.c_int64, ctypes.c_int]
        self.done: Counter[str] = Counter()
        self.wrong: list[str] = []
        nn = torch.nn
        self.on_cpu: Any = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 32), nn.LayerNorm(32), nn.GELU(), nn.Linear(32, 5))
        self.on_xla: Any = copy.deepcopy(self.on_cpu).to("xla")
        self.optimizers: Any = [torch.optim.AdamW(model.parameters(), lr=1e-3) for model in (self.on_cpu, self.on_xla)]
        self.compiled = torch.compile(lambda x, y: (x @ y).softmax(-1).sum(0), backend="xla_go")
        self.kept = torch.randn(7, 11)
        self.kept_on_xla = self.kept.to("xla")

    def same(self, what: str, got: Any, want: Any, tolerance: float = 2e-4) -> None:
        try:
            self.torch.testing.assert_close(got.detach().cpu(), want.detach(), rtol=tolerance, atol=tolerance)
        except AssertionError as error:
            self.wrong.append(f"{what}: {str(error)[:300]}")
        self.done["values compared"] += 1

    def step(self, model: Any, optimizer: Any, images: Any, classes: Any) -> Any:
        optimizer.zero_grad()
        loss = self.torch.nn.functional.cross_entropy(model(images), classes)
        loss.backward()
        self.torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    def train(self) -> None:
        """A few steps on both devices; then both go on from the CPU's state, since roundings drift apart."""
        torch = self.torch
        for _ in range(self.random.randint(1, 6)):
            images, classes = torch.randn(8, 1, 6, 6), torch.randint(5, (8,))
            want = self.step(self.on_cpu, self.optimizers[0], images, classes)
            got = self.step(self.on_xla, self.optimizers[1], images.to("xla"), classes.to("xla"))
            self.done["steps"] += 1
        self.same("loss", got, want)
        self.resume()

    def resume(self) -> None:
        self.on_xla.load_state_dict(self.on_cpu.state_dict())
        # A copy: torch lets both optimizers count their steps in one tensor otherwise.
        self.optimizers[1].load_state_dict(copy.deepcopy(self.optimizers[0].state_dict()))

    def read(self) -> None:
        """Views, written and read, of a tensor of a few shapes."""
        torch = self.torch
        want = torch.randn(self.random.choice((3, 5, 8)), 4, 6)
        got = want.to("xla")
        for x in (want, got):
            x[1:, ::2].mul_(2)
            x.permute(2, 0, 1)[3] += 1
            x.diagonal(dim1=1, dim2=2).zero_()
        view = self.random.choice([lambda x: x[1:].transpose(0, 2), lambda x: x.flip(1)[..., 2:5], lambda x: x.reshape(-1)[::3], lambda x: x.as_strided((3, 4), (2, 5), 1)])
        self.same("view", view(got), view(want))
        self.same("element", got[1, 2, 3], want[1, 2, 3])
        shared = torch.from_dlpack(got)
        self.same("DLPack", shared, want)

    def compile(self) -> None:
        """A program of a size that has mostly not been met, by operators and by torch.compile of one size."""
        torch, n = self.torch, self.random.randint(2, 4000)
        x, y = torch.randn(n), torch.randn(n)
        self.same("new program", (x.to("xla").sin() * y.to("xla")).cumsum(0)[-1] / n, (x.sin() * y).cumsum(0)[-1] / n)
        a, b = torch.randn(6, 5), torch.randn(5, 9)
        self.same("torch.compile", self.compiled(a.to("xla"), b.to("xla")), (a @ b).softmax(-1).sum(0))

    def fail(self) -> None:
        """A compile, run or transfer that the plugin refuses, in the middle of a step; the model goes on from its last state."""
        torch, errors = self.torch, self.xla_go.errors
        sort, code = self.random.choice(SORTS), self.random.choice((1, 2, 8, 9, 10, 13, 14, 15))
        if sort == "execute" and self.random.random() < 0.9:
            self.fail_small(code)
            return
        fresh = self.random.randint(9, 300) if sort == "compile" else 8  # a batch of a new size compiles
        images, classes = torch.randn(fresh, 1, 6, 6), torch.randint(5, (fresh,))
        self.proxy.refuse(sort.encode(), self.random.randint(1, 3 if sort == "transfer" else 1), code)
        try:
            loss = self.step(self.on_xla, self.optimizers[1], images.to("xla"), classes.to("xla"))
            loss.item()
            self.xla_go.sync(wait=True)
        except RuntimeError as error:
            if type(error) is not errors.class_of_code(getattr(error, "code", 0)) or "the proxy refuses" not in str(error):
                self.wrong.append(f"refused {sort}: {type(error).__name__}: {error}")
            self.done[f"{sort} refused"] += 1
        finally:
            self.proxy.refuse(sort.encode(), 0, 0)
        self.same("unrelated value", self.kept_on_xla, self.kept, 0.0)
        for _ in range(3):  # what was lost is told once by whatever meets it first
            try:
                self.resume()
                self.xla_go.sync(wait=True)
                break
            except RuntimeError as error:
                if "the proxy refuses" not in str(error):
                    raise
        self.same("parameter after a failure", self.on_xla[0].weight, self.on_cpu[0].weight, 0.0)

    def fail_small(self, code: int) -> None:
        """A run that is refused, of a program with three results: after one of a whole step each of its results is compiled apart."""
        torch, errors = self.torch, self.xla_go.errors
        x = torch.randn(5, 3)
        on_xla = x.to("xla")
        first, second, third = on_xla * 2, on_xla.sum(0), on_xla.exp()
        self.proxy.refuse(b"execute", 1, code)
        try:
            self.xla_go.sync(wait=True)
            first.cpu(), second.cpu(), third.cpu()
        except RuntimeError as error:
            if type(error) is not errors.class_of_code(code) or "the proxy refuses" not in str(error):
                self.wrong.append(f"refused run: {type(error).__name__}: {error}")
        finally:
            self.proxy.refuse(b"execute", 0, 0)
        self.done["execute refused"] += 1
        self.same("input of a refused run", on_xla, x, 0.0)
        self.same("unrelated value", self.kept_on_xla, self.kept, 0.0)

    def misuse(self) -> None:
        """Errors of programs: shapes, positions, mixed devices."""
        torch = self.torch
        for kind, wrong in (
            (RuntimeError, lambda: torch.ones(3, device="xla") + torch.ones(4, device="xla")),
            (IndexError, lambda: torch.ones(3, 2, device="xla")[torch.tensor([0, 7], device="xla")].cpu()),
            (RuntimeError, lambda: torch.ones(3, device="xla") + torch.ones(3)),
            (RuntimeError, lambda: torch.ones(3, 4, device="xla") @ torch.ones(3, 4, device="xla")),
        ):
            try:
                wrong()
            except kind:
                self.done["misuse refused"] += 1
            else:
                self.wrong.append(f"no {kind.__name__}")

    def fork(self) -> None:
        """A child that computes on the CPU, is refused the device, and ends; with work in flight in this process."""
        torch = self.torch
        x = torch.ones(64, 64, device="xla")
        for _ in range(4):
            x = torch.tanh(x @ x)
        self.xla_go.sync()
        child = os.fork()
        if child == 0:
            status = 1
            try:
                leaf = torch.ones(3, requires_grad=True)
                (leaf * 2).sum().backward()
                try:
                    torch.ones(3, device="xla")
                    status = 2
                except RuntimeError as error:
                    status = 0 if "spawn" in str(error) and leaf.grad is not None and leaf.grad[0] == 2 else 3
                del x, self.kept_on_xla
            finally:
                os._exit(status)
        _, ended = os.waitpid(child, 0)
        if ended != 0:
            self.wrong.append(f"a forked child ended with {ended}")
        self.done["forks"] += 1
        want = torch.ones(64, 64)
        for _ in range(4):
            want = torch.tanh(want @ want)
        self.same("value in flight at a fork", x, want)

    def load(self) -> None:
        """Batches from forked workers, uploaded by the loader's threads."""
        from torch.utils.data import DataLoader, TensorDataset

        from xla_go.distributed.parallel_loader import MpDeviceLoader

        data = self.torch.arange(24.0).reshape(12, 2)
        loader = MpDeviceLoader(DataLoader(TensorDataset(data), batch_size=4, num_workers=1), "xla")
        total = sum(batch.sum() for (batch,) in loader)
        self.same("loaded", total, data.sum())
        self.done["loaders"] += 1

    def threads(self) -> None:
        """Six threads that trace, read and write values of their own."""
        torch = self.torch

        def work(number: int) -> None:
            for turn in range(6):
                x = torch.full((3 + turn % 3,), float(number), device="xla")
                x += turn
                if turn % 3 == number % 3:
                    self.xla_go.sync()
                got = (x[1:] * 2 - x[:-1]).cpu()
                if not torch.equal(got, torch.full_like(got, float(number + turn))):
                    self.wrong.append(f"thread {number}, turn {turn}: {got}")

        workers = [threading.Thread(target=work, args=(number,)) for number in range(6)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(120)
            if worker.is_alive():
                self.wrong.append("a thread hangs")
        self.done["threads"] += len(workers)

    def interrupt(self) -> None:
        """SIGINT while a program compiles or runs and is waited for."""
        torch, n = self.torch, self.random.randint(40, 120)
        x = torch.full((n, n), 1 / n, device="xla")
        for number in range(8):  # long enough to be met, and not what most of the time goes to
            x = torch.softmax(x @ x, -1) + torch.sin(x) * number
        alarm = threading.Timer(self.random.uniform(0.001, 0.1), os.kill, (os.getpid(), signal.SIGINT))
        try:
            try:
                alarm.start()
                x.cpu()
                alarm.join()
            except KeyboardInterrupt:
                self.done["interrupted"] += 1
            alarm.join()
        except KeyboardInterrupt:  # it came late
            self.done["interrupted late"] += 1
        self.xla_go.sync(wait=True)

    def save(self) -> None:
        """A checkpoint in memory, back into the model."""
        import io

        file = io.BytesIO()
        self.torch.save(self.on_xla.state_dict(), file)
        file.seek(0)
        self.on_xla.load_state_dict(self.torch.load(file))
        self.same("saved", self.on_xla[3].weight, self.on_cpu[3].weight, 0.0)
        self.done["checkpoints"] += 1

    def round(self) -> None:
        ways: list[Callable[[], None]] = [self.train, self.train, self.read, self.compile, self.compile, self.fail, self.misuse, self.threads, self.save]
        if self.random.random() < 0.3:
            ways += [self.fork, self.load, self.interrupt]
        self.random.shuffle(ways)
        for way in ways:
            try:
                way()
            except Exception:
                self.wrong.append(f"{way.__name__}: {traceback.format_exc()[-600:]}")
                self.resume()
        self.done["rounds"] += 1

    def sample(self, seconds: float) -> dict[str, Any]:
        from xla_go import _runtime

        gc.collect()
        self.xla_go.sync(wait=True)
        self.xla_go.runtime.wait_device_ops()
        return {
            "seconds": round(seconds, 1),
            "resident_megabytes": round(int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6, 1),
            "goroutines": _runtime.call("Goroutines"),
            "threads": len(os.listdir("/proc/self/task")),
            "descriptors": len(os.listdir("/proc/self/fd")),
            **self.xla_go.debug.live_counts(),
            "device_bytes": self.xla_go.runtime.memory_info()["bytes_used"],
            "compiles": (self.xla_go.metrics.metric_data("CompileTime") or (0,))[0],
            "done": dict(self.done),
            "wrong": len(self.wrong),
        }


def verdict(samples: list[dict[str, Any]]) -> dict[str, Any]:
    """What each quantity was in the second quarter and the last, as medians, and whether it may have grown that much."""
    quarter = max(len(samples) // 4, 1)
    found = {}
    for name, allowed in ALLOWED.items():
        before, after = (statistics.median(sample[name] for sample in part) for part in (samples[quarter : 2 * quarter] or samples, samples[-quarter:]))
        found[name] = {"second_quarter": before, "last_quarter": after, "level": after - before <= allowed}
    return found


def draw(report: dict[str, Any], path: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    samples = report["samples"]
    minutes = [sample["seconds"] / 60 for sample in samples]
    figure, axes = pyplot.subplots(2, 2, figsize=(11, 6.5), layout="constrained", sharex=True)
    groups = {"resident memory, MB": ["resident_megabytes"], "goroutines, threads, descriptors": ["goroutines", "threads", "descriptors"],
              "held by the runtime": ["buffers", "nodes", "storages", "recordings"]}  # fmt: skip
    for one, (title, names) in zip(axes.flat, groups.items(), strict=False):
        for name in names:
            one.plot(minutes, [sample[name] for sample in samples], label=name.replace("_", " "))
        one.set(title=title, ylim=(0, None))
        if len(names) > 1:
            one.legend()
    work = axes.flat[-1]
    for name in ("steps", "values compared"):
        work.plot(minutes, [sample["done"].get(name, 0) for sample in samples], label=name)
    work.plot(minutes, [sample["compiles"] for sample in samples], label="compiles")
    work.plot(minutes, [sample["wrong"] for sample in samples], label="wrong values, hangs, strange errors", color="red")
    work.set(title="done so far", ylim=(0, None))
    work.legend()
    for one in axes.flat:
        one.grid(alpha=0.3)
    for one in axes[1]:
        one.set_xlabel("minutes")
    figure.savefig(path, dpi=110)


def soak(minutes: float, seed: int, path: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as directory:
        run = Soak(seed, plugin_that_refuses(Path(directory)))
        started = time.monotonic()
        next_sample = 0.0
        report: dict[str, Any] = {"minutes": minutes, "seed": seed, "torch": run.torch.__version__, "samples": []}
        while (elapsed := time.monotonic() - started) < minutes * 60:
            run.round()
            if elapsed < next_sample:
                continue
            next_sample = elapsed + SECONDS_BETWEEN_SAMPLES
            report["samples"].append(run.sample(time.monotonic() - started))
            report.update(wrong=run.wrong[:50], verdict=verdict(report["samples"]))
            Path(path).write_text(json.dumps(report) + "\n")
    return report


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=120.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", default="soak.json")
    parser.add_argument("--plot", default="soak.png")
    parser.add_argument("--draw", metavar="JSON", help="only draw the report of an earlier run")
    arguments = parser.parse_args()
    report = json.loads(Path(arguments.draw).read_text()) if arguments.draw else soak(arguments.minutes, arguments.seed, arguments.json)
    draw(report, arguments.plot)
    last = report["samples"][-1]
    print(f"{last['seconds'] / 60:.0f} minutes, {last['compiles']} compiles, {last['wrong']} wrong: {json.dumps(last['done'])}")
    for name, found in report["verdict"].items():
        print(f"{name}: {found['second_quarter']:g} in the second quarter, {found['last_quarter']:g} in the last{'' if found['level'] else ': IT GROWS'}")
    return 1 if report["wrong"] or not all(found["level"] for found in report["verdict"].values()) else 0


if __name__ == "__main__":
    sys.exit(main())
