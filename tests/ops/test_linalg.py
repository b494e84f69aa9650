"""Linear algebra on device xla, compared with torch's CPU kernels."""

from __future__ import annotations

import pytest
import torch
from oracle import check, check_error

DTYPES = [torch.float32, torch.float64, torch.complex64, torch.complex128]
# Those of programs that take long to compile.
SAMPLED = [d if d in (torch.float32, torch.complex128) else pytest.param(d, marks=pytest.mark.slow) for d in DTYPES]
BATCHES = [(3,), (2, 0), *(pytest.param(batch, marks=pytest.mark.slow) for batch in ((), (2, 2)))]
TOLERANCE = (1e-3, 1e-4)


def matrix(*shape: int, dtype: torch.dtype = torch.float64, grad: bool = False, seed: int = 0) -> torch.Tensor:
    """Random matrices, well conditioned where they are square."""
    x = torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.complex128 if dtype.is_complex else torch.float64)
    if shape[-1] == shape[-2]:
        x = x + shape[-1] * torch.eye(shape[-1])[torch.randperm(shape[-1], generator=torch.Generator().manual_seed(seed))]
    return x.to(dtype).requires_grad_(grad)


def positive(*shape: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    x = matrix(*shape, dtype=dtype)
    return x @ x.mH + torch.eye(shape[-1], dtype=dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("batch", BATCHES, ids=str)
def test_lu(batch, dtype):
    for m, n in ((3, 3), (2, 5), (5, 2), (0, 0), (1, 1)):
        x = matrix(*batch, m, n, dtype=dtype)
        check(lambda x: torch.linalg.lu_factor_ex(x)[:2], x, tolerance=TOLERANCE)
        check(torch.linalg.lu, x, tolerance=TOLERANCE)
        check(lambda x: torch.lu_unpack(*torch.linalg.lu_factor(x)), x, tolerance=TOLERANCE)


def test_lu_of_several_panels():
    for m, n in ((130, 130), (200, 70), (70, 200)):
        x = matrix(m, n)
        check(torch.linalg.lu, x, tolerance=(1e-9, 1e-9))
    check(torch.linalg.inv, matrix(2, 130, 130), tolerance=(1e-9, 1e-9))


def test_lu_of_singular_matrices_names_the_pivot():
    x = torch.tensor([[[1.0, 2, 3], [2, 4, 6], [1, 1, 1]], [[0, 0, 0], [0, 0, 0], [0, 0, 0]], [[1, 0, 0], [0, 1, 0], [0, 0, 1]]])
    check(lambda x: torch.linalg.lu_factor_ex(x)[2], x)
    check(torch.linalg.det, x)
    check(torch.linalg.slogdet, x)
    check_error(torch.linalg.inv, x)
    check_error(torch.linalg.inv, x[1])


@pytest.mark.parametrize("dtype", SAMPLED, ids=str)
@pytest.mark.parametrize("left", [True, False])
def test_solve_by_factors(left, dtype):
    for a, b in (((3, 3), (3, 2)), ((2, 3, 3), (3, 2)), ((3, 3), (2, 3, 2)), ((2, 1, 3, 3), (4, 3, 1)), ((0, 0), (0, 2))):
        x = matrix(*a, dtype=dtype, grad=True)
        y = matrix(*b, dtype=dtype, grad=True, seed=1)
        y = y if left else y.mT
        for conjugate in (True, False):
            check(lambda x, y, c=conjugate: torch.linalg.lu_solve(*torch.linalg.lu_factor(x), y, left=left, adjoint=c), x, y, tolerance=TOLERANCE)


@pytest.mark.parametrize("dtype", SAMPLED, ids=str)
@pytest.mark.parametrize("batch", BATCHES, ids=str)
def test_determinants_and_inverses(batch, dtype):
    for n in (0, 1, 2, 4):
        x = matrix(*batch, n, n, dtype=dtype, grad=True)
        for f in (torch.linalg.det, torch.linalg.slogdet, torch.linalg.inv):
            check(f, x, tolerance=TOLERANCE)
            check(lambda x, f=f: f(x.mT), x, tolerance=TOLERANCE)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("upper", [True, False])
def test_cholesky(upper, dtype):
    for shape in ((3, 3), (2, 3, 3), (0, 3, 3), (2, 0, 0), (1, 1)):
        x = positive(*shape, dtype=dtype)
        check(lambda x: torch.linalg.cholesky_ex(x, upper=upper), x, tolerance=TOLERANCE)
        check(lambda x: torch.cholesky_inverse(torch.linalg.cholesky(x, upper=upper), upper=upper), x, tolerance=TOLERANCE)
        check(lambda x: torch.cholesky_solve(x.mT, torch.linalg.cholesky(x, upper=upper), upper=upper), x, tolerance=TOLERANCE)


def test_cholesky_names_the_minor():
    x = torch.stack([torch.eye(3), torch.diag(torch.tensor([1.0, 1, -1])), -torch.eye(3), torch.tensor([[1.0, 2, 0], [2, 1, 0], [0, 0, 1]])])
    check(lambda x: torch.linalg.cholesky_ex(x)[1], x)
    check(lambda x: torch.linalg.cholesky_ex(x, upper=True)[1], x)
    check_error(torch.linalg.cholesky, x)
    check_error(torch.linalg.cholesky, x[2])


@pytest.mark.parametrize("dtype", SAMPLED, ids=str)
@pytest.mark.parametrize("left", [True, False])
def test_triangular(left, dtype):
    for a, b in (((3, 3), (3, 2)), ((2, 3, 3), (3, 2)), ((3, 3), (2, 3, 2)), ((0, 0), (0, 2)), ((3, 3), (3, 0))):
        x, y = matrix(*a, dtype=dtype, grad=True), matrix(*b, dtype=dtype, grad=True, seed=1)
        y = y if left else y.mT
        for upper in (True, False):
            for unit in (True, False):
                x1 = x.triu() if upper else x.tril()
                check(lambda x, y, u=upper, n=unit: torch.linalg.solve_triangular(x, y, upper=u, left=left, unitriangular=n), x1.detach().requires_grad_(), y, tolerance=(1e-2, 1e-3))


def test_cross():
    x, y = matrix(4, 3, grad=True), matrix(1, 3, grad=True, seed=1)
    check(torch.linalg.cross, x, y)
    check(lambda x, y: torch.linalg.cross(x, y, dim=0), x.T, y.T)
    check(torch.linalg.cross, torch.arange(3), torch.tensor([2, 0, 5]))
    check_error(torch.linalg.cross, torch.ones(2), torch.ones(2))
    check_error(torch.linalg.cross, torch.ones(3), torch.ones(3, 3))


@pytest.mark.parametrize("name", ["inv", "inv_ex", "cholesky", "cholesky_ex", "lu_factor", "lu", "det", "slogdet"])
def test_errors_of_one_argument(name):
    f = getattr(torch.linalg, name)
    for x in (torch.ones(3), torch.ones(2, 2, dtype=torch.int64), torch.ones(2, 2, dtype=torch.float16)):
        check_error(f, x)
    if not name.startswith("lu"):
        check_error(f, torch.ones(2, 3))


def test_errors_of_two_arguments():
    square, wide = torch.eye(3), torch.ones(2, 3)
    check_error(lambda x, y: torch.linalg.solve_triangular(x, y, upper=True), torch.ones(3), square)
    check_error(lambda x, y: torch.linalg.solve_triangular(x, y, upper=True), wide, square)
    check_error(lambda x, y: torch.linalg.solve_triangular(x, y, upper=True), square, wide)
    check_error(lambda x: torch.linalg.lu(x, pivot=False), square)
    check_error(torch.triangular_solve, wide, square)
    check_error(torch.cholesky_solve, wide, square)
