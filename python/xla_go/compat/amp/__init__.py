"""What `torch_xla.amp` gives after `xla_go.compat.install()`: torch's own autocast and gradient scaler, on device xla."""

from __future__ import annotations

import warnings
from typing import Any

import torch

from xla_go import runtime


class autocast(torch.autocast):
    """torch.autocast on the device's type: "xla" for a device of ours. bfloat16 by default, as float16 is slow but on a GPU."""

    def __init__(self, device: Any = "xla", enabled: bool = True, dtype: torch.dtype | None = None, cache_enabled: bool = True) -> None:
        kind = torch.device(device).type
        if kind == "xla" and enabled and runtime.device_type() == "CPU" and dtype not in (None, torch.bfloat16):
            warnings.warn(f"autocast(): {dtype} is computed in float32 and rounded on this device: torch.bfloat16 has a wider range", stacklevel=2)
        super().__init__(kind, dtype=dtype or torch.bfloat16, enabled=enabled, cache_enabled=cache_enabled)


class GradScaler(torch.amp.GradScaler):
    """torch.amp.GradScaler on device xla."""

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
        use_zero_grad: bool = False,
    ) -> None:
        super().__init__("xla", init_scale, growth_factor, backoff_factor, growth_interval, enabled)
        if use_zero_grad:
            warnings.warn("GradScaler(): use_zero_grad changes nothing: a skipped step leaves parameters as they are", stacklevel=2)
