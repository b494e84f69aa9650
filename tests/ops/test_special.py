"""Special functions on device xla, compared with torch's CPU kernels over their whole range."""

from __future__ import annotations

import pytest
import torch
from oracle import check

# Where torch's own f32 kernel is off by more than this, the f64 one is the reference.
TIGHT = {torch.float32: (3e-6, 3e-7), torch.float64: (1e-12, 1e-13)}

RANGES = {
    "erf": (-6, 6), "erfc": (-6, 13), "erfinv": (-1, 1), "lgamma": (-9.7, 60), "digamma": (-9.7, 60), "i0": (-60, 60),
    "special.i0e": (-200, 200), "special.i1": (-60, 60), "special.i1e": (-200, 200), "special.entr": (-1, 9),
    "special.erfcx": (-5, 60), "special.log_ndtr": (-30, 9), "special.ndtr": (-9, 9),
}  # fmt: skip


def function(name: str):
    return getattr(torch.special, name[8:]) if name.startswith("special.") else getattr(torch, name)


@pytest.mark.parametrize("name", RANGES)
def test_range(name):
    low, high = RANGES[name]
    x = torch.linspace(low, high, 1009, dtype=torch.float64)
    check(function(name), x, tolerance=TIGHT[torch.float64])
    if name not in ("lgamma", "digamma"):  # these have zeros and poles, near which f32's argument is too coarse
        check(function(name), x.float(), tolerance=TIGHT[torch.float32])


@pytest.mark.parametrize("name", ["lgamma", "digamma"])
def test_gamma_single_precision(name):
    x = torch.linspace(0.05, 90, 1009)
    check(function(name), x, tolerance=(3e-6, 2e-6))


@pytest.mark.parametrize("name", RANGES)
def test_limits(name):
    values = [float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1.0, -1.0, -2.0, 1e-30, -1e-30, 1e30]
    if name == "special.log_ndtr":
        values = values[:-1]
    check(function(name), torch.tensor(values, dtype=torch.float64), tolerance=(1e-11, 0))


@pytest.mark.parametrize("n", [0, 1, 2, 3, 6])
def test_polygamma(n):
    x = torch.linspace(0.2, 20, 57, dtype=torch.float64)
    # torch's trigamma has few terms of its series: 5e-10 off.
    check(lambda x: torch.polygamma(n, x), x.requires_grad_(), tolerance=(1e-9, 1e-12))
    # At the poles torch's trigamma divides by a sine that is not quite 0.
    negative = torch.tensor([-0.3, -2.75, -7.1, *([] if n == 1 else [-1.0, 0.0])], dtype=torch.float64)
    check(lambda x: torch.polygamma(n, x), negative, tolerance=(1e-9, 1e-11))


def test_zeta():
    x = torch.tensor([0.5, 1.0, 1.5, 2.0, 3.0, 8.0, 40.0], dtype=torch.float64)
    q = torch.tensor([0.1, 0.7, 1.0, 2.5, 9.0, 30.0, -1.0, -0.5, -3.25], dtype=torch.float64)
    check(torch.special.zeta, x[:, None], q, tolerance=(1e-11, 1e-13))


@pytest.mark.parametrize("name", ["xlogy", "special.xlog1py", "logaddexp", "logaddexp2", "hypot", "atan2", "copysign"])
def test_two_arguments(name):
    values = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1.5, -2.25, 100.0], dtype=torch.float64)
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        check(function(name), values.to(dtype)[:, None], values.to(dtype))
    x = torch.tensor([0.4, 1.7, 2.2], dtype=torch.float64)
    check(function(name), x.clone().requires_grad_(), x.flip(0).requires_grad_())


def test_nextafter():
    values = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1.0, -1.0, 3.4e38])
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        check(torch.nextafter, values.to(dtype)[:, None], values.to(dtype), tolerance=(0, 0))
