"""Sorting and searching, compared with torch's CPU kernels."""

from __future__ import annotations

import math

import pytest
import torch
from oracle import check, check_error

NUMBERS = [torch.float32, torch.bfloat16, torch.float64, torch.int64, torch.int8, torch.uint8]


def distinct(*size: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Numbers of which no two in the tensor are equal, so that every order is the only one."""
    n = math.prod(size)
    x = torch.randperm(n, generator=torch.Generator().manual_seed(n)).reshape(size)
    return (x - (0 if dtype == torch.uint8 else n // 2)).to(dtype).requires_grad_(dtype.is_floating_point)


SPECIAL = torch.tensor([2.0, math.nan, -math.inf, 0.0, math.inf, -0.0, math.nan, 1.0])


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("descending", [False, True])
def test_sort(descending, dtype):
    for dim in (0, 1, -1):
        check(lambda x, d=dim: torch.sort(x, d, descending), distinct(3, 4, 5, dtype=dtype))
    equal = torch.tensor([[2, 1, 2, 1, 1], [0, 0, 0, 0, 0]], dtype=dtype)
    check(lambda x: torch.sort(x, stable=True, descending=descending), equal)
    check(lambda x: torch.argsort(x, stable=True, descending=descending), equal)


def test_sort_edges():
    for descending in (False, True):
        check(lambda x, d=descending: torch.sort(x, stable=True, descending=d), SPECIAL)
        check(lambda x, d=descending: torch.sort(x, stable=True, descending=d), SPECIAL.bfloat16())
        check(lambda x, d=descending: torch.sort(x, stable=True, descending=d), torch.tensor([True, False, True, False]))
    check(torch.sort, torch.tensor(1.5))
    check(lambda x: torch.sort(x, 0), torch.empty(0, 3))
    check(lambda x: torch.sort(x, 1), torch.empty(0, 3))
    check(torch.msort, distinct(4, 3))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8])
@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize("k", [0, 1, 3, 4])
def test_topk(k, largest, dtype):
    check(lambda x: torch.topk(x, k, 1, largest), distinct(3, 4, 5, dtype=dtype))
    check(lambda x: torch.topk(x, k, -1, largest), distinct(3, 4, dtype=dtype))


def test_topk_edges():
    check(lambda x: torch.topk(x, 1), torch.tensor(1.5))
    check(lambda x: torch.topk(x, 3).values, SPECIAL)
    check(lambda x: torch.topk(x, 3).values, -SPECIAL)
    x = torch.tensor([-0.0, -1.0, -2.0])
    assert torch.signbit(torch.topk(x.to("xla"), 1).values.cpu()).all()
    check(lambda x: torch.topk(x, 3, largest=False).values, SPECIAL)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.uint8])
@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("n", [0, 1, 2, 16, 17])
def test_searchsorted(n, right, dtype):
    edges = torch.arange(n).mul(2).to(dtype)
    values = torch.tensor([[0, 1, 2, 30], [31, 32, 33, 8]]).to(dtype)
    check(lambda e, v: torch.searchsorted(e, v, right=right), edges, values)
    check(lambda e, v: torch.searchsorted(e, v, right=right, out_int32=True), edges.repeat(2, 1), values)
    check(lambda e, v: torch.bucketize(v, e, right=right), edges, values)


def test_searchsorted_edges():
    edges = torch.tensor([0.0, 1.0, 1.0, 2.0, math.inf, math.nan])
    check(torch.searchsorted, edges, SPECIAL)
    check(lambda e, v: torch.searchsorted(e, v, side="right"), edges, SPECIAL)
    check(lambda e: torch.searchsorted(e, 1), edges)
    check(lambda e: torch.searchsorted(e, 1.5), torch.arange(4))
    check(lambda e: torch.bucketize(1.0, e, right=True), edges)
    check(torch.searchsorted, torch.arange(4), torch.tensor([0.5, 2.5]))
    unsorted = torch.tensor([[3.0, 1.0, 2.0], [6.0, 5.0, 4.0]])
    check(lambda e, v: torch.searchsorted(e, v, sorter=torch.argsort(e)), unsorted, torch.tensor([[2.0], [5.5]]))


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("tests", [0, 3, 100])
@pytest.mark.parametrize("invert", [False, True])
def test_isin(invert, tests, dtype):
    x, y = torch.arange(12).reshape(3, 4).to(dtype), torch.arange(tests).mul(3).to(dtype)
    check(lambda x, y: torch.isin(x, y, invert=invert), x, y)
    check(lambda x: torch.isin(x, 1, invert=invert), x)
    check(lambda y: torch.isin(3, y, invert=invert), y)


def test_isin_edges():
    check(torch.isin, SPECIAL, torch.tensor([math.nan, 0.0, math.inf]))
    check(torch.isin, SPECIAL, SPECIAL.repeat(20))
    check(torch.isin, torch.tensor(2), torch.tensor([1.5, 2.0]))


def test_repeat_interleave():
    repeats = torch.tensor([2, 0, 3, 1])
    check(lambda x, r: torch.repeat_interleave(x, r, 0, output_size=6), distinct(4, 3), repeats)
    check(lambda r: torch.repeat_interleave(r, output_size=6), repeats)


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (lambda x: torch.sort(x, 2), (distinct(3, 4),)),
        (lambda x: torch.topk(x, 5), (distinct(3, 4),)),
        (lambda x: torch.topk(x, -1), (distinct(3, 4),)),
        (lambda x: torch.topk(x, 2), (torch.tensor(1.0),)),
        (torch.searchsorted, (distinct(3, 4), distinct(4))),
        (torch.searchsorted, (distinct(3, 4), distinct(2, 4))),
        (lambda e: torch.searchsorted(e, 1.0), (distinct(3, 4),)),
        (lambda e, v: torch.searchsorted(e, v, side="middle"), (distinct(4), distinct(4))),
        (lambda e, v: torch.searchsorted(e, v, side="left", right=True), (distinct(4), distinct(4))),
        (lambda e, v: torch.searchsorted(e, v, sorter=e), (distinct(4), distinct(4))),
        (lambda e, v: torch.searchsorted(e, v, sorter=torch.zeros(2, dtype=torch.int64, device=e.device)), (distinct(4), distinct(4))),
        (torch.isin, (distinct(4) > 0, distinct(4))),
        (lambda v, e: torch.bucketize(v, e), (distinct(4), distinct(3, 4))),
    ],
)
def test_errors(function, arguments):
    check_error(function, *arguments)
