"""Bessel and Airy functions and the normal quantile on device xla."""

from __future__ import annotations

import math

import pytest
import torch
from oracle import check, check_error, moved

INFINITY = math.inf

# Range, and how far torch's own f64 kernel is off: its tables of some functions have about seven right digits.
RANGES = {
    "bessel_j0": (-60, 60, 1e-6), "bessel_j1": (-60, 60, 1e-6), "bessel_y0": (-1, 60, 1e-6), "bessel_y1": (-1, 60, 2e-6),
    "modified_bessel_i0": (-30, 30, 1e-12), "modified_bessel_i1": (-30, 30, 1e-12),
    "modified_bessel_k0": (-1, 60, 1e-12), "modified_bessel_k1": (-1, 60, 1e-12),
    "scaled_modified_bessel_k0": (-1, 60, 1e-12), "scaled_modified_bessel_k1": (-1, 60, 1e-12),
    "spherical_bessel_j0": (-60, 60, 1e-12), "airy_ai": (-20, 20, 5e-6), "ndtri": (-0.1, 1.1, 1e-12),
}  # fmt: skip


@pytest.mark.parametrize("name", RANGES)
def test_range(name):
    low, high, tolerance = RANGES[name]
    function = getattr(torch.special, name)
    x = torch.linspace(low, high, 1009, dtype=torch.float64)
    check(function, x, tolerance=(tolerance, tolerance))
    check(function, x.float(), tolerance=(2e-5, max(2e-6, 2 * tolerance)))


@pytest.mark.parametrize("name", RANGES)
def test_limits(name):
    function = getattr(torch.special, name)
    x = torch.tensor([math.nan, INFINITY, -INFINITY, 0.0, -0.0, 1.0, -1.0, 1e-300, 1e-3], dtype=torch.float64)
    tolerance = (RANGES[name][2], RANGES[name][2])
    check(function, x, tolerance=tolerance)
    check(function, torch.tensor([1, 0, 3]))
    check(function, torch.tensor(0.25, dtype=torch.float64), tolerance=tolerance)
    check(function, torch.empty(0, 3))
    for dtype in (torch.float16, torch.bfloat16, torch.complex64):
        check_error(function, torch.ones(2, dtype=dtype))


@pytest.mark.parametrize(
    ("name", "x", "value"),
    # Digits from arithmetic of 40 digits, where torch's own kernels have fewer right ones.
    [
        ("bessel_j0", 0.75, 0.864242275167), ("bessel_j0", 7.9, 0.194361844841), ("bessel_j0", 25.5, 0.144062157547),
        ("bessel_j1", 0.75, 0.349243602175), ("bessel_j1", 7.9, 0.219179399922), ("bessel_j1", 25.5, -0.0620485364915),
        ("bessel_y0", 0.75, -0.137172769386), ("bessel_y0", 7.9, 0.206520948144), ("bessel_y0", 25.5, -0.0648597654988),
        ("bessel_y1", 0.75, -1.03759455077), ("bessel_y1", 7.9, -0.181721077281), ("bessel_y1", 25.5, -0.145361058723),
        ("airy_ai", -15.25, 0.0992224596814), ("airy_ai", -3.5, -0.37553382314), ("airy_ai", 3.5, 0.00258409878699),
    ],
)  # fmt: skip
def test_digits(name, x, value):
    got = getattr(torch.special, name)(torch.tensor(x, dtype=torch.float64, device="xla"))
    assert got.item() == pytest.approx(value, abs=2e-12)


def test_out():
    x = torch.linspace(0.5, 9, 12).reshape(3, 4)
    out = torch.empty(4, 3, device="xla")
    torch.special.bessel_j0(moved(x.t()), out=out)
    torch.testing.assert_close(out.cpu(), torch.special.bessel_j0(x.t()), rtol=1e-5, atol=2e-6)


def test_small_probabilities():
    x = torch.logspace(-300, -0.01, 400, dtype=torch.float64)
    check(torch.special.ndtri, x, tolerance=(1e-13, 1e-15))
    check(torch.special.ndtri, torch.logspace(-37, -0.01, 400), tolerance=(1e-6, 1e-7))
