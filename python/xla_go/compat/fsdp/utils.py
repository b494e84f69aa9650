"""What `torch_xla.distributed.fsdp.utils` gives after `xla_go.compat.install()`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import MethodType
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint, set_checkpoint_early_stop

from xla_go.compat._missing import attribute_error


def checkpoint_module(module: torch.nn.Module) -> torch.nn.Module:
    """The module, whose forward is computed again in the backward, instead of being kept, where an input requires a gradient."""
    forward = module.forward

    @functools.wraps(forward)
    def checkpointed(self: torch.nn.Module, *arguments: Any, **keywords: Any) -> Any:
        given = [*arguments, *keywords.values()]
        if any(isinstance(one, torch.Tensor) and one.requires_grad for one in given):
            with set_checkpoint_early_stop(False):  # what has effects in forward has them again, as with torch_xla
                return checkpoint(forward, *arguments, use_reentrant=False, **keywords)
        return forward(*arguments, **keywords)

    module.forward = MethodType(checkpointed, module)  # type: ignore[method-assign]
    return module


def apply_xla_patch_to_nn_linear(module: torch.nn.Module, patched_function: Callable[..., torch.Tensor] | None = None) -> torch.nn.Module:
    """The module, in which each torch.nn.Linear's forward is `patched_function(linear, input)`; by default spmd's, without a flattened product."""
    from xla_go.compat.spmd import xla_patched_nn_linear_forward

    function = patched_function or xla_patched_nn_linear_forward
    for one in module.modules():
        if isinstance(one, torch.nn.Linear):
            one.forward = MethodType(function, one)  # type: ignore[method-assign]
    return module


def __getattr__(name: str) -> Any:
    raise attribute_error("torch_xla.distributed.fsdp.utils", name)
