"""Times JAX's training steps: the maths of tests/golden/jax_steps.py, on random values. Answers as worker.py does.

Usage: jax_worker.py [PLUGIN]: the path of a PJRT plugin to run on, without one JAX's own CPU.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

if len(sys.argv) > 1:
    os.environ["JAX_PLATFORMS"] = "given"

import jax
import jax.numpy as jnp

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "golden"))
import jax_steps as golden


def values(*shape: int) -> jax.Array:
    return jax.random.normal(jax.random.key(len(shape) + sum(shape)), shape) * 0.05


def mlp() -> Callable[[], Any]:
    parameters = {"w0": values(64, 20), "b0": values(64), "w1": values(64, 64), "b1": values(64), "w2": values(10, 64), "b2": values(10)}
    x, target, rate = values(32, 20), jnp.zeros(32, jnp.int32), jnp.float32(0.05)
    step = jax.jit(golden.mlp_step, donate_argnums=0)

    def run() -> Any:
        nonlocal parameters
        parameters, loss = step(parameters, x, target, rate)
        return loss

    return run


def gpt() -> Callable[[], Any]:
    width = golden.WIDTH
    layer = {"n1.w": values(width), "n1.b": values(width), "n2.w": values(width), "n2.b": values(width), "qkv.w": values(3 * width, width), "qkv.b": values(3 * width),
             "out.w": values(width, width), "out.b": values(width), "up.w": values(4 * width, width), "up.b": values(4 * width), "down.w": values(width, 4 * width), "down.b": values(width)}  # fmt: skip
    p = {"tokens": values(golden.VOCABULARY, width), "positions": values(golden.CONTEXT, width), "norm.w": values(width), "norm.b": values(width), "layers": [layer] * golden.LAYERS}
    p = jax.tree.map(jnp.copy, p)  # each is donated
    m, v, number, rate = jax.tree.map(jnp.zeros_like, p), jax.tree.map(jnp.zeros_like, p), jnp.float32(1), jnp.float32(1e-3)
    tokens = jax.random.randint(jax.random.key(0), (golden.BATCH, golden.CONTEXT), 0, golden.VOCABULARY)
    step = jax.jit(golden.gpt_step, donate_argnums=(0, 1, 2))

    def run() -> Any:
        nonlocal p, m, v, number
        (p, m, v), number, loss = step(p, m, v, number, tokens, tokens, rate)
        return loss

    return run


STEPS = {"golden MLP step": (mlp, 100), "golden GPT step": (gpt, 20)}


def microseconds(name: str) -> float:
    """As workloads.training has it."""
    make, count = STEPS[name]
    run = make()
    for _ in range(5):
        loss = run()
    jax.block_until_ready(loss)
    best = float("inf")
    for _ in range(3):
        started = time.perf_counter()
        for _ in range(count):
            loss = run()
        jax.block_until_ready(loss)
        best = min(best, time.perf_counter() - started)
    return best / count * 1e6


def main() -> None:
    if len(sys.argv) > 1:
        from jax._src import xla_bridge

        xla_bridge.register_plugin("given", library_path=sys.argv[1])
    print(json.dumps({"jax": jax.__version__, "platform": jax.devices()[0].client.platform_version}), flush=True)
    for line in sys.stdin:
        _, workload = json.loads(line)
        print(json.dumps(microseconds(workload)), flush=True)


if __name__ == "__main__":
    main()
