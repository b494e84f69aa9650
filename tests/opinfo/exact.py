"""Entries whose float64 kernel on the CPU is not a yardstick: their functions and derivatives to more digits.

The table is data: an entry is in it where the CPU's own results have fewer right digits than torch's tolerance for float64 asks
for. The device's result is then compared with that of the entry's exact function, as it is with float64's for narrower types.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from functools import partial
from typing import Any

import mpmath
import torch

DIGITS = 40

# f(x) and f'(x); the CPU's kernels of these have about seven right digits beyond 5.
FUNCTIONS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "special.bessel_j0": (partial(mpmath.besselj, 0), partial(mpmath.besselj, 0, derivative=1)),
    "special.bessel_j1": (partial(mpmath.besselj, 1), partial(mpmath.besselj, 1, derivative=1)),
    "special.bessel_y0": (partial(mpmath.bessely, 0), lambda x: -mpmath.bessely(1, x)),
    "special.bessel_y1": (partial(mpmath.bessely, 1), lambda x: mpmath.bessely(0, x) - mpmath.bessely(1, x) / x),
}


def elementwise(function: Callable[[Any], Any], x: torch.Tensor) -> torch.Tensor:
    """The real function of every element; NaN where it has no real value, infinite at a pole."""

    def value(number: float) -> float:
        try:
            y = function(mpmath.mpf(number))
        except ZeroDivisionError:
            return float("nan")
        return float(y) if isinstance(y, mpmath.mpf) else float("nan")

    with mpmath.workdps(DIGITS):
        return torch.tensor([value(n) for n in x.detach().double().flatten().tolist()], dtype=torch.float64).reshape(x.shape)


class _Exact(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, name: str) -> torch.Tensor:
        ctx.save_for_backward(x)
        ctx.name = name
        return elementwise(FUNCTIONS[name][0], x)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        (x,) = ctx.saved_tensors
        return gradients[0] * elementwise(FUNCTIONS[ctx.name][1], x), None


def operator(op: Any) -> Any:
    """The entry with its exact function, for calls on the CPU; None where the table has none."""
    if op.name == "nn.functional.linear_cross_entropy":  # its options say how sums are made of narrower types; float64 refuses them
        return types.SimpleNamespace(name=op.name, full_name=op.full_name, op=lambda *arguments, options=None, **keywords: op.op(*arguments, **keywords))
    if op.full_name not in FUNCTIONS:
        return None

    def call(x: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
        y = _Exact.apply(x, op.full_name)
        return y if out is None else out.copy_(y)

    return types.SimpleNamespace(name=op.name, full_name=op.full_name, op=call)
