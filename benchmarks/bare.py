"""The bare run of a step's own program: what of a step is the plugin's, and what the runtime adds to it.

The program is the one that the step was compiled to, as XLA_GO_DUMP_DIRECTORY has it, compiled once more and run by
xla_go.client on values of the same shapes. What it overwrites is its own last result, as in a training.
"""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes  # noqa: F401  # numpy's names of bfloat16 and the like
import numpy as np

from xla_go import client

_NAMES = {"pred": "bool", "bf16": "bfloat16", **{f"{kind}{bits}": f"{name}{bits}" for kind, name in (("f", "float"), ("s", "int"), ("u", "uint")) for bits in (8, 16, 32, 64)}}
_ALIAS = re.compile(r"\{(\d+)\}: \((\d+), \{\}")


def program_of(shapes: list[list[int]]) -> Path:
    """The program that was compiled last among those that overwrite values of all these shapes."""
    wanted = Counter(f"f32[{','.join(map(str, shape))}]" for shape in shapes)
    for program in sorted(Path(os.environ["XLA_GO_DUMP_DIRECTORY"]).glob("*.hlo.pb"), reverse=True):
        header = _header(program)
        parameters = re.findall(r"\w+\[[\d,]*\]", header.split("entry_computation_layout=")[1].split("->")[0])
        if not wanted - Counter(parameters[parameter] for parameter, _ in _overwritten(header)):
            return program
    raise LookupError("expected the program of a step among those that were compiled, got none: has it been run?")


def _header(program: Path) -> str:
    return program.with_name(program.name.replace(".hlo.pb", ".hlo.txt")).read_text().splitlines()[0]


def _overwritten(header: str) -> list[tuple[int, int]]:
    """The parameters whose memory results take, each with the result."""
    return [(int(parameter), int(output)) for output, parameter in _ALIAS.findall(header.split("entry_computation_layout")[0])]


def value_of(shape: str) -> np.ndarray[Any, Any]:
    """Small values for floats, zero for the numbers that choose places or that scale: the values stay small from run to run."""
    kind, sizes = re.fullmatch(r"(\w+)\[([\d,]*)\].*", shape).groups()  # type: ignore[union-attr]
    dtype, dims = np.dtype(_NAMES[kind]), [int(size) for size in sizes.split(",") if size]
    values = np.zeros(dims, dtype)
    if dtype.kind not in "iub":
        values[...] = np.random.default_rng(0).standard_normal(dims) * 0.02
    return values


def microseconds(program: Path, repeats: int, count: int) -> float:
    """A run's share of count runs that are queued one after the other and waited for at their end; the least of repeats."""
    overwritten = _overwritten(_header(program))
    computation = client.compile(program.read_bytes(), "hlo")
    arguments = [client.upload(value_of(shape)) for shape in computation.parameters]

    def run() -> Any:
        results = computation(*arguments)
        for parameter, output in overwritten:
            arguments[parameter] = results[output]
        return results

    def runs() -> None:
        for _ in range(count):
            results = run()
        results[-1].numpy()

    runs()
    best = float("inf")
    for _ in range(repeats):
        started = time.perf_counter()
        runs()
        best = min(best, time.perf_counter() - started)
    return best / count * 1e6


def bare(step_of: Callable[[Any], Callable[[], None]], shapes: list[list[int]], repeats: int, count: int) -> Callable[[Any], float]:
    """A workload: the program of the step that step_of makes for a device, which changes parameters of these shapes."""
    known: list[Path] = []

    def run(device: Any) -> float:
        if not known:
            step = step_of(device)
            for _ in range(5):
                step()
            device.wait()
            known.append(program_of(shapes))
        return microseconds(known[0], repeats, count)

    return run
