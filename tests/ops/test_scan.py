"""Running sums, products, extrema and log-sum-exps on device xla, compared with torch's CPU kernels."""

from __future__ import annotations

import pytest
import torch
from oracle import check, check_error

NAN, INF = float("nan"), float("inf")

SCANS = {
    "cumsum": torch.cumsum,
    "cumprod": torch.cumprod,
    "cummax": torch.cummax,
    "cummin": torch.cummin,
    "logcumsumexp": torch.logcumsumexp,
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int32, torch.bool], ids=str)
@pytest.mark.parametrize("size", [(), (5,), (3, 4), (2, 33), (40, 2), (0, 3)], ids=str)
def test_scan(size, dtype):
    x = torch.randint(-2, 3, size, generator=torch.Generator().manual_seed(1)).to(dtype)
    scans = [scan for name, scan in SCANS.items() if name != "logcumsumexp" or dtype.is_floating_point]
    check(lambda x: [scan(x, dim) for scan in scans for dim in (0, -1)], x)


@pytest.mark.parametrize("length", [1, 2, 16, 17, 32, 33, 48, 255, 256, 257, 4097])
def test_length(length):
    x = torch.linspace(0.8, 1.2, length, dtype=torch.float64)[
        torch.randperm(length, generator=torch.Generator().manual_seed(2))
    ]
    check(lambda x: [scan(x, 0) for scan in SCANS.values()], x)


@pytest.mark.parametrize("name", SCANS)
def test_gradient(name):
    x = torch.rand(3, 37, generator=torch.Generator().manual_seed(3), dtype=torch.float64) + 0.5
    check(lambda x: SCANS[name](x, 1), x.requires_grad_())


@pytest.mark.parametrize("name", SCANS)
def test_special_numbers(name):
    rows = [
        [1.0, NAN, 3.0, NAN, 4.0],
        [-INF, -INF, 1.0, INF, 2.0],
        [2.0, 2.0, 1.0, 1.0, 2.0],
        [INF, INF, -INF, 0.0, -0.0],
    ]
    check(lambda x: SCANS[name](x, 1), torch.tensor(rows))
    check(lambda x: SCANS[name](x, 0), torch.tensor(rows))


def test_variants():
    x = torch.arange(6, dtype=torch.int32).reshape(2, 3)
    check(lambda x: torch.cumsum(x, 0, dtype=torch.float64), x)
    check(lambda x: x.clone().cumsum_(1), x)
    check(lambda x: x.float().cumprod_(0), x)
    check(lambda x: torch.cumsum(x.mT, 0), x)
    check(lambda x: torch.cumsum(torch.complex(x.float(), -x.float()), 1), x)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.cumsum(2),
        lambda x: x.cummax(-3),
        lambda x: x.long().logcumsumexp(0),
        lambda x: torch.complex(x, x).cummin(0),
    ],
    ids=["dim outside", "dim below", "logcumsumexp of integers", "cummin of complex"],
)
def test_errors(function):
    check_error(function, torch.ones(2, 3))
