"""Matrix products on device xla, compared with torch's CPU kernels."""

from __future__ import annotations

import pytest
import torch
from oracle import check, check_error

FLOATS = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
ALL = [*FLOATS, torch.complex64, torch.complex128, torch.int64, torch.int32, torch.int8, torch.uint8]


def make(*size: int, dtype: torch.dtype = torch.float32, grad: bool = True) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(size) + len(size))
    if dtype.is_floating_point or dtype.is_complex:
        return torch.randn(size, generator=generator, dtype=dtype).requires_grad_(grad)
    return torch.randint(0, 5, size, generator=generator, dtype=dtype)


@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize(
    ("function", "sizes"),
    [
        (torch.mm, [(2, 3), (3, 5)]),
        (torch.mm, [(0, 3), (3, 5)]),
        (torch.mm, [(2, 0), (0, 5)]),
        (torch.bmm, [(2, 3, 4), (2, 4, 5)]),
        (torch.bmm, [(0, 3, 4), (0, 4, 5)]),
        (torch.mv, [(2, 3), (3,)]),
        (torch.mv, [(2, 0), (0,)]),
        (torch.dot, [(7,), (7,)]),
        (torch.dot, [(0,), (0,)]),
        (torch.vdot, [(7,), (7,)]),
        (torch.addmm, [(5,), (2, 3), (3, 5)]),
        (torch.addmm, [(2, 1), (2, 3), (3, 5)]),
        (torch.addmm, [(), (2, 0), (0, 5)]),
        (torch.baddbmm, [(5,), (2, 3, 4), (2, 4, 5)]),
        (torch.addbmm, [(3, 5), (2, 3, 4), (2, 4, 5)]),
        (torch.addmv, [(2,), (2, 3), (3,)]),
        (torch.addmv, [(), (2, 3), (3,)]),
        (torch.addr, [(2, 5), (2,), (5,)]),
        (torch.outer, [(2,), (5,)]),
        (torch.matmul, [(2, 3, 4), (4, 5)]),
        (torch.matmul, [(2, 1, 3, 4), (6, 4, 5)]),
        (torch.matmul, [(4,), (2, 4, 5)]),
    ],
)
def test_product(function, sizes, dtype):
    if function is torch.addbmm and dtype in (torch.bfloat16, torch.float16):
        pytest.skip("torch's CPU kernel rounds after every batch")
    check(function, *[make(*size, dtype=dtype) for size in sizes])


@pytest.mark.parametrize("dtype", FLOATS)
def test_transposed_operands(dtype):
    x, y = make(3, 2, dtype=dtype), make(5, 3, dtype=dtype)
    check(lambda x, y: torch.mm(x.t(), y.t()), x, y)
    check(lambda x, y: torch.bmm(x.transpose(1, 2), y), make(2, 4, 3, dtype=dtype), make(2, 4, 5, dtype=dtype))


@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize(("beta", "alpha"), [(0, 1), (1, 2), (2, 0), (0.5, 1.5), (1.0, 1.0)])
def test_factors(beta, alpha, dtype):
    if not dtype.is_floating_point and not dtype.is_complex and isinstance(beta, float) and beta != 1:
        pytest.skip("torch's CPU kernel and its checks differ by operator")
    self = make(5, dtype=dtype)
    if beta == 0 and dtype.is_floating_point:
        self = torch.full((5,), float("nan"), dtype=dtype)
    check(lambda s, x, y: torch.addmm(s, x, y, beta=beta, alpha=alpha), self, make(2, 3, dtype=dtype), make(3, 5, dtype=dtype))
    check(lambda s, x, y: torch.baddbmm(s, x, y, beta=beta, alpha=alpha), self, make(2, 2, 3, dtype=dtype), make(2, 3, 5, dtype=dtype))
    check(lambda s, x, y: torch.addmv(s, x, y, beta=beta, alpha=alpha), self, make(5, 3, dtype=dtype), make(3, dtype=dtype))


def test_factors_after_a_complex_call():
    """The record of an argument is reused: nothing of a complex number may stay in it."""
    x, y = make(2, 3, dtype=torch.complex64, grad=False), make(3, 5, dtype=torch.complex64, grad=False)
    check(lambda s, x, y: torch.addmm(s, x, y, beta=1 + 2j, alpha=2j), make(2, 5, dtype=torch.complex64, grad=False), x, y)
    nan = torch.full((5,), float("nan"))
    for beta in (0, 0.0, False):
        check(lambda s, x, y, b=beta: torch.addmm(s, x, y, beta=b), nan, make(2, 3), make(3, 5))


def test_integer_factors_are_cut():
    x, y = make(2, 3, dtype=torch.int64), make(3, 5, dtype=torch.int64)
    check(lambda s, x, y: torch.addmm(s, x, y, beta=1.5, alpha=2.5), make(5, dtype=torch.int64), x, y)


