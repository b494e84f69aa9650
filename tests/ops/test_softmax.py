"""Softmax and log_softmax on device xla, compared with torch's CPU kernels."""

from __future__ import annotations

import pytest
import torch
from oracle import check, check_error

NAN, INF = float("nan"), float("inf")

FUNCTIONS = {
    "softmax": torch.softmax,
    "log_softmax": torch.log_softmax,
    "safe softmax": torch.ops.aten._safe_softmax,
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize(
    ("size", "dim"),
    [((), 0), ((5,), -1), ((2, 3, 4), 0), ((2, 3, 4), 1), ((2, 3, 4), -1), ((0, 3), 0), ((3, 0), 0)],
    ids=str,
)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_softmax(name, size, dim, dtype):
    x = torch.randn(size, generator=torch.Generator().manual_seed(1), dtype=torch.float64) * 3
    check(lambda x: FUNCTIONS[name](x, dim), x.to(dtype).requires_grad_())


@pytest.mark.parametrize("name", FUNCTIONS)
def test_special_numbers(name):
    rows = [
        [-INF, -INF, -INF],
        [1.0, -INF, 2.0],
        [NAN, 1.0, 2.0],
        [INF, 1.0, 2.0],
        [1e30, -1e30, 0.0],
        [88.0, 89.0, 700.0],
    ]
    check(lambda x: FUNCTIONS[name](x, 1), torch.tensor(rows))


def test_dtype():
    x = torch.arange(6).reshape(2, 3)
    check(lambda x: torch.softmax(x, 1, dtype=torch.float32), x)
    check(lambda x: torch.log_softmax(x.half(), 0, dtype=torch.float32), x)
    check(lambda x: torch.softmax(x.float().mT, 0), x)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.softmax(2),
        lambda x: x.long().softmax(0),
        lambda x: x.long().softmax(1),
        lambda x: torch.complex(x, x).softmax(0),
    ],
    ids=["dim outside", "integers", "integers along the last dimension", "complex"],
)
def test_errors(function):
    check_error(function, torch.ones(2, 3))
