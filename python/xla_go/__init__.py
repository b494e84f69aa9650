"""PyTorch on any PJRT device: after `import torch, xla_go`, `device="xla"` works.

Importing registers the device with torch. The runtime and its plugin are loaded at the first device use. Where torch is not
installed, programs can still be run: `client` and `stablehlo` need none of it.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


def _refuse_interpreter() -> None:
    """Neither torch nor Go's runtime can be in a process twice, and both rely on the interpreter's lock."""
    if "t" in sys.abiflags:
        raise ImportError("xla_go: expected CPython with its global interpreter lock, got a free-threaded build (python3.Xt); use the ordinary build")
    for name in ("_interpreters", "_xxsubinterpreters"):
        if importlib.util.find_spec(name) is None:
            continue
        interpreters = importlib.import_module(name)
        current, main = interpreters.get_current(), interpreters.get_main()
        if current != main:
            raise ImportError("xla_go: expected the main interpreter, got a sub-interpreter; import xla_go in the main one, or start a process")
        break


_refuse_interpreter()

__version__ = importlib.metadata.version("xla-go")


def _is_command_line() -> bool:
    # `python -m xla_go` imports this package before its __main__. The doctor must be able to
    # run where the adapter cannot be loaded, and reports why, so registration is left to it.
    return sys.argv[:1] == ["-m"] and ("-m", "xla_go") in zip(sys.orig_argv, sys.orig_argv[1:], strict=False)


def _register() -> None:
    import xla_go._accuracy
    import xla_go._adapter
    import xla_go._device_module
    import xla_go._dynamo.registry
    import xla_go._step
    import xla_go._torch_patches

    xla_go._adapter.load()
    xla_go._torch_patches.apply()
    xla_go._device_module.register()
    xla_go._step.cut_after_optimizer_steps()
    xla_go._dynamo.registry.register()
    xla_go._accuracy.start()


# Whether there are tensors at all in this process.
_HAS_TORCH = importlib.util.find_spec("torch") is not None

if _HAS_TORCH and not _is_command_line():
    _register()

from xla_go import client, compat, coordinator, debug, errors, metrics, profiler, runtime, stablehlo  # noqa: E402
from xla_go._bucket import pad_to_bucket  # noqa: E402
from xla_go._compiles import strict  # noqa: E402
from xla_go._step import eager_mode, is_eager_mode, sync  # noqa: E402

if _HAS_TORCH and not _is_command_line():
    from xla_go import distributed, spmd
    from xla_go._jit import jit
    from xla_go._torch_dlpack import from_dlpack

__all__ = [
    "client",
    "compat",
    "coordinator",
    "debug",
    "device",
    "distributed",
    "eager_mode",
    "errors",
    "from_dlpack",
    "is_eager_mode",
    "jit",
    "manual_seed",
    "metrics",
    "pad_to_bucket",
    "profiler",
    "runtime",
    "spmd",
    "stablehlo",
    "strict",
    "sync",
]


def device(index: int | None = None) -> torch.device:
    """The torch.device of an xla device of this process: by default the running replica's, else the first. Does not start the runtime."""
    import torch

    from xla_go import _replica

    replica = _replica.current()
    return torch.device("xla", index if index is not None else replica.ordinal if replica else 0)


def manual_seed(seed: int) -> None:
    """Seeds the random numbers of every xla device. torch.manual_seed does so too."""
    from xla_go import _adapter

    _adapter.load().manual_seed(seed % 2**64)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


def __getattr__(name: str) -> Any:
    if name in __all__ and not _HAS_TORCH:
        raise AttributeError(f"xla_go.{name} needs torch, which is not installed: pip install torch")
    raise AttributeError(f"module 'xla_go' has no attribute {name!r}; it has {', '.join(__all__)}")
