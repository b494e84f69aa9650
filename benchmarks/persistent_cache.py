"""First step of a GPT in a fresh process, without and with its programs on disk: `python benchmarks/persistent_cache.py`.

Each round is a cold process, with an empty directory, and a warm one after it. A step's time runs from the first op of
the forward pass to the loss on the host.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROUNDS = 5


def first_step() -> None:
    """Prints the seconds of the first two steps and the number of runs of the compiler."""
    import time

    sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
    import torch
    import torch.nn.functional as F
    from char_gpt import CharGPT

    import xla_go

    torch.manual_seed(0)
    model = CharGPT(96, 64).to("xla")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    text = torch.randint(96, (8, 65), device="xla")
    xla_go.sync(wait=True)
    seconds = []
    for _ in range(2):
        begin = time.perf_counter()
        loss = F.cross_entropy(model(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss.item()
        seconds.append(time.perf_counter() - begin)
    compiles = xla_go.metrics.metric_data("CompileTime")
    print(json.dumps([*seconds, compiles[0] if compiles else 0]))


def process(directory: str) -> tuple[float, float, int]:
    environment = {**os.environ, "XLA_GO_PERSISTENT_CACHE": "1", "XLA_PERSISTENT_CACHE_PATH": directory, "PJRT_DEVICE": "CPU"}
    done = subprocess.run([sys.executable, __file__, "--step"], env=environment, capture_output=True, text=True, check=True)
    return tuple(json.loads(done.stdout))


def main() -> None:
    cold, warm, ratios = [], [], []
    for number in range(ROUNDS):
        with tempfile.TemporaryDirectory() as directory:
            cold.append(process(directory)[0])
            second, _, compiles = process(directory)
        warm.append(second)
        ratios.append(warm[-1] / cold[-1])
        print(f"round {number + 1}: cold {cold[-1]:.2f} s, warm {warm[-1]:.2f} s, {compiles} compiles in the warm process")
    for name, values, unit in (("cold", cold, " s"), ("warm", warm, " s"), ("warm / cold", ratios, "")):
        print(f"{name}: {statistics.median(values):.2f}{unit} ({min(values):.2f} to {max(values):.2f})")


if __name__ == "__main__":
    first_step() if "--step" in sys.argv else main()
