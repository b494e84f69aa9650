"""Pooling on device xla, compared with torch's CPU kernels."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from oracle import check, check_error

FLOATS = [torch.float32, torch.float64, torch.bfloat16]
aten = torch.ops.aten


def make(*size: int, dtype: torch.dtype = torch.float32, ties: bool = False) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(size))
    if ties:
        return torch.randint(-2, 3, size, generator=generator).to(dtype)
    return torch.randn(size, generator=generator, dtype=torch.float64).to(dtype).requires_grad_()


MAX_CASES = [
    dict(kernel_size=2),
    dict(kernel_size=3, stride=2, padding=1),
    dict(kernel_size=3, stride=1, padding=1, dilation=2),
    dict(kernel_size=2, stride=3, ceil_mode=True),
    dict(kernel_size=3, stride=2, padding=1, ceil_mode=True),
]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("case", MAX_CASES, ids=str)
@pytest.mark.parametrize("spatial", [1, 2, 3])
def test_max_pool(spatial, case, dtype):
    function = [F.max_pool1d, F.max_pool2d, F.max_pool3d][spatial - 1]
    x, y = (make(*size, *[9, 8, 7][:spatial], dtype=dtype) for size in [(2, 3), (3,)])
    check(lambda x, y: [function(t, return_indices=True, **case) for t in (x, y)], x, y)


@pytest.mark.parametrize("case", MAX_CASES, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.uint8])
def test_max_pool_ties_and_types(dtype, case):
    x = make(2, 9, 8, ties=True).abs().to(dtype) if dtype == torch.uint8 else make(2, 9, 8, ties=True, dtype=dtype)
    check(lambda x: F.max_pool2d(x, return_indices=True, **case), x)


def test_max_pool_nan_and_infinity():
    x = make(2, 9, 8).detach()
    x[0, 2, 3] = x[0, 2, 4] = x[1, 0, 0] = float("nan")
    x[1, 4:, 4:] = -float("inf")
    x[0, 7, 7] = float("inf")
    x.requires_grad_()
    cases = [*MAX_CASES, dict(kernel_size=6, stride=3), dict(kernel_size=(6, 7), stride=2, padding=(2, 3))]
    check(lambda x: [F.max_pool2d(x, return_indices=True, **case) for case in cases], x)


@pytest.mark.parametrize("dtype", FLOATS)
def test_max_pool_large_window(dtype):
    check(lambda x: F.max_pool2d(x, 7, 3, padding=2, return_indices=True), make(2, 3, 17, 15, dtype=dtype))
    check(lambda x: F.max_pool2d(x, 6, 2, dilation=2, return_indices=True), make(2, 15, 14, ties=True, dtype=dtype))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("spatial", [1, 2, 3])
def test_unpool(spatial, dtype):
    pool, unpool = [(F.max_pool1d, F.max_unpool1d), (F.max_pool2d, F.max_unpool2d), (F.max_pool3d, F.max_unpool3d)][spatial - 1]

    def round_trip(x):
        y, at = pool(x, 2, return_indices=True)
        return unpool(y, at, 2)

    check(round_trip, make(2, 3, *[8, 6, 4][:spatial], dtype=dtype))


AVG_CASES = [
    dict(kernel_size=2),
    dict(kernel_size=3, stride=2, padding=1),
    dict(kernel_size=3, stride=2, padding=1, count_include_pad=False),
    dict(kernel_size=3, stride=2, ceil_mode=True),
    dict(kernel_size=3, stride=2, padding=1, ceil_mode=True),
    dict(kernel_size=2, stride=3, ceil_mode=True, count_include_pad=False),
]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("case", AVG_CASES, ids=str)
@pytest.mark.parametrize("spatial", [1, 2, 3])
def test_avg_pool(spatial, case, dtype):
    if spatial == 3 and dtype == torch.bfloat16:
        pytest.skip("torch's CPU kernel does not have it")
    function = [F.avg_pool1d, F.avg_pool2d, F.avg_pool3d][spatial - 1]
    x, y = (make(*size, *[9, 8, 7][:spatial], dtype=dtype) for size in [(2, 3), (3,)])
    check(lambda x, y: [function(t, **case) for t in (x, y)], x, y)


def test_avg_pool_divisor_and_integers():
    check(lambda x: F.avg_pool2d(x, 3, 2, 1, divisor_override=5), make(2, 3, 9, 8))
    check(lambda x: F.avg_pool3d(x, 2, divisor_override=-3), make(2, 3, 4, 4, 4))
    check(lambda x: F.avg_pool2d(x, 2), make(2, 6, 6, ties=True, dtype=torch.int64))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("size", [(2, 3, 8, 6), (3, 7, 5)])
def test_adaptive_2d(size, dtype):
    outputs = [1, (2, 3), (4, None), (5, 7), (3, 2), (12, 9)]
    check(lambda x: [F.adaptive_avg_pool2d(x, out) for out in outputs], make(*size, dtype=dtype))
    check(lambda x: [F.adaptive_max_pool2d(x, out, return_indices=True) for out in outputs], make(*size, dtype=dtype))


def test_adaptive_3d():
    outputs = [1, 2, (3, 2, 4), (1, None, 5)]
    check(lambda x: [F.adaptive_avg_pool3d(x, out) for out in outputs], make(2, 3, 6, 5, 4))
    check(lambda x: [F.adaptive_max_pool3d(x, out, return_indices=True) for out in outputs], make(2, 3, 6, 5, 4))


def test_adaptive_1d():
    outputs = [1, 2, 3, 7]
    check(lambda x: [F.adaptive_avg_pool1d(x, out) for out in outputs], make(2, 3, 7))
    check(lambda x: [F.adaptive_max_pool1d(x, out, return_indices=True) for out in outputs], make(2, 3, 7))


def test_adaptive_special_values():
    x = make(2, 7, 5).detach()
    x[0, 3, 3], x[1, 0, 0], x[1, 6, 4] = float("nan"), float("inf"), -float("inf")
    x.requires_grad_()
    check(lambda x: F.adaptive_avg_pool2d(x, (3, 2)), x)
    check(lambda x: F.adaptive_max_pool2d(x, (3, 2), return_indices=True), x)


def test_empty():
    functions = [F.max_pool2d, F.avg_pool2d, F.adaptive_avg_pool2d, F.adaptive_max_pool2d]
    check(lambda x: [function(x, 2) for function in functions], make(0, 1, 5, 5))
    check(lambda x: F.adaptive_avg_pool2d(x, 0), make(1, 5, 5).detach())
    check_error(lambda x: F.adaptive_avg_pool2d(x, 0).sum().backward(), make(1, 5, 5))


@pytest.mark.parametrize(
    ("function", "size", "arguments"),
    [
        (F.max_pool2d, (1, 5, 5), (0,)),
        (F.max_pool2d, (1, 5, 5), (2, 0)),
        (F.max_pool2d, (1, 5, 5), (2, 1, 2)),
        (F.max_pool2d, (1, 5, 5), (2, 1, -1)),
        (F.max_pool2d, (1, 5, 5), (2, 1, 0, 0)),
        (F.max_pool2d, (1, 5, 5), ([2, 2, 2],)),
        (F.max_pool2d, (1, 5, 5), (2, [1, 1, 1])),
        (F.max_pool2d, (1, 5, 5), (2, 1, [0, 0, 0])),
        (F.max_pool2d, (1, 5, 5), (2, 1, 0, [1, 1, 1])),
        (F.max_pool2d, (5, 5), (2,)),
        (F.max_pool2d, (1, 0, 5, 5), (2,)),
        (F.max_pool2d, (1, 1, 1, 5), (2,)),
        (F.max_pool3d, (1, 5, 5, 5), ([2, 2],)),
        (F.max_pool3d, (5, 5, 5), (2,)),
        (F.max_pool3d, (1, 5, 5, 1), (2,)),
        (F.max_pool3d, (1, 0, 5, 5, 5), (2,)),
        (F.avg_pool2d, (1, 5, 5), (0,)),
        (F.avg_pool2d, (1, 5, 5), (2, 1, 2)),
        (F.avg_pool2d, (1, 5, 5), ([2, 2, 2],)),
        (F.avg_pool2d, (1, 5, 5), (2, 1, 0, False, True, 0)),
        (F.avg_pool2d, (1, 1, 5), (2,)),
        (F.avg_pool2d, (5, 5), (2,)),
        (F.avg_pool3d, (1, 5, 5, 5), ([2, 2],)),
        (F.avg_pool3d, (1, 5, 5, 5), (2, [1, 1])),
        (F.avg_pool3d, (1, 5, 5, 1), (2,)),
        (F.avg_pool3d, (5, 5, 5), (2,)),
        (F.adaptive_avg_pool2d, (5, 5), (2,)),
        (F.adaptive_avg_pool2d, (1, 0, 5), (2,)),
        (F.adaptive_avg_pool3d, (5, 5, 5), (2,)),
        (F.adaptive_max_pool2d, (5, 5), (2,)),
        (F.adaptive_max_pool2d, (1, 5, 0), (2,)),
        (F.adaptive_max_pool3d, (1, 5, 5, 0), (2,)),
        (aten._adaptive_avg_pool2d, (1, 1, 5, 5), ([2],)),
        (aten.adaptive_max_pool2d, (1, 5, 5), ([2],)),
    ],
)
def test_error(function, size, arguments):
    check_error(lambda x: function(x, *arguments), torch.zeros(size))


@pytest.mark.parametrize("function", [F.max_pool2d, F.avg_pool2d, F.adaptive_avg_pool2d, F.adaptive_max_pool2d])
def test_bool_error(function):
    check_error(lambda x: function(x, 2), torch.zeros(1, 4, 4, dtype=torch.bool))
