"""The training steps of steps.py in JAX, and the opcodes that XLA leaves of them.

Run in the peers' environment: `python jax_steps.py > jax_opcodes.json`. The maths is the same as in
steps.py: an MLP with SGD, a GPT with AdamW, losses and parameters as results, parameters donated.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

Parameters = dict[str, Any]

VOCABULARY, CONTEXT, WIDTH, HEADS, LAYERS, BATCH = 64, 32, 64, 4, 2, 8


def cross_entropy(logits: jax.Array, target: jax.Array) -> jax.Array:
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), target[:, None], 1).mean()


def mlp_loss(p: Parameters, x: jax.Array, target: jax.Array) -> jax.Array:
    x = jax.nn.relu(x @ p["w0"].T + p["b0"])
    x = jax.nn.relu(x @ p["w1"].T + p["b1"])
    return cross_entropy(x @ p["w2"].T + p["b2"], target)


def mlp_step(p: Parameters, x: jax.Array, target: jax.Array, rate: jax.Array) -> tuple[Parameters, jax.Array]:
    loss, gradient = jax.value_and_grad(mlp_loss)(p, x, target)
    return jax.tree.map(lambda w, g: w - rate * g, p, gradient), loss


def layer_norm(x: jax.Array, weight: jax.Array, bias: jax.Array) -> jax.Array:
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * weight + bias


def attention(x: jax.Array, p: Parameters) -> jax.Array:
    batch, length, width = x.shape
    qkv = (x @ p["qkv.w"].T + p["qkv.b"]).reshape(batch, length, 3, HEADS, width // HEADS).transpose(2, 0, 3, 1, 4)
    q, k, v = qkv[0], qkv[1], qkv[2]
    scores = (q @ k.swapaxes(-1, -2)) / (width // HEADS) ** 0.5
    scores = jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, -jnp.inf)
    y = (jax.nn.softmax(scores) @ v).transpose(0, 2, 1, 3).reshape(batch, length, width)
    return y @ p["out.w"].T + p["out.b"]


def gpt_loss(p: Parameters, tokens: jax.Array, target: jax.Array) -> jax.Array:
    x = p["tokens"][tokens] + p["positions"]
    for layer in p["layers"]:
        x = x + attention(layer_norm(x, layer["n1.w"], layer["n1.b"]), layer)
        h = layer_norm(x, layer["n2.w"], layer["n2.b"])
        x = x + jax.nn.gelu(h @ layer["up.w"].T + layer["up.b"], approximate=False) @ layer["down.w"].T + layer["down.b"]
    x = layer_norm(x, p["norm.w"], p["norm.b"])
    return cross_entropy((x @ p["tokens"].T).reshape(-1, VOCABULARY), target.reshape(-1))


def adamw(p: jax.Array, g: jax.Array, m: jax.Array, v: jax.Array, step: jax.Array, rate: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    p = p * (1 - rate * 0.01)
    m = m + (g - m) * 0.1
    v = v * 0.999 + g * g * 0.001
    correction = jnp.sqrt(1 - 0.999**step)
    return p - rate / (1 - 0.9**step) * m / (jnp.sqrt(v) / correction + 1e-8), m, v


def gpt_step(p: Parameters, m: Parameters, v: Parameters, step: jax.Array, tokens: jax.Array, target: jax.Array, rate: jax.Array) -> Any:
    loss, gradient = jax.value_and_grad(gpt_loss)(p, tokens, target)
    flat, tree = jax.tree.flatten(p)
    new = [adamw(*leaves, step, rate) for leaves in zip(flat, jax.tree.leaves(gradient), jax.tree.leaves(m), jax.tree.leaves(v), strict=True)]
    return tuple(jax.tree.unflatten(tree, [n[i] for n in new]) for i in range(3)), step + 1, loss


def opcodes(step: Callable[..., Any], donate: tuple[int, ...], *arguments: Any) -> dict[str, int]:
    text = jax.jit(step, donate_argnums=donate).lower(*arguments).compile().as_text()
    return dict(sorted(Counter(re.findall(r"= (?:\([^=]*?\)|\S+) ([a-z][a-z0-9-]*)\(", text)).items()))


def main() -> None:
    zeros = jnp.zeros
    mlp = {"w0": zeros((64, 20)), "b0": zeros(64), "w1": zeros((64, 64)), "b1": zeros(64), "w2": zeros((10, 64)), "b2": zeros(10)}
    layer = {"n1.w": zeros(WIDTH), "n1.b": zeros(WIDTH), "n2.w": zeros(WIDTH), "n2.b": zeros(WIDTH), "qkv.w": zeros((3 * WIDTH, WIDTH)), "qkv.b": zeros(3 * WIDTH),
             "out.w": zeros((WIDTH, WIDTH)), "out.b": zeros(WIDTH), "up.w": zeros((4 * WIDTH, WIDTH)), "up.b": zeros(4 * WIDTH), "down.w": zeros((WIDTH, 4 * WIDTH)), "down.b": zeros(WIDTH)}
    gpt = {"tokens": zeros((VOCABULARY, WIDTH)), "positions": zeros((CONTEXT, WIDTH)), "norm.w": zeros(WIDTH), "norm.b": zeros(WIDTH), "layers": [dict(layer) for _ in range(LAYERS)]}
    number, rate = jnp.float32(1), jnp.float32(1e-3)
    tokens = zeros((BATCH, CONTEXT), jnp.int32)
    counts = {
        "jax": jax.__version__,
        "mlp": opcodes(mlp_step, (0,), mlp, zeros((32, 20)), zeros(32, jnp.int32), rate),
        "gpt": opcodes(gpt_step, (0, 1, 2), gpt, gpt, gpt, number, tokens, tokens, rate),
    }
    json.dump(counts, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
