"""Orthogonal polynomials on device xla."""

from __future__ import annotations

import math

import pytest
import torch
from oracle import check, check_error

CHEBYSHEV = [f"{prefix}chebyshev_polynomial_{kind}" for prefix in ("", "shifted_") for kind in "tuvw"]
NAMES = [*CHEBYSHEV, "hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p"]


@pytest.mark.parametrize("name", NAMES)
def test_values(name):
    function = getattr(torch.special, name)
    x = torch.linspace(-2, 2, 17, dtype=torch.float64)[:, None]
    n = torch.tensor([-3, -0.5, 0, 0.9, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 13, 40, 129], dtype=torch.float64)
    check(function, x, n, tolerance=(1e-10, 1e-12))
    check(function, x.float(), n[:14].float(), tolerance=(1e-5, 1e-5))


@pytest.mark.parametrize("name", NAMES)
def test_limits(name):
    function = getattr(torch.special, name)
    x = torch.tensor([math.nan, math.inf, -math.inf, 0.0, 0.25, 1.0, -1.0, 50.0], dtype=torch.float64)[:, None]
    n = torch.tensor([0, 1, 2, 5, 9, 127, 128, 129, 511, 512, 513, 900, math.nan], dtype=torch.float64)
    check(function, x, n, tolerance=(1e-10, 1e-11))


@pytest.mark.parametrize("name", NAMES)
def test_arguments(name):
    function = getattr(torch.special, name)
    x, n = torch.tensor([0.5, 0.25, 0.9]), torch.tensor([2, 3, 11])
    check(function, x, n)
    check(function, torch.tensor([0, 1, 2]), n)
    check(lambda n: function(0.5, n), n)
    check(lambda x: function(x, 4), x)
    check(lambda x: function(x, 4), torch.tensor(0.3, dtype=torch.float64))
    check(function, torch.empty(0, 3), n)
    check(
        lambda x, n: function(x, n, out=torch.empty(3, dtype=torch.float64, device=x.device)),
        x,
        n,
        tolerance=(1e-5, 1e-6),
    )
    for dtype in (torch.float16, torch.bfloat16):
        check_error(function, torch.ones(2, dtype=dtype), torch.ones(2, dtype=dtype))


@pytest.mark.parametrize("name", [name for name in CHEBYSHEV if name.endswith("t")])
def test_large_degree(name):
    """Within [-1, 1] the time does not grow with the degree."""
    x = torch.tensor([0.0, 1.0, 0.5], dtype=torch.float64)
    check(getattr(torch.special, name), x, torch.tensor(10**9, dtype=torch.float64), tolerance=(1e-6, 1e-6))
