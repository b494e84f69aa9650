"""torch_xla's module names over xla_go, for code that was written for torch_xla."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Sequence
from types import ModuleType

from xla_go._dynamo import config

# In place as soon as install() has run: a program reaches them as attributes of torch_xla.
_MODULES = {
    "torch_xla": "xla_go.compat.torch_xla",
    "torch_xla._XLAC": "xla_go.compat.xlac",
    "torch_xla._XLAC.lowering": "xla_go.compat.lowering",
    "torch_xla.runtime": "xla_go.compat.runtime",
    "torch_xla.core": "xla_go.compat.core",
    "torch_xla.core.xla_env_vars": "xla_go.compat.xla_env_vars",
    "torch_xla.core.xla_model": "xla_go.compat.xla_model",
    "torch_xla.distributed": "xla_go.compat.distributed",
    "torch_xla.distributed.parallel_loader": "xla_go.compat.parallel_loader",
    "torch_xla.distributed.spmd": "xla_go.compat.spmd",
    "torch_xla.distributed.spmd.api": "xla_go.compat.spmd",
    "torch_xla.distributed.spmd.debugging": "xla_go.compat.debugging",
    "torch_xla.distributed.spmd.xla_sharded_tensor": "xla_go.spmd.sharded_tensor",
    "torch_xla.distributed.spmd.xla_sharding": "xla_go.compat.spmd",
    "torch_xla.distributed.xla_multiprocessing": "xla_go.compat.xla_multiprocessing",
    "torch_xla.experimental": "xla_go.compat.experimental",
    "torch_xla.debug": "xla_go.compat.debug",
    "torch_xla.debug.metrics": "xla_go.metrics",
    "torch_xla.stablehlo": "xla_go.compat.stablehlo",
    "torch_xla.utils": "xla_go.compat.utils",
    "torch_xla.utils.utils": "xla_go.compat.utils.utils",
    "torch_xla._internal": "xla_go.compat.internal",
    "torch_xla.amp": "xla_go.compat.amp",
}

# Found when a program imports them.
_ON_IMPORT = {
    "torch_xla._dynamo": "xla_go.compat.dynamo",
    "torch_xla._dynamo.config": "xla_go._dynamo.config",
    "torch_xla._dynamo.dynamo_bridge": "xla_go.compat.dynamo_bridge",
    "torch_xla._internal.jax_workarounds": "xla_go.compat.internal.jax_workarounds",
    "torch_xla._internal.pjrt": "xla_go.compat.internal.pjrt",
    "torch_xla._internal.tpu": "xla_go.compat.internal.tpu",
    "torch_xla.backends": "xla_go.compat.backends",
    "torch_xla.core.dynamo_bridge": "xla_go.compat.dynamo_bridge",
    "torch_xla.core.functions": "xla_go.compat.functions",
    "torch_xla.core.xla_builder": "xla_go.compat.xla_builder",
    "torch_xla.core.xla_op_registry": "xla_go.compat.xla_op_registry",
    "torch_xla.debug.metrics_compare_utils": "xla_go.compat.metrics_compare_utils",
    "torch_xla.debug.model_comparator": "xla_go.compat.model_comparator",
    "torch_xla.debug.profiler": "xla_go.compat.profiler",
    "torch_xla.distributed.data_parallel": "xla_go.compat.data_parallel",
    "torch_xla.distributed.fsdp": "xla_go.compat.fsdp",
    "torch_xla.distributed.fsdp.utils": "xla_go.compat.fsdp.utils",
    "torch_xla.distributed.fsdp.wrap": "xla_go.compat.fsdp.wrap",
    "torch_xla.distributed.xla_backend": "xla_go.compat.xla_backend",
    "torch_xla.distributed.zero_redundancy_optimizer": "xla_go.compat.zero_redundancy_optimizer",
    "torch_xla.experimental.assume_pure": "xla_go.compat.assume_pure",
    "torch_xla.experimental.callback": "xla_go.compat.callback",
    "torch_xla.experimental.custom_kernel": "xla_go.compat.custom_kernel",
    "torch_xla.experimental.deprecation": "xla_go.compat.deprecation",
    "torch_xla.experimental.distributed_checkpoint": "xla_go.distributed.checkpoint",
    "torch_xla.experimental.dynamo_set_buffer_donor": "xla_go.compat.xlac",
    "torch_xla.experimental.eager": "xla_go.compat.eager",
    "torch_xla.experimental.fori_loop": "xla_go.compat.fori_loop",
    "torch_xla.experimental.gradient_accumulation": "xla_go.gradient_accumulation",
    "torch_xla.experimental.gru": "xla_go.compat.gru",
    "torch_xla.experimental.mark_pattern_utils": "xla_go.compat.mark_pattern_utils",
    "torch_xla.experimental.scan": "xla_go.scan",
    "torch_xla.experimental.scan_layers": "xla_go.scan_layers",
    "torch_xla.experimental.spmd_fully_sharded_data_parallel": "xla_go.spmd.fsdp",
    "torch_xla.experimental.stablehlo_custom_call": "xla_go.compat.stablehlo_custom_call",
    "torch_xla.experimental.xla_marker": "xla_go.compat.xla_marker",
    "torch_xla.experimental.xla_quantized_matmul": "xla_go.compat.xla_quantized_matmul",
    "torch_xla.test": "xla_go.compat.test",
    "torch_xla.test.test_utils": "xla_go.compat.test.test_utils",
    "torch_xla.utils.checkpoint": "xla_go.rematerialization",
    "torch_xla.utils.dlpack": "xla_go.compat.utils.dlpack",
    "torch_xla.utils.serialization": "xla_go.compat.utils.serialization",
    "torch_xla.utils.stablehlo_test_utils": "xla_go.compat.utils.stablehlo_test_utils",
}


class _Loader(importlib.abc.Loader):
    """Gives the module of another name."""

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        # The import system gives what lies here afterwards.
        sys.modules[module.__name__] = importlib.import_module(_ON_IMPORT[module.__name__])


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the modules below torch_xla that are imported when a program asks for them."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> importlib.machinery.ModuleSpec | None:
        return importlib.machinery.ModuleSpec(fullname, _Loader()) if fullname in _ON_IMPORT else None


_finder = _Finder()


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
    importlib.import_module("xla_go.compat._patched").apply()
    importlib.import_module("xla_go.compat._processes").follow()
    config.pad_sizes = False
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)


def installed() -> bool:
    """Whether `import torch_xla` gives xla_go's modules."""
    present = sys.modules.get("torch_xla")
    return present is not None and _is_ours(present)


def _is_ours(module: ModuleType) -> bool:
    return module.__name__.startswith("xla_go.")
