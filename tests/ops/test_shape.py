"""Joining, padding, reordering and gradients of views, compared with torch's CPU kernels."""

from __future__ import annotations

import pytest
import torch
from oracle import check, check_error

DTYPES = [torch.float32, torch.bfloat16, torch.complex64, torch.uint8, torch.bool]


def make(*size: int, dtype: torch.dtype = torch.float32, grad: bool = True) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(size) + len(size))
    if dtype.is_floating_point or dtype.is_complex:
        return torch.randn(size, generator=generator, dtype=dtype).requires_grad_(grad)
    return torch.randint(0, 2, size, generator=generator).to(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("function", "sizes"),
    [
        (lambda x, y: torch.cat([x, y, x]), [(2, 3), (4, 3)]),
        (lambda x, y: torch.cat([x, y], -1), [(2, 3), (2, 1)]),
        (lambda x, y: torch.cat([x, y], 1), [(0,), (2, 1)]),
        (lambda x, y: torch.cat([x, y]), [(0,), (0,)]),
        (lambda x, y: torch.cat([x.t(), y]), [(3, 2), (4, 3)]),
        (lambda x, y: torch.stack([x, y, y], -1), [(2, 3), (2, 3)]),
        (lambda x, y: torch.stack([x, y], 1), [(2, 3), (2, 3)]),
        (lambda x, y: torch.stack([x, y]), [(), ()]),
        (lambda x: torch.constant_pad_nd(x, [1, 2, 0, 3]), [(2, 3)]),
        (lambda x: torch.constant_pad_nd(x, [-1, 2], 1), [(2, 3)]),
        (lambda x: torch.constant_pad_nd(x, [-2, -2]), [(2, 4)]),
        (lambda x: x.flip(0, -1), [(2, 3, 4)]),
        (lambda x: x.flip(()), [(2, 3, 4)]),
        (lambda x: x.flip(0), [()]),
        (lambda x: x.roll((1, -2), (0, 1)), [(2, 3)]),
        (lambda x: x.roll(4), [(2, 3)]),
        (lambda x: x.roll((1, 1), (0, 0)), [(3,)]),
        (lambda x: x.repeat(2, 1, 3), [(2, 3)]),
        (lambda x: x.repeat(0, 2), [(2,)]),
        (lambda x: x.repeat(2), [()]),
        (lambda x: x.repeat_interleave(3, 1), [(2, 3)]),
        (lambda x: x.tril(), [(3, 4)]),
        (lambda x: x.tril(-2), [(2, 3, 4)]),
        (lambda x: x.tril(100), [(3, 4)]),
        (lambda x: x.triu(1), [(3, 4)]),
        (lambda x: x.triu(-100), [(3, 4)]),
        (lambda x: x.triu(2**40), [(3, 4)]),
        (lambda x: x.triu(), [(0, 4)]),
        (lambda x: x.diag_embed(), [(2, 3)]),
        (lambda x: x.diag_embed(2, 0, 2), [(2, 3)]),
        (lambda x: x.diag_embed(-1), [(2, 3)]),
        (lambda x: x.diag(1), [(3,)]),
        (lambda x: torch.pixel_shuffle(x, 2), [(2, 8, 2, 3)]),
        (lambda x: torch.pixel_unshuffle(x, 2), [(2, 4, 6)]),
        (lambda x: torch.channel_shuffle(x, 2), [(1, 6, 2)]),
        (lambda x, y: torch.block_diag(x, y), [(2, 3), (1, 2)]),
    ],
)
def test_shape(function, sizes, dtype):
    check(function, *[make(*size, dtype=dtype) for size in sizes])


