"""torch_xla's module names over xla_go, for code that was written for torch_xla."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

_MODULES = {
    "torch_xla": "xla_go.compat.torch_xla",
    "torch_xla._XLAC": "xla_go.compat.xlac",
    "torch_xla.runtime": "xla_go.compat.runtime",
    "torch_xla.core": "xla_go.compat.core",
    "torch_xla.core.xla_model": "xla_go.compat.xla_model",
    "torch_xla.distributed": "xla_go.compat.distributed",
    "torch_xla.distributed.parallel_loader": "xla_go.compat.parallel_loader",
    "torch_xla.distributed.spmd": "xla_go.compat.spmd",
    "torch_xla.distributed.spmd.api": "xla_go.compat.spmd",
    "torch_xla.distributed.spmd.xla_sharding": "xla_go.compat.spmd",
    "torch_xla.distributed.xla_multiprocessing": "xla_go.compat.xla_multiprocessing",
    "torch_xla.experimental": "xla_go.compat.experimental",
    "torch_xla.experimental.distributed_checkpoint": "xla_go.distributed.checkpoint",
    "torch_xla.experimental.spmd_fully_sharded_data_parallel": "xla_go.spmd.fsdp",
    "torch_xla.debug": "xla_go.compat.debug",
    "torch_xla.debug.metrics": "xla_go.metrics",
}


def install() -> None:
    """Makes `import torch_xla` and the modules below it give xla_go's. Idempotent.

    Raises RuntimeError where the real torch_xla has been imported: the two cannot live in one process.
    """
    present = sys.modules.get("torch_xla")
    if present is not None and not _is_ours(present):
        raise RuntimeError("compat.install(): expected torch_xla not to be imported, got the real one; remove it from this process")
    for name, source in _MODULES.items():
        sys.modules[name] = importlib.import_module(source)
    for name in _MODULES:
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], child, sys.modules[name])


def installed() -> bool:
    """Whether `import torch_xla` gives xla_go's modules."""
    present = sys.modules.get("torch_xla")
    return present is not None and _is_ours(present)


def _is_ours(module: ModuleType) -> bool:
    return module.__name__.startswith("xla_go.")
