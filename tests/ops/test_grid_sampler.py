"""grid_sample on device xla, compared with torch's CPU kernels."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from oracle import check, check_error


def make(*size: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(size))
    return torch.randn(size, generator=generator, dtype=torch.float64).to(dtype).requires_grad_()


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_two_dimensions(padding, mode, dtype):
    def sample(x, grid):
        return [F.grid_sample(x, grid, mode=mode, padding_mode=padding, align_corners=align) for align in (False, True)]

    check(sample, make(2, 3, 5, 4, dtype=dtype), make(2, 3, 7, 2, dtype=dtype), tolerance=(1e-4, 2e-5))


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_three_dimensions(padding, mode):
    if mode == "bicubic":
        try:
            F.grid_sample(torch.zeros(1, 1, 1, 1, 1), torch.zeros(1, 1, 1, 1, 3), mode=mode, align_corners=False)
        except RuntimeError:
            pytest.skip("torch's CPU kernel of this release does not have it")

    def sample(x, grid):
        return [F.grid_sample(x, grid, mode=mode, padding_mode=padding, align_corners=align) for align in (False, True)]

    check(sample, make(2, 2, 3, 5, 4), make(2, 3, 2, 4, 3), tolerance=(1e-4, 2e-5))


def test_affine_grid():
    check(lambda theta, x: F.grid_sample(x, F.affine_grid(theta, [2, 3, 5, 4], align_corners=False), align_corners=False), make(2, 2, 3), make(2, 3, 6, 6), tolerance=(1e-4, 2e-5))


@pytest.mark.parametrize("sizes", [((1, 1, 4, 4), (1, 2, 2, 3)), ((1, 1, 4, 4), (2, 2, 2, 2)), ((1, 1, 4), (1, 2, 2, 2)), ((1, 1, 0, 4), (1, 2, 2, 2))])
def test_error(sizes):
    check_error(lambda x, grid: F.grid_sample(x, grid, align_corners=False), *[torch.zeros(size) for size in sizes])
