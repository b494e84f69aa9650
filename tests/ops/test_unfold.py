"""Sliding blocks on device xla, compared with torch's CPU kernels."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from oracle import check, check_error

aten = torch.ops.aten


def make(*size: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(size))
    return torch.randn(size, generator=generator, dtype=torch.float64).to(dtype).requires_grad_()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.complex64])
@pytest.mark.parametrize("case", [dict(kernel_size=2), dict(kernel_size=(3, 2), padding=1, stride=2), dict(kernel_size=2, dilation=(2, 3), padding=(1, 0), stride=(1, 2))], ids=str)
def test_unfold_and_fold(case, dtype):
    for size in [(2, 3, 7, 6), (3, 7, 6), (0, 3, 7, 6)]:
        check(lambda x: F.unfold(x, **case), make(*size, dtype=dtype))
        columns = F.unfold(torch.zeros(size), **case).shape
        check(lambda x: F.fold(x, (7, 6), **case), make(*columns, dtype=dtype))


@pytest.mark.parametrize(
    ("function", "size", "arguments"),
    [
        (aten.im2col, (1, 2, 5, 5), ([2], [1, 1], [0, 0], [1, 1])),
        (aten.im2col, (1, 2, 5, 5), ([0, 2], [1, 1], [0, 0], [1, 1])),
        (aten.im2col, (1, 2, 5, 5), ([2, 2], [1, 0], [0, 0], [1, 1])),
        (aten.im2col, (1, 2, 5, 5), ([2, 2], [1, 1], [-1, 0], [1, 1])),
        (aten.im2col, (5, 5), ([2, 2], [1, 1], [0, 0], [1, 1])),
        (aten.im2col, (1, 0, 5, 5), ([2, 2], [1, 1], [0, 0], [1, 1])),
        (aten.im2col, (2, 5, 5), ([6, 2], [1, 1], [0, 0], [1, 1])),
        (aten.col2im, (1, 8, 16), ([5], [2, 2], [1, 1], [0, 0], [1, 1])),
        (aten.col2im, (1, 8, 15), ([5, 5], [2, 2], [1, 1], [0, 0], [1, 1])),
        (aten.col2im, (1, 7, 16), ([5, 5], [2, 2], [1, 1], [0, 0], [1, 1])),
        (aten.col2im, (16,), ([5, 5], [2, 2], [1, 1], [0, 0], [1, 1])),
        (aten.col2im, (8, 16), ([0, 5], [2, 2], [1, 1], [0, 0], [1, 1])),
    ],
)
def test_error(function, size, arguments):
    check_error(lambda x: function(x, *arguments), torch.zeros(size))
