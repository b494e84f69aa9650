"""Incomplete gamma functions and the multivariate log-gamma function on device xla."""

from __future__ import annotations

import math

import pytest
import torch
from oracle import check, check_error

FUNCTIONS = [torch.igamma, torch.igammac]

# Small and large, on both sides of every change of method.
A = [1e-8, 1e-3, 0.1, 0.5, 1, 1.05, 2, 5, 7.9, 8, 19.9, 20, 20.1, 40, 200.5, 1e3, 1e5, 1e8]
RATIO = [1e-10, 1e-3, 0.1, 0.5, 0.69, 0.701, 0.9, 0.99, 0.9999, 1, 1.001, 1.1, 1.299, 1.301, 2, 5, 100]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_range(function):
    a, ratio = torch.tensor(A, dtype=torch.float64)[:, None], torch.tensor(RATIO, dtype=torch.float64)
    check(function, a, a * ratio, tolerance=(1e-9, 1e-9))  # torch is off by 4e-10
    x = torch.logspace(-6, 2, 30, dtype=torch.float64)
    check(function, a, x, tolerance=(1e-9, 1e-9))
    check(function, a.float(), x.float(), tolerance=(1e-5, 5e-6))


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_narrow_types(function, dtype):
    a, x = torch.linspace(0.1, 9, 8, dtype=dtype)[:, None], torch.linspace(0, 12, 9, dtype=dtype)
    check(function, a, x)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_limits(function):
    x = torch.tensor([math.nan, math.inf, -math.inf, 0.0, -0.0, -1.0, 2.0, 1e300], dtype=torch.float64)
    check(function, x[:, None], x, tolerance=(1e-9, 1e-9))
    check(function, torch.tensor(1.5), torch.tensor(2.5))
    check(function, torch.empty(0, 3), torch.ones(3))
    check(function, torch.ones(2), torch.ones(2, dtype=torch.float64))
    for dtype in (torch.int64, torch.bool, torch.complex64):
        check_error(function, torch.ones(2, dtype=dtype), torch.ones(2, dtype=dtype))


@pytest.mark.parametrize("function", FUNCTIONS)
def test_gradient(function):
    a = torch.tensor([0.3, 1.0, 4.5, 30.0, 250.0], dtype=torch.float64)[:, None]
    x = torch.tensor([0.2, 0.9, 5.0, 28.0, 260.0], dtype=torch.float64, requires_grad=True)
    check(function, a, x, tolerance=(1e-8, 1e-10))


@pytest.mark.parametrize("function", FUNCTIONS)
def test_variants(function):
    a, x = torch.rand(3, 4, generator=torch.Generator().manual_seed(3)) * 5, torch.full((4,), 2.5)
    check(lambda a, x: getattr(a.clone(), function.__name__ + "_")(x), a, x)
    check(
        lambda a, x: function(a, x, out=torch.empty(3, 4, dtype=torch.float64, device=a.device)),
        a,
        x,
        tolerance=(1e-5, 1e-6),
    )


@pytest.mark.parametrize("p", [1, 2, 5, 9])
def test_mvlgamma(p):
    x = torch.linspace(-3.1, 40, 101, dtype=torch.float64)
    check(lambda x: torch.mvlgamma(x, p), x, tolerance=(1e-10, 1e-11))
    above = torch.linspace(p / 2, 40, 50, dtype=torch.float64, requires_grad=True)
    check(lambda x: torch.mvlgamma(x, p), above, tolerance=(1e-9, 1e-10))


def test_mvlgamma_variants():
    x = torch.linspace(3, 12, 6).reshape(2, 3)
    check(lambda x: torch.mvlgamma(x, 3), x)
    check(lambda x: x.clone().mvlgamma_(3), x)
    check(lambda x: torch.mvlgamma(x, 3, out=torch.empty(2, 3, device=x.device)), x)
    check(lambda x: torch.mvlgamma(x, 2), torch.tensor([5, 7]))
    check(lambda x: torch.mvlgamma(x, 2), torch.tensor(5.5))
    check(lambda x: torch.mvlgamma(x, 2), torch.empty(0, 2))
    check(lambda x: torch.mvlgamma(x, 2), x.half(), tolerance=(4e-3, 1e-2))
    check_error(lambda x: torch.mvlgamma(x, 0), x)
    check_error(lambda x: torch.mvlgamma(x, 2), torch.tensor([True]))
