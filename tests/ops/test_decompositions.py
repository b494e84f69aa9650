"""QR factors, eigenvalues and singular values on device xla, compared with torch's CPU kernels (LAPACK).

Vectors are given up to a factor: what is compared are the matrices that they make, and that they are orthonormal.
"""

from __future__ import annotations

import pytest
import torch
from oracle import check, check_error

from xla_go import metrics

DTYPES = [torch.float32, torch.complex128]
DTYPES += [pytest.param(d, marks=pytest.mark.slow) for d in (torch.float64, torch.complex64)]
SHAPES = [(1, 1), (3, 3), (5, 2), (2, 5), (2, 4, 3), (0, 3), (3, 0), (0, 2, 2)]


def random(*shape: int, dtype: torch.dtype = torch.float64, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.complex128 if dtype.is_complex else torch.float64).to(dtype)


def tolerance(dtype: torch.dtype) -> tuple[float, float]:
    return (2e-5, 2e-5) if dtype in (torch.float32, torch.complex64) else (1e-12, 1e-12)


def identity_like(vectors: torch.Tensor) -> torch.Tensor:
    return vectors.mH @ vectors


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_qr(dtype):
    for shape in SHAPES:
        x = random(*shape, dtype=dtype)
        for mode in ("reduced", "complete", "r"):
            check(lambda x, mode=mode: torch.linalg.qr(x, mode=mode), x, tolerance=tolerance(dtype))
        check(torch.geqrf, x, tolerance=tolerance(dtype))
    check(torch.linalg.qr, random(4, 3, dtype=dtype).requires_grad_(), tolerance=tolerance(dtype))


def test_qr_of_several_blocks():
    for shape in ((70, 70), (90, 40), (40, 90)):
        check(lambda x: torch.linalg.qr(x, mode="complete"), random(*shape), tolerance=(1e-11, 1e-11))


def test_qr_of_what_is_triangular_zero_or_of_extreme_size():
    upper = torch.triu(random(4, 4))
    check(torch.linalg.qr, upper)
    check(torch.linalg.qr, torch.zeros(3, 2))
    check(torch.linalg.qr, torch.eye(3))
    for factor in (1e-30, 1e30):  # whose squares are no float32
        check(torch.linalg.qr, random(4, 3, dtype=torch.float32) * factor, tolerance=(1e-5, 1e-5 * factor))
    check(torch.linalg.qr, torch.tensor([[1 + 1j, 2], [0, 3 - 1j]]), tolerance=(1e-5, 1e-5))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_products_of_reflections(dtype):
    for shape, count in (((4, 3), 3), ((2, 4, 3), 2), ((3, 3), 0), ((60, 50), 45)):
        packed, tau = torch.geqrf(random(*shape, dtype=dtype))
        tau = tau[..., :count].contiguous()
        check(torch.linalg.householder_product, packed, tau, tolerance=tolerance(dtype))
    packed, tau = torch.geqrf(random(2, 4, 3, dtype=dtype))
    for transpose in (False, True):
        check(lambda a, t, x, transpose=transpose: torch.ormqr(a, t, x, True, transpose), packed, tau, random(2, 4, 2, dtype=dtype), tolerance=tolerance(dtype))
        check(lambda a, t, x, transpose=transpose: torch.ormqr(a, t, x, False, transpose), packed, tau, random(2, 2, 4, dtype=dtype), tolerance=tolerance(dtype))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("triangle", ["L", "U"])
def test_eigenvalues_of_hermitian_matrices(triangle, dtype):
    def whole(x):
        values, vectors = torch.linalg.eigh(x, UPLO=triangle)
        return values, (vectors * values.unsqueeze(-2)) @ vectors.mH, identity_like(vectors)

    for shape in ((1, 1), (2, 2), (3, 3), (2, 4, 4), (0, 0), (0, 3, 3)):
        check(whole, random(*shape, dtype=dtype), tolerance=tolerance(dtype))
    check(lambda x: torch.linalg.eigvalsh(x, UPLO=triangle), random(5, 5, dtype=dtype), tolerance=tolerance(dtype))


def test_gradients_of_eigenvalues_and_singular_values():
    def eigen(x):
        values, vectors = torch.linalg.eigh(x + x.mH)
        return values, (vectors * values.exp().unsqueeze(-2)) @ vectors.mH

    def singular(x):
        left, values, right = torch.linalg.svd(x, full_matrices=False)
        return values, (left * values.sin().unsqueeze(-2)) @ right

    for dtype in (torch.float64, torch.complex128):
        check(eigen, random(4, 4, dtype=dtype).requires_grad_(), tolerance=(1e-9, 1e-9))
        check(singular, random(4, 3, dtype=dtype).requires_grad_(), tolerance=(1e-9, 1e-9))