def test_addr_mixes_types():
    check(torch.addr, make(2, 5, dtype=torch.int64), make(2, grad=False), make(5, dtype=torch.float64, grad=False))
    yes = torch.tensor([True, False])
    check(lambda s, x, y: torch.addr(s, x, y, alpha=2), torch.zeros(2, 2, dtype=torch.bool), yes, yes)
    check(torch.addr, torch.eye(2, dtype=torch.bool), yes, yes)


@pytest.mark.parametrize("gelu", [False, True])
@pytest.mark.parametrize("dtype", FLOATS)
def test_addmm_activation(gelu, dtype):
    arguments = [make(5, dtype=dtype, grad=False), make(2, 3, dtype=dtype, grad=False), make(3, 5, dtype=dtype, grad=False)]
    check(lambda *a: torch._addmm_activation(*a, use_gelu=gelu), *arguments)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("size", [(2, 3), (4, 2, 3), (3,), (0, 3)])
def test_linear(size, dtype):
    x, weight, bias = make(*size, dtype=dtype), make(5, 3, dtype=dtype), make(5, dtype=dtype)
    # bf16 and f16: torch's CPU kernel rounds the product before the bias for some sizes.
    check(torch.nn.functional.linear, x, weight, bias)
    check(torch.nn.functional.linear, x, weight)


def test_nan_and_infinity():
    x = torch.tensor([[float("nan"), 1.0], [float("inf"), 0.0], [0.0, 1.0]])
    check(torch.mm, x, torch.tensor([[1.0, 0.0], [2.0, -1.0]]))


def test_in_place_and_out():
    def in_place(s, x, y):
        s = s.clone()
        s.addmm_(x, y, beta=0.5)
        return s

    check(in_place, make(2, 5), make(2, 3), make(3, 5))
    check(lambda x, y: torch.mm(x, y, out=torch.empty(2, 5, device=x.device)), make(2, 3, grad=False), make(3, 5, grad=False))
    check(lambda x, y: torch.mv(x, y, out=torch.empty(2, device=x.device)), make(2, 3, grad=False), make(3, grad=False))


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (torch.mm, [make(2, 3), make(4, 5)]),
        (torch.mm, [make(2), make(4, 5)]),
        (torch.mm, [make(2, 3), make(4)]),
        (torch.mm, [make(2, 3), make(3, 5, dtype=torch.float64)]),
        (torch.mm, [make(2, 3, dtype=torch.int32), make(3, 5, dtype=torch.int64)]),
        (torch.mm, [torch.zeros(2, 3, dtype=torch.bool), torch.zeros(3, 5, dtype=torch.bool)]),
        (torch.bmm, [make(2, 3), make(4, 5)]),
        (torch.bmm, [make(2, 3, 4), make(4, 5)]),
        (torch.bmm, [make(2, 3, 4), make(3, 4, 5)]),
        (torch.bmm, [make(2, 3, 4), make(2, 4, 5, dtype=torch.float64)]),
        (torch.addmm, [make(5), make(2, 3), make(4, 5)]),
        (torch.addmm, [make(4), make(2, 3), make(3, 5)]),
        (torch.addmm, [make(3, 2, 5), make(2, 3), make(3, 5)]),
        (torch.addmm, [make(5), make(2), make(3, 5)]),
        (torch.addmm, [make(5, dtype=torch.float64), make(2, 3), make(3, 5)]),
        (torch.addmm, [make(5), make(2, 3), make(3, 5, dtype=torch.float64)]),
        (torch.baddbmm, [make(4), make(2, 3, 4), make(2, 4, 5)]),
        (torch.baddbmm, [make(5), make(2, 3), make(2, 4, 5)]),
        (torch.baddbmm, [make(5), make(2, 3, 4), make(2, 3, 5)]),
        (torch.baddbmm, [make(5, dtype=torch.float64), make(2, 3, 4), make(2, 4, 5)]),
        (torch.addbmm, [make(5), make(2, 3, 4), make(3, 4, 5)]),
        (torch.addbmm, [make(5), make(2, 3, 4), make(2, 3, 5)]),
        (torch.addmv, [make(2), make(2, 3), make(4)]),
        (torch.addmv, [make(3), make(2, 3), make(3)]),
        (torch.addmv, [make(2, 2), make(2, 3), make(3)]),
        (torch.addmv, [make(2), make(2, 3), make(3, dtype=torch.float64)]),
        (torch.mv, [make(2, 3), make(4)]),
        (torch.mv, [make(3), make(3)]),
        (torch.dot, [make(3), make(4)]),
        (torch.dot, [make(3, 1), make(3)]),
        (torch.dot, [make(3), make(3, dtype=torch.float64)]),
        (torch.addr, [make(4), make(2), make(5)]),
        (torch.addr, [make(2, 5), make(2, 1), make(5)]),
        (torch.nn.functional.linear, [make(2, 3), make(5, 4)]),
        (torch.matmul, [make(2, 3, 4), make(2, 5, 6)]),
    ],
)
def test_error(function, arguments):
    check_error(function, *arguments)
