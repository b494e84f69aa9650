"""Measures one run of a compiled 4-element add from Python, without waiting for its result, beside JAX and pypjrt.

Each implementation runs in a process of its own, with its own interpreter; rounds are interleaved. Results are dropped
at once, so a figure holds the freeing of one result too. The processor's time is that of all threads of the process; it
tells more than the clock where the machine is busy. The same over go-xla is in benchmarks/goxla.

    python benchmarks/dispatch.py --jax PYTHON --pypjrt PYTHON --plugin PATH
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

RUNS = 5000  # a round of a few milliseconds would measure the change of processes
LIMIT_MICROSECONDS = 8.0

PROGRAM = """
module @add {
  func.func public @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
    %z = stablehlo.add %x, %y : tensor<4xf32>
    return %z : tensor<4xf32>
  }
}
"""


def xla_go() -> Callable[[], object]:
    import numpy as np

    from xla_go import client

    computation = client.compile(PROGRAM, "mlir")
    x, y = (client.upload(np.ones(4, np.float32)) for _ in range(2))
    assert computation(x, y)[0].numpy().tolist() == [2, 2, 2, 2]
    return lambda: computation(x, y)


def jax() -> Callable[[], object]:
    import jax
    import jax.numpy as jnp

    add = jax.jit(lambda x, y: x + y)
    x, y = jnp.ones(4), jnp.ones(4)
    assert add(x, y).tolist() == [2, 2, 2, 2]
    return lambda: add(x, y)


def pypjrt() -> Callable[[], object]:
    import array

    import pypjrt

    client = pypjrt.Client.create(os.environ["XLA_GO_TEST_PLUGIN"])
    executable = client.compile(PROGRAM)
    opened = client.devices()  # its devices are usable as long as this is open
    device = opened.__enter__()[0]
    f32 = 11  # PJRT_Buffer_Type_F32
    x, y = (client.buffer_from_host(array.array("f", [1] * 4), f32, [4], device) for _ in range(2))
    (result,) = executable(x, y)
    assert memoryview(result.to_host()).cast("B").cast("f").tolist() == [2, 2, 2, 2]

    def run() -> object:
        return executable(x, y)

    run.opened = opened  # type: ignore[attr-defined]
    return run


IMPLEMENTATIONS: dict[str, Callable[[], Callable[[], object]]] = {"xla_go": xla_go, "jax": jax, "pypjrt": pypjrt}


def serve(implementation: str) -> None:
    """Answers each line of input with the microseconds of a run, by the clock and by the processor."""
    run = IMPLEMENTATIONS[implementation]()
    for _ in range(RUNS):
        run()
    print(json.dumps("ready"), flush=True)
    for _ in sys.stdin:
        started, used = time.perf_counter(), time.process_time()
        for _ in range(RUNS):
            run()
        print(json.dumps([(time.perf_counter() - started) / RUNS * 1e6, (time.process_time() - used) / RUNS * 1e6]), flush=True)


class Worker(WorkerProcess):
    """One implementation in its own process."""

    def __init__(self, implementation: str, python: str, plugin: str | None) -> None:
        environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
        if plugin:
            environment |= {"XLA_GO_PLUGIN_PATH": plugin, "PJRT_DEVICE": "CPU", "XLA_GO_TEST_PLUGIN": plugin}
        super().__init__([python, str(Path(__file__).resolve()), "--serve", implementation], environment)

    def round(self) -> tuple[float, float]:
        wall, processor = self.ask("round")
        return wall, processor


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--serve", choices=IMPLEMENTATIONS, help=argparse.SUPPRESS)
    parser.add_argument("--jax", metavar="PYTHON", help="python of an environment with JAX (make peers)")
    parser.add_argument("--pypjrt", metavar="PYTHON", help="python of an environment with pypjrt")
    parser.add_argument("--plugin", help="the PJRT plugin for xla_go and pypjrt; xla_go's own choice without it")
    parser.add_argument("--rounds", type=int, default=61)
    parser.add_argument("--json", default="dispatch.json")
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments.serve)
        return 0
    if arguments.pypjrt and not arguments.plugin:
        parser.error("--pypjrt needs --plugin: it finds none by itself")

    pythons = {"xla_go": sys.executable, "jax": arguments.jax, "pypjrt": arguments.pypjrt}
    workers = {name: Worker(name, python, arguments.plugin) for name, python in pythons.items() if python}
    for name, worker in list(workers.items()):
        if worker.poll_answer() is None:
            print(f"{name}: left out, its process ended with status {worker.process.wait()}; its messages are above")
            del workers[name]
    samples: dict[str, list[tuple[float, float]]] = {name: [] for name in workers}
    for _ in range(arguments.rounds):
        for name, worker in workers.items():
            samples[name].append(worker.round())
    for worker in workers.values():
        worker.close()
    if "xla_go" not in samples:
        return 1

    print(f"microseconds per run: median (lowest to highest) of {arguments.rounds} rounds of {RUNS} runs; of the processor; median of the rounds' ratios")
    mine = [wall for wall, _ in samples["xla_go"]]
    for name, times in samples.items():
        walls, processors = zip(*times, strict=True)
        ratio = statistics.median(a / b for a, b in zip(mine, walls, strict=True))
        print(f"  {name:8} {statistics.median(walls):7.2f} ({min(walls):.2f} to {max(walls):.2f})   {statistics.median(processors):7.2f}   xla_go / {name}: {ratio:.2f}")
    Path(arguments.json).write_text(json.dumps(samples))
    ok = statistics.median(mine) <= LIMIT_MICROSECONDS
    print(f"xla_go at most {LIMIT_MICROSECONDS} us: {'ok' if ok else 'FAIL'}")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
