"""What `torch_xla.experimental.fori_loop` gives after `xla_go.compat.install()`: xla_go.loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from xla_go import loop
from xla_go.loop import while_loop

__all__ = ["fori_loop", "while_loop"]


def fori_loop(upper: Any, lower: Any, body_fun: Callable[..., Any], init_val: Any, *input_value: torch.Tensor) -> Any:
    """`state = body_fun(*state)` for as many rounds as lie between the bounds: (rounds left, last state). BLOCKING where the bounds are tensors.

    torch_xla's body does not see the round's number; that of xla_go.loop.fori_loop does.
    """
    state = init_val if isinstance(init_val, (list, tuple)) else (init_val,)
    lowest, highest = sorted(int(bound) for bound in (upper, lower))
    last = loop.fori_loop(lowest, highest, lambda _, *current: body_fun(*current), *state, *input_value)
    return torch.zeros((), dtype=torch.int64, device=state[0].device), last
