"""torch.cdist on device xla, compared with torch's CPU kernels."""

from __future__ import annotations

import pytest
import torch
from oracle import check, check_error


def make(*size: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(size))
    return torch.randn(size, generator=generator, dtype=torch.float64).to(dtype).requires_grad_()


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, float("inf")])
def test_norms(p):
    check(lambda x, y: torch.cdist(x, y, p=p), make(2, 3, 4), make(2, 5, 4), tolerance=(1e-4, 1e-5))


@pytest.mark.parametrize("mode", ["use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist", "use_mm_for_euclid_dist_if_necessary"])
def test_euclidean(mode):
    check(lambda x, y: torch.cdist(x, y, compute_mode=mode), make(30, 4), make(28, 4), tolerance=(1e-3, 1e-3))


def test_batches_and_nothing():
    check(torch.cdist, make(3, 1, 4, 2), make(2, 5, 2), tolerance=(1e-4, 1e-5))
    check(torch.cdist, make(0, 4), make(5, 4))
    check(torch.cdist, make(3, 0).detach(), make(5, 0).detach())


@pytest.mark.parametrize("sizes", [((2, 3), (4, 5)), ((3,), (4, 3))])
def test_error(sizes):
    check_error(torch.cdist, *[torch.zeros(size) for size in sizes])
