"""Programs as JAX writes them: what tests/testdata/jax holds is made by `python tests/jax_programs.py DIRECTORY`.

Of each program there is the text that `jax.jit(f).lower(*arguments).as_text()` gives, and an .npz file with its
arguments and JAX's results. An array of a type that numpy does not have by itself is kept as bytes, its type in its name.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np


def save(path: Path, arguments: list[Any], results: list[Any]) -> None:
    arrays = {}
    for kind, items in (("argument", arguments), ("result", results)):
        for number, item in enumerate(items):
            array = np.asarray(item)
            plain = array.dtype.type.__module__ == "numpy"
            arrays[f"{kind} {number} {array.dtype.name}"] = array if plain else array.view(np.dtype(f"u{array.itemsize}"))
    np.savez_compressed(path, **arrays)


def load(path: Path) -> tuple[list[np.ndarray[Any, Any]], list[np.ndarray[Any, Any]]]:
    """The arguments and the results."""
    found: dict[str, list[np.ndarray[Any, Any]]] = {"argument": [], "result": []}
    with np.load(path) as arrays:
        for name in arrays.files:
            kind, _, dtype = name.split()
            array = arrays[name]
            if array.dtype.name != dtype:
                import ml_dtypes

                array = array.view(getattr(ml_dtypes, dtype))
            found[kind].append(array)
    return found["argument"], found["result"]


def programs() -> dict[str, tuple[Callable[..., Any], list[Any]]]:
    """Functions and their arguments, by name. Needs JAX."""
    import jax
    import jax.numpy as jnp

    draw = np.random.default_rng(0)

    def normal(*shape: int) -> np.ndarray[Any, Any]:
        return draw.standard_normal(shape).astype(np.float32)

    def loss(parameters: Any, x: Any, labels: Any) -> Any:
        hidden = jax.nn.gelu(x @ parameters["w1"] + parameters["b1"])
        logits = hidden @ parameters["w2"] + parameters["b2"]
        return -jnp.mean(jax.nn.log_softmax(logits)[jnp.arange(x.shape[0]), labels])

    def training_step(w1: Any, b1: Any, w2: Any, b2: Any, x: Any, labels: Any) -> Any:
        parameters = {"w1": w1, "b1": b1, "w2": w2, "b2": b2}
        value, gradients = jax.value_and_grad(loss)(parameters, x, labels)
        return value, *(parameters[name] - 0.1 * gradients[name] for name in sorted(parameters))

    def convolution(image: Any, kernel: Any) -> Any:
        return jax.lax.conv_general_dilated(image, kernel, (1, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    def attention(q: Any, k: Any, v: Any) -> Any:
        scores = jnp.einsum("hqd,hkd->hqk", q, k) / np.sqrt(q.shape[-1])
        masked = jnp.where(jnp.tril(jnp.ones(scores.shape[-2:], bool)), scores, -jnp.inf)
        return jnp.einsum("hqk,hkd->hqd", jax.nn.softmax(masked), v)

    def fibonacci(n: Any) -> Any:
        return jax.lax.fori_loop(0, n, lambda _, pair: (pair[1], pair[0] + pair[1]), (jnp.int32(0), jnp.int32(1)))[0]

    def scan(initial: Any, steps: Any) -> Any:
        return jax.lax.scan(lambda state, step: (0.9 * state + step, jnp.tanh(state).sum()), initial, steps)

    def update(table: Any, rows: Any, values: Any) -> Any:
        order = jnp.argsort(values[:, 0])
        return table.at[rows].add(values), values[order], jnp.cumsum(values, axis=0)

    def random(seed: Any) -> Any:
        key = jax.random.PRNGKey(seed)
        return jax.random.normal(key, (5,)), jax.random.permutation(key, 7)

    bfloat16 = jnp.bfloat16
    return {
        "training_step": (training_step, [normal(6, 16), normal(16), normal(16, 3), normal(3), normal(8, 6), np.array([0, 1, 2, 0, 1, 2, 0, 1], np.int32)]),
        "convolution": (convolution, [normal(1, 8, 9, 2), normal(3, 3, 2, 4)]),
        "attention": (attention, [normal(2, 5, 4), normal(2, 5, 4), normal(2, 5, 4)]),
        "fibonacci": (fibonacci, [np.int32(20)]),
        "scan": (scan, [normal(4), normal(6, 4)]),
        "update": (update, [normal(6, 3), np.array([1, 4, 1], np.int32), normal(3, 3)]),
        "random": (random, [np.uint32(42)]),
        "bfloat16": (lambda x, y: (x @ y, x + y), [normal(4, 4).astype(bfloat16), normal(4, 4).astype(bfloat16)]),
        "float8": (lambda x: (x.astype(jnp.float8_e4m3fn), x.astype(jnp.float8_e5m2)), [normal(16)]),
        "complex": (lambda x: (jnp.fft.fft(x), jnp.abs(x * 1j + 2)), [normal(8).astype(np.complex64)]),
        "donation": (jax.jit(lambda x, y: (x + y, x * y), donate_argnums=0), [normal(4), normal(4)]),
    }


# The first argument of the sharded program is cut into this many pieces along its first dimension, for as many devices.
PARTS = 4


def write_sharded(directory: Path) -> None:
    """A program over several devices: the first argument in pieces, the second whole on each."""
    import jax
    from jax.sharding import NamedSharding, PartitionSpec

    mesh = jax.make_mesh((PARTS,), ("rows",))
    rows, whole = NamedSharding(mesh, PartitionSpec("rows")), NamedSharding(mesh, PartitionSpec())
    draw = np.random.default_rng(1)
    arguments = [draw.standard_normal((8, 3)).astype(np.float32), draw.standard_normal((3, 5)).astype(np.float32)]

    def product(x: Any, w: Any) -> Any:
        y = x @ w
        return y, y.sum(0)

    function = jax.jit(product, in_shardings=(rows, whole), out_shardings=(rows, whole))
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "sharded.mlir").write_text(function.lower(*arguments).as_text(), encoding="utf-8")
    save(directory / "sharded.npz", arguments, list(function(*arguments)))


def write(directory: Path) -> None:
    import jax

    jax.config.update("jax_num_cpu_devices", PARTS)
    jax.config.update("jax_hlo_source_file_canonicalization_regex", ".*/")  # names of files, without this machine's folders
    write_sharded(directory / "sharded")
    for name, (function, arguments) in programs().items():
        lowered = (function if hasattr(function, "lower") else jax.jit(function)).lower(*arguments)
        (directory / f"{name}.mlir").write_text(lowered.as_text(), encoding="utf-8")
        results = jax.tree.leaves(jax.jit(lambda *a, f=function: f(*a))(*arguments))
        save(directory / f"{name}.npz", arguments, results)
    pair = jax.jit(lambda x, y: (x + y, x * y)).lower(np.ones(4, np.float32), np.ones(4, np.float32))
    (directory / "pair.hlo").write_bytes(pair.compiler_ir("hlo").as_serialized_hlo_module_proto())
    (directory / "version.txt").write_text(f"jax {jax.__version__}\n", encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
