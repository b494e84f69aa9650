"""What importing torch_xla changes in torch."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch.nn import functional
from torch.nn.utils import clip_grad

from xla_go._dynamo.registry import after_import
from xla_go.recurrent import GRU


def apply() -> None:
    """Idempotent: torch.nn.GRU is xla_go.recurrent's, a loop on device xla, and `torch.nn.utils.clip_grad_norm_` gives its norm

    on the parameters' device where there are no gradients, too; classes that `cross_entropy` is given as floats count as integers.
    torch.compile takes sizes and floats as fixed unless it is told otherwise.
    """
    after_import("torch._dynamo.config", _fix_sizes_and_floats)
    torch.nn.GRU = torch.nn.modules.GRU = GRU  # type: ignore[misc]
    original = clip_grad.clip_grad_norm_
    if getattr(original, "_of_compat", False):
        return

    @functools.wraps(original)
    def clip_grad_norm_(parameters: Any, *arguments: Any, **keywords: Any) -> torch.Tensor:
        parameters = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
        norm = original(parameters, *arguments, **keywords)
        xla = next((one.device for one in parameters if one.device.type == "xla"), None)
        return norm if xla is None or norm.device.type == "xla" else norm.to(xla)

    clip_grad_norm_._of_compat = True  # type: ignore[attr-defined]
    clip_grad.clip_grad_norm_ = torch.nn.utils.clip_grad_norm_ = clip_grad_norm_

    of_integers = functional.cross_entropy

    @functools.wraps(of_integers)
    def cross_entropy(input: torch.Tensor, target: torch.Tensor, *arguments: Any, **keywords: Any) -> torch.Tensor:
        if target.device.type == "xla" and target.is_floating_point() and target.dim() == input.dim() - 1:
            target = target.long()  # of as many dimensions as input they are probabilities
        return of_integers(input, target, *arguments, **keywords)

    functional.cross_entropy = cross_entropy


_fixed = False


def _fix_sizes_and_floats() -> None:
    """Once, and before the program itself can set them otherwise."""
    global _fixed
    if not _fixed:
        from torch._dynamo import config

        config.automatic_dynamic_shapes, config.specialize_float = False, True
        _fixed = True