def test_types_are_promoted():
    check(lambda x, y: torch.cat([x, y]), make(2), make(3, dtype=torch.int64))
    check(lambda x, y: torch.cat([x, y]), make(2, dtype=torch.uint8), make(3, dtype=torch.int8))
    check(lambda x, y: torch.cat([x, y]), make(2, dtype=torch.bfloat16), make(3, dtype=torch.float16))
    check(lambda x, y: torch.stack([x, y]), make(2), make(2, dtype=torch.complex128))
    check(lambda x, y: torch.cat([x, y]), make(2), torch.empty(0, dtype=torch.float64))
    check(lambda x, y: torch.cat([x, y], out=torch.empty(0, dtype=torch.float64, device=x.device)), make(2, grad=False), make(3, grad=False))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("function", "size"),
    [
        (lambda x: x[1], (3, 4)),
        (lambda x: x[:, -1], (3, 4)),
        (lambda x: x.select(-1, 2), (2, 3, 4)),
        (lambda x: x[1:3], (4, 3)),
        (lambda x: x[:, ::2], (3, 5)),
        (lambda x: x[:, 1:5:3], (3, 5)),
        (lambda x: x[:, 3:1], (3, 5)),
        (lambda x: x[-100:100], (3, 5)),
        (lambda x: x[..., 1:, None, ::2], (3, 4, 5)),
        (lambda x: x.diagonal(), (3, 4)),
        (lambda x: x.diagonal(1, 2, 0), (3, 2, 4)),
        (lambda x: x.diagonal(-1), (4, 3)),
        (lambda x: x.unfold(1, 3, 1), (2, 6)),
        (lambda x: x.unfold(0, 2, 3), (6, 2)),
        (lambda x: x.as_strided((2, 2), (1, 2), 1), (3, 2)),
        (lambda x: x.narrow(1, 1, 2), (2, 4)),
    ],
)
def test_gradients_of_views(function, size, dtype):
    check(function, make(*size, dtype=dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("function", "sizes"),
    [
        (lambda x, s: x.slice_scatter(s, 1, 1, 3), [(3, 4), (3, 2)]),
        (lambda x, s: x.slice_scatter(s, 1, 0, 4, 2), [(3, 4), (3, 2)]),
        (lambda x, s: x.slice_scatter(s), [(3, 4), (3, 4)]),
        (lambda x, s: x.slice_scatter(s, 0, 2, 2), [(3, 4), (0, 4)]),
        (lambda x, s: x.select_scatter(s, 1, -1), [(3, 4), (3,)]),
        (lambda x, s: x.diagonal_scatter(s, 1), [(3, 4), (3,)]),
        (lambda x, s: x.diagonal_scatter(s, -1, 1, 0), [(3, 4), (3,)]),
        (lambda x, s: x.as_strided_scatter(s, (2, 2), (1, 2), 1), [(3, 4), (2, 2)]),
    ],
)
def test_views_written_out_of_place(function, sizes, dtype):
    # torch differentiates these for real types only.
    check(function, *[make(*size, dtype=dtype, grad=not dtype.is_complex) for size in sizes])


@pytest.mark.parametrize(
    ("function", "sizes"),
    [
        (lambda x, y: torch.cat([x, y]), [(2, 3), (2, 4)]),
        (lambda x, y: torch.cat([x, y], 1), [(2, 3), (3, 3)]),
        (lambda x, y: torch.cat([x, y]), [(2, 3), (3,)]),
        (lambda x, y: torch.cat([x, y]), [(2,), ()]),
        (lambda x: torch.cat([x], 2), [(2, 3)]),
        (lambda x, y: torch.stack([x, y]), [(2, 3), (2, 4)]),
        (lambda x: torch.stack([x], 4), [(2, 3)]),
        (lambda x: torch.constant_pad_nd(x, [1]), [(2, 3)]),
        (lambda x: torch.constant_pad_nd(x, [1] * 6), [(2, 3)]),
        (lambda x: torch.constant_pad_nd(x, [-3, -3]), [(2, 3)]),
        (lambda x: x.flip(0, 0), [(2, 3)]),
        (lambda x: x.flip(2), [(2, 3)]),
        (lambda x: x.roll((1, 2), 0), [(2, 3)]),
        (lambda x: x.roll((1, 2)), [(2, 3)]),
        (lambda x: x.repeat(2), [(2, 3)]),
        (lambda x: x.repeat(2, -1), [(2, 3)]),
        (lambda x: x.tril(), [(3,)]),
        (lambda x: x.triu(), [()]),
        (lambda x: x.diag_embed(0, 1, 1), [(3,)]),
        (lambda x, s: x.slice_scatter(s, 0, 0, 1), [(3, 4), (3, 4)]),
        (lambda x, s: x.select_scatter(s, 0, 7), [(3, 4), (4,)]),
        (lambda x, s: x.diagonal_scatter(s), [(3, 4), (4,)]),
        (lambda x: torch.pixel_shuffle(x, 2), [(2, 3, 3)]),
        (lambda x: torch.channel_shuffle(x, 2), [(1, 5, 2)]),
    ],
)
def test_errors(function, sizes):
    check_error(function, *[make(*size) for size in sizes])