def test_eigenvalues_that_are_equal_or_of_extreme_size():
    def whole(x):
        values, vectors = torch.linalg.eigh(x)
        return values, (vectors * values.unsqueeze(-2)) @ vectors.mH, identity_like(vectors)

    check(whole, torch.eye(5))
    check(whole, torch.zeros(4, 4))
    check(whole, torch.ones(6, 6), tolerance=(1e-5, 1e-5))
    check(whole, torch.diag(torch.tensor([3.0, -1, 2, -1])))
    check(lambda x: torch.linalg.eigvalsh(x), torch.diag(torch.tensor([1e30, 1e30 * 2, 1e29])), tolerance=(1e-6, 0))
    x = random(40, 40)
    check(whole, x @ x.T, tolerance=(1e-9, 1e-9))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("full", [False, True])
def test_singular_values(full, dtype):
    def whole(x):
        left, values, right = torch.linalg.svd(x, full_matrices=full)
        size = values.shape[-1]
        product = (left[..., :size] * values.unsqueeze(-2)) @ right[..., :size, :]
        return values, product, identity_like(left), right @ right.mH

    for shape in SHAPES:
        check(whole, random(*shape, dtype=dtype), tolerance=tolerance(dtype))
    check(torch.linalg.svdvals, random(3, 4, dtype=dtype), tolerance=tolerance(dtype))


def test_singular_values_of_what_has_not_full_rank():
    def whole(x):
        left, values, right = torch.linalg.svd(x)
        return values, identity_like(left), right @ right.mH

    low = random(6, 2) @ random(2, 5, seed=1)
    for x in (low, torch.zeros(3, 4), torch.eye(4), torch.ones(5, 5), torch.diag(torch.tensor([2.0, 0, 0]))):
        check(whole, x, tolerance=(1e-5, 1e-6))
    check(torch.linalg.matrix_rank, low)
    check(torch.linalg.pinv, low, tolerance=(1e-9, 1e-9))
    check(lambda x: torch.linalg.norm(x, "nuc"), random(4, 3), tolerance=(1e-10, 1e-10))
    check(torch.linalg.cond, random(4, 4), tolerance=(1e-9, 1e-9))


def test_large_matrices_go_to_lapack():
    x = random(257, 257).to("xla")
    values = torch.linalg.svdvals(x)
    assert torch.allclose(values.cpu(), torch.linalg.svdvals(x.cpu()))
    assert "aten::_linalg_svd" in metrics.executed_fallback_ops()


def test_what_is_no_number_is_refused():
    nan = float("nan")
    for x in (torch.full((2, 2), nan), torch.tensor([[[1.0, 2], [3, 4]], [[1, nan], [2, 3]]])):
        check_error(lambda x: torch.linalg.svd(x)[1].cpu(), x)
        with pytest.raises(torch.linalg.LinAlgError, match="non-finite"):
            torch.linalg.svdvals(x.to("xla")).cpu()
    assert torch.linalg.eigvalsh(torch.full((2, 2), nan, device="xla")).isnan().all()


def test_arguments_that_do_not_fit():
    two, three = torch.ones(2, 2), torch.ones(3, 2)
    check_error(torch.linalg.qr, torch.ones(3))
    check_error(torch.linalg.qr, torch.ones(3, 3, dtype=torch.int64))
    check_error(torch.linalg.qr, torch.ones(3, 3, dtype=torch.half))
    check_error(lambda x: torch.linalg.qr(x, mode="x"), two)
    for arguments in (
        (torch.ones(3), torch.ones(1)), (torch.ones(2, 3), torch.ones(2)), (three, torch.ones(3)), (three, torch.ones(1, 2)),
        (torch.ones(2, 3, 2), torch.ones(3, 2)), (three, torch.ones(2, dtype=torch.float64)), (three, torch.tensor(1.0)),
        (three.int(), torch.ones(2).int()),
    ):  # fmt: skip
        check_error(torch.linalg.householder_product, *arguments)
    for arguments in (
        (torch.ones(3), torch.ones(1), torch.ones(3, 3)), (three, torch.ones(2), torch.ones(3)), (three, torch.ones(2), two),
        (three, torch.ones(4), three), (three, torch.ones(1, 2), three), (torch.ones(2, 3, 2), torch.ones(2, 2), three),
        (three, torch.ones(2).double(), three), (three, torch.ones(2), three.double()), (three, torch.tensor(1.0), three),
    ):  # fmt: skip
        check_error(torch.ormqr, *arguments)
    check_error(torch.geqrf, torch.ones(3))
    check_error(torch.geqrf, three.int())
    for function in (torch.linalg.eigh, torch.linalg.eigvalsh):
        check_error(function, three)
        check_error(function, two.int())
        check_error(lambda x, function=function: function(x, UPLO="x"), two)
    check_error(torch.linalg.svd, torch.ones(3))
    check_error(torch.linalg.svd, two.int())
    check_error(lambda x: torch.linalg.svd(x, driver="gesvd"), two)
