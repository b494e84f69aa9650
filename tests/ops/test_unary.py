"""Functions of one tensor on device xla, compared with torch's CPU kernels."""

from __future__ import annotations

import pytest
import torch
from oracle import check, check_error

INEXACT = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
INTEGERS = [torch.int64, torch.int32, torch.uint8, torch.int8]
NAN, INF = float("nan"), float("inf")
NEWEST = tuple(int(n) for n in torch.__version__.split(".")[:2]) >= (2, 15)
SPECIAL = [NAN, -0.0, 0.0, INF, -INF, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, 1e-3, -1e-3, 7.25, -7.25, 20.0, -20.0, 0.9, -0.9]

# Defined on all reals, or giving NaN outside of their domain on both sides.
FLOATING = [
    "exp", "exp2", "expm1", "log", "log1p", "log2", "log10", "sqrt", "rsqrt", "reciprocal", "sin", "cos", "tan", "sinh", "cosh",
    "tanh", "asin", "acos", "atan", "asinh", "acosh", "atanh", "sinc", "sigmoid", "erf", "erfc", "erfinv", "lgamma", "digamma", "i0",
    "logit",
]  # fmt: skip
ROUNDING = ["floor", "ceil", "round", "trunc"]
KEEPING = ["neg", "sign", "sgn", "abs", "square", "nan_to_num", *ROUNDING]
PREDICATES = ["isnan", "isinf", "isfinite", "isposinf", "isneginf", "signbit", "logical_not"]
COMPLEX = [
    "neg", "sgn", "abs", "angle", "conj_physical", "exp", "log", "sqrt", "rsqrt", "reciprocal", "sin", "cos", "tan", "sinh", "cosh",
    "tanh", "asin", "acos", "atan", "asinh", "acosh", "atanh", "sigmoid", "square", "log1p", "expm1", "log2", "log10",
]  # fmt: skip


def special(dtype: torch.dtype, grad: bool = False) -> torch.Tensor:
    return torch.tensor(SPECIAL, dtype=torch.float64).to(dtype).requires_grad_(grad)


def whole(dtype: torch.dtype) -> torch.Tensor:
    return torch.arange(12).reshape(3, 4).to(dtype) if dtype == torch.uint8 else (torch.arange(12).reshape(3, 4) - 5).to(dtype)


@pytest.mark.parametrize("dtype", INEXACT, ids=str)
@pytest.mark.parametrize("name", [*FLOATING, *KEEPING, *PREDICATES, "frac", "angle"])
def test_values(name, dtype):
    check(getattr(torch, name), special(dtype))


@pytest.mark.parametrize("name", [*FLOATING, "frac", "angle", "square", "abs", "sgn"])
def test_gradient(name):
    x = torch.tensor([0.3, -0.2, 0.9, 0.55], dtype=torch.float64).add(1.0 if name == "acosh" else 0.0)
    check(getattr(torch, name), x.requires_grad_())


@pytest.mark.parametrize("name", FLOATING)
def test_integers_give_the_default_type(name):
    check(getattr(torch, name), whole(torch.int64))
    check(getattr(torch, name), torch.tensor([True, False]))


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("name", [*KEEPING, "angle", "bitwise_not", *PREDICATES])
def test_integers(name, dtype):
    check(getattr(torch, name), whole(dtype))


@pytest.mark.parametrize("name", COMPLEX)
def test_complex(name):
    generator = torch.Generator().manual_seed(3)
    x = torch.complex(torch.randn(40, generator=generator), torch.randn(40, generator=generator))
    check(getattr(torch, name), x)
    check(getattr(torch, name), (x.to(torch.complex128) * 3).requires_grad_())


@pytest.mark.parametrize("size", [(), (0,), (2, 0, 3), (1, 1)], ids=str)
@pytest.mark.parametrize("name", ["exp", "neg", "abs", "isnan", "sign", "lgamma"])
def test_sizes(name, size):
    check(getattr(torch, name), torch.full(size, 0.25))


@pytest.mark.parametrize("name", ["exp", "sqrt", "neg", "tanh", "sigmoid", "floor", "abs"])
def test_strided_and_in_place(name):
    base = torch.linspace(0.1, 2, 24).reshape(2, 3, 4)
    check(getattr(torch, name), base.transpose(0, 2)[::2])
    check(lambda x: getattr(torch, name)(x[:, 1].expand(3, 2, 4)), base)

    def in_place(x):
        y = x.clone()
        getattr(y[:, 1], name + "_")()
        return y

    check(in_place, base)

    def out(x):
        y = torch.empty(0, device=x.device)
        getattr(torch, name)(x, out=y)
        return y

    check(out, base)


@pytest.mark.parametrize("decimals", [0, 1, 3, -1, -2])
def test_round_decimals(decimals):
    x = torch.linspace(-300, 300, 77, dtype=torch.float64)
    check(lambda x: torch.round(x, decimals=decimals), x)
    check(lambda x: torch.round(x, decimals=decimals), x.float())


@pytest.mark.parametrize("dtype", [*INEXACT, torch.complex64], ids=str)
def test_nan_to_num(dtype):
    x = special(torch.float32).to(dtype)
    check(torch.nan_to_num, x)
    check(lambda x: torch.nan_to_num(x, nan=1.5), x)
    check(lambda x: torch.nan_to_num(x, posinf=9.0, neginf=-7.0), x)


@pytest.mark.parametrize("eps", [None, 0.0, 0.1])
def test_logit(eps):
    x = torch.tensor([-1.0, 0.0, 0.05, 0.3, 0.95, 1.0, 1.5, NAN], dtype=torch.float64)
    check(lambda x: torch.logit(x, eps), x)
    check(lambda x: torch.logit(x, eps), x[2:5].clone().requires_grad_())


def test_frexp():
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        check(torch.frexp, special(dtype))
    check(torch.frexp, torch.tensor([1e-45, 1e-40, -3e-42, 3e38]))
    check(torch.frexp, torch.tensor([5e-324, 1e-310, -3e-320, 1.7e308], dtype=torch.float64))


@pytest.mark.skipif(not NEWEST, reason="errors have the words and the class of the newest torch, whichever torch is installed")
def test_error_texts():
    check_error(torch.neg, torch.tensor([True]))
    check_error(torch.abs, torch.tensor([True]))
    check_error(torch.sign, torch.tensor([1j]))
    check_error(torch.floor, torch.tensor([1j]))
    check_error(torch.round, torch.tensor([1j]))
    check_error(torch.floor, torch.tensor([True]))
    check_error(torch.frac, torch.tensor([1]))
    check_error(torch.erf, torch.tensor([1j]))
    check_error(torch.isposinf, torch.tensor([1j]))
    check_error(torch.signbit, torch.tensor([1j]))
    check_error(torch.bitwise_not, torch.tensor([1.0]))
    check_error(lambda x: x.exp_(), torch.tensor([1]))
    check_error(lambda x: torch.round(x, decimals=1), torch.tensor([1]))
    check_error(torch.frexp, torch.tensor([1]))
