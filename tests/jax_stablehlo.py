"""Runs a program that `StableHLOProgram.save` wrote with JAX: `python jax_stablehlo.py DIRECTORY ARGUMENTS.npz RESULTS.npz`.

The arguments are arrays "0", "1", ... in the program's order; so are the results.
"""

from __future__ import annotations

import sys
from pathlib import Path

import jax
import numpy as np
from jax._src.interpreters import mlir
from jax._src.lib import xla_client
from jaxlib.mlir import ir


def main(directory: str, arguments: str, results: str) -> None:
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_default_matmul_precision", "highest")
    (device, *_) = jax.devices("cpu")
    with mlir.make_ir_context():
        module = ir.Module.parse((Path(directory) / "program.mlir").read_text(encoding="utf-8"))
        executable = device.client.compile_and_load(module, xla_client.DeviceList((device,)), xla_client.CompileOptions())
    with np.load(arguments) as arrays:
        given = [jax.device_put(arrays[str(i)], device) for i in range(len(arrays.files))]
    made = executable.execute_sharded(given).disassemble_into_single_device_arrays()
    np.savez(results, **{str(i): np.asarray(parts[0]) for i, parts in enumerate(made)})


if __name__ == "__main__":
    main(*sys.argv[1:])
