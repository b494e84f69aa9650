"""What importing torch_xla changes in torch."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch.nn.utils import clip_grad

from xla_go.recurrent import GRU


def apply() -> None:
    """Idempotent: torch.nn.GRU is xla_go.recurrent's, a loop on device xla, and `torch.nn.utils.clip_grad_norm_` gives its norm

    on the parameters' device where there are no gradients, too.
    """
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
