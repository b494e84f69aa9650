"""Arithmetic, comparisons, logic, clamps, powers and fills on device xla, compared with torch's CPU kernels."""

from __future__ import annotations

import operator

import pytest
import torch
from oracle import check, check_error

NAN, INF = float("nan"), float("inf")
# Errors, and clamps beyond a type's range, are those of the newest torch, whichever torch is installed.
NEWEST = tuple(int(n) for n in torch.__version__.split(".")[:2]) >= (2, 15)
TYPES = [torch.bool, torch.uint8, torch.int32, torch.int64, torch.bfloat16, torch.float16, torch.float32, torch.float64, torch.complex64]
ARITHMETIC = {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div}
REMAINDERS = {
    "remainder": torch.remainder,
    "fmod": torch.fmod,
    "floor_divide": torch.floor_divide,
    "trunc_divide": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
}
COMPARISONS = [torch.eq, torch.ne, torch.lt, torch.le, torch.gt, torch.ge]
FLOAT_VALUES = [NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 2.5, -2.5, 7.0, -7.0, 1e-3, 0.3]


def values(dtype: torch.dtype, zero: bool = True) -> torch.Tensor:
    if dtype.is_complex:  # torch multiplies by a complex alpha of 1, which makes NaN of infinity
        return torch.tensor([1 + 2j, -0.5j, 3.0, -2.0, 0.25 - 1j], dtype=dtype)
    if dtype.is_floating_point:
        return torch.tensor(FLOAT_VALUES, dtype=torch.float64).to(dtype)
    x = torch.tensor([0, 1, 2, 3, 5, 100, -1, -2, -3, -7] if zero else [1, 2, 3, 5, 100, -1, -2, -3, -7])
    return x.abs().to(dtype) if dtype in (torch.uint8, torch.bool) else x.to(dtype)


def table(function, x: torch.Tensor, y: torch.Tensor) -> None:
    check(function, x[:, None], y)


def outcome(function, *arguments) -> None:
    """check, or check_error where the CPU refuses the arguments."""
    try:
        function(*arguments)
    except Exception:
        if NEWEST:
            check_error(function, *arguments)
    else:
        check(function, *arguments)


@pytest.mark.parametrize("second", TYPES, ids=str)
@pytest.mark.parametrize("first", TYPES, ids=str)
def test_promotion(first, second):
    x, y = torch.ones(2, 3).to(first), (torch.ones(3) * 2).to(second)
    for f in (torch.add, torch.sub, torch.div, torch.eq, torch.lt, torch.maximum, torch.bitwise_and, torch.logical_xor, torch.pow,
              torch.atan2, torch.floor_divide, torch.hypot, torch.bitwise_left_shift):  # fmt: skip
        outcome(f, x, y)
    half = {torch.bfloat16, torch.float16} & {first, second}
    if not (half and torch.complex64 in (first, second)):  # torch makes a complex type of halves, which XLA lacks
        outcome(torch.add, x, y[0])
        outcome(torch.add, x[0, 0], y)
    outcome(torch.where, x[:, :1] == 1, x, y)


@pytest.mark.parametrize("number", [True, 2, 300, -1, 0.5, 1 + 2j], ids=str)
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_promotion_with_numbers(dtype, number):
    if dtype in (torch.bfloat16, torch.float16) and isinstance(number, complex):
        pytest.skip("torch makes a complex type of halves, which XLA lacks")
    x = torch.ones(2, 3).to(dtype)
    for f in (operator.add, operator.sub, operator.mul, operator.truediv, operator.eq, operator.lt, operator.and_, torch.clamp_min):
        if f is torch.clamp_min and dtype == torch.uint8 and not NEWEST:
            continue
        outcome(lambda x, f=f: f(x, number), x)
        outcome(lambda x, f=f: f(x[0, 0], number), x)
    outcome(lambda x: number - x, x)
    outcome(lambda x: number / x, x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.uint8, torch.complex64], ids=str)
@pytest.mark.parametrize("name", ARITHMETIC)
def test_arithmetic(name, dtype):
    table(ARITHMETIC[name], values(dtype), values(dtype))
    check(lambda x: ARITHMETIC[name](x, 3), values(dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.int32, torch.uint8], ids=str)
@pytest.mark.parametrize("name", REMAINDERS)
def test_remainders(name, dtype):
    table(REMAINDERS[name], values(dtype), values(dtype, zero=False))
    check(lambda x: REMAINDERS[name](x, 3), values(dtype))
    if dtype != torch.uint8:
        check(lambda x: REMAINDERS[name](x, -3), values(dtype))
    if dtype.is_floating_point:
        check(lambda x: REMAINDERS[name](x, 0.1), values(dtype))


def test_alpha():
    x, y = torch.arange(6.0).reshape(2, 3), torch.tensor([1.0, -2.0, 0.5])
    for alpha in (1, 2, -0.3, 0.1, True):
        outcome(lambda x, y, alpha=alpha: torch.add(x, y, alpha=alpha), x, y)
        outcome(lambda x, y, alpha=alpha: torch.sub(x, y, alpha=alpha), x, y)
        outcome(lambda x, y, alpha=alpha: torch.add(x, y, alpha=alpha), x.long(), y.long())
        outcome(lambda x, y, alpha=alpha: torch.rsub(x, y, alpha=alpha), x, y)
        outcome(lambda x, y, alpha=alpha: torch.add(x, y, alpha=alpha), x.bfloat16(), y.bfloat16())
    check_error(lambda x, y: torch.add(x, y, alpha=1j), x, y)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.complex64], ids=str)
def test_addcmul_and_addcdiv(dtype):
    x, y, z = torch.arange(6).reshape(2, 3).to(dtype), torch.tensor([1, -2, 4]).to(dtype), torch.tensor([[3], [7]]).to(dtype)
    for value in (1, 2, 0.5):
        outcome(lambda x, y, z, value=value: torch.addcmul(x, y, z, value=value), x, y, z)
        outcome(lambda x, y, z, value=value: torch.addcdiv(x, y, z, value=value), x, y, z)

    def in_place(x, y, z):
        return x.clone().addcmul_(y, z, value=2)

    check(in_place, x, y, z)
    if dtype == torch.float32:
        check(lambda x, y, z: torch.addcdiv(x, y, z, value=0.3), x.requires_grad_(), y.requires_grad_(), z.requires_grad_())


@pytest.mark.parametrize("weight", [0.0, 0.3, 0.5, 0.75, 1.0, -2.0])
def test_lerp(weight):
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.complex64):
        x, y = torch.tensor([1.0, -3.0, 1e7]).to(dtype), torch.tensor([[2.0], [7.5]]).to(dtype)
        check(lambda x, y: torch.lerp(x, y, weight), x, y)
        check(torch.lerp, x, y, torch.tensor([weight, 0.2, 0.9]).to(dtype))
    x = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
    check(lambda x, y: torch.lerp(x, y, weight), x, torch.tensor([3.0, 5.0], dtype=torch.float64, requires_grad=True))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.uint8, torch.bool, torch.complex64], ids=str)
def test_comparisons(dtype):
    for f in COMPARISONS:
        outcome(f, values(dtype)[:, None], values(dtype))
        outcome(lambda x, f=f: f(x, 0.3), values(dtype))
        outcome(lambda x, f=f: f(x, 2), values(dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.uint8, torch.bool], ids=str)
def test_extrema(dtype):
    for f in (torch.maximum, torch.minimum, torch.fmax, torch.fmin, torch.heaviside):
        table(f, values(dtype), values(dtype))
    if dtype == torch.float32:
        x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
        for f in (torch.maximum, torch.minimum, torch.fmax, torch.fmin):
            check(f, x, torch.tensor([1.0, 3.0, 2.0], requires_grad=True))


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int8, torch.uint8, torch.bool], ids=str)
def test_bits(dtype):
    x, y = values(dtype), values(dtype)
    for f in (torch.bitwise_and, torch.bitwise_or, torch.bitwise_xor, torch.logical_and, torch.logical_or, torch.logical_xor):
        table(f, x, y)
    if dtype != torch.bool:
        shifts = torch.tensor([0, 1, 3, 7, 8, 31, 32, 63, 64, 100]).to(dtype)
        table(torch.bitwise_left_shift, x, shifts)
        table(torch.bitwise_right_shift, x, shifts)
        check(lambda x: x << 2, x)
        check(lambda x: x >> 1, x)
        table(torch.gcd, x, y)
        table(torch.lcm, x, y)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.uint8], ids=str)
def test_clamp(dtype):
    x = values(dtype)
    bounds = [(0, 2), (None, 1), (-1, None), (3, 1), (0.5, 2.5), (NAN, 1.0), (0.0, NAN)]
    for low, high in bounds:
        if dtype == torch.uint8 and low == -1 and not NEWEST:
            continue
        if dtype.is_floating_point or NAN not in (low, high):
            outcome(lambda x, low=low, high=high: torch.clamp(x, low, high), x)
    check(lambda x, low, high: torch.clamp(x, low, high), x, torch.tensor([[1], [2]]).to(dtype), torch.tensor(5).to(dtype))
    check(lambda x, high: torch.clamp(x, max=high), x, torch.tensor([2]).to(dtype))
    check(lambda x: torch.clamp_max(x, 2), x)


def test_clamp_gradient_and_errors():
    x = torch.linspace(-2, 2, 9, dtype=torch.float64, requires_grad=True)
    check(lambda x: torch.clamp(x, -1, 1), x)
    check(lambda x, low: torch.clamp(x, low), x, torch.tensor(0.5, dtype=torch.float64, requires_grad=True))
    check_error(lambda x: torch.clamp(x), torch.ones(2))
    check_error(lambda x: torch.clamp(x, 0), torch.tensor([1j]))
    for low, high in ((300, None), (None, -1), (-1, 300), (-2, -1)) if NEWEST else ():
        outcome(lambda x, low=low, high=high: torch.clamp(x, low, high), torch.ones(2, dtype=torch.uint8))


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 0.5, -0.5, -1, -2, 2.0, 4, 1.7, -3, 0.0, True, 1 + 1j], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.uint8, torch.complex64], ids=str)
def test_power_of_number(dtype, exponent):
    if dtype != torch.bfloat16 or not isinstance(exponent, complex):
        outcome(lambda x: x**exponent, values(dtype)[values(dtype) == values(dtype)])


def test_power():
    x = torch.tensor([NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 2.5, -2.5])
    y = torch.tensor([NAN, INF, -INF, 0.0, 1.0, 2.0, 3.0, -1.0, -2.0, 0.5])
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        table(torch.pow, x.to(dtype), y.to(dtype))
    table(torch.pow, torch.tensor([0, 1, -1, 2, -3, 7]), torch.tensor([0, 1, 2, 5, -1, -2]))
    for base in (2, 2.0, 1, -3, 0.5):
        outcome(lambda x, base=base: torch.pow(base, x), torch.tensor([0.0, 1.0, 2.5, -1.0]))
        outcome(lambda x, base=base: torch.pow(base, x), torch.tensor([0, 1, 3, 4]))
    check(torch.pow, torch.tensor([0.5, 2.0], dtype=torch.float64, requires_grad=True), torch.tensor([1.5, -1.0], dtype=torch.float64, requires_grad=True))
    check(lambda x: x**3, torch.tensor([0.5, -2.0], dtype=torch.float64, requires_grad=True))
    check(torch.float_power, torch.tensor([1, 2, 3]), torch.tensor([0.5]))


def test_fill():
    def filled(x, value):
        y = x.clone()
        y[:, 1].fill_(value)
        return y

    x = torch.arange(6).reshape(2, 3)
    for dtype in (torch.float32, torch.bfloat16, torch.int64, torch.uint8, torch.bool, torch.complex64):
        for value in (1, 0.5, True, 300, -1, 1j):
            outcome(lambda x, value=value: filled(x, value), x.to(dtype))
        check(lambda x: filled(x, x[1, 2]), x.to(dtype))
        check(lambda x: x.clone().zero_(), x.to(dtype))
    check(lambda x: x.clone().t().zero_(), x)
    check_error(lambda x: x.clone().fill_(x), x)


def test_masked_fill():
    x = torch.arange(6.0).reshape(2, 3)
    mask = torch.tensor([True, False, True])
    for dtype in (torch.float32, torch.bfloat16, torch.int64, torch.uint8, torch.bool):
        for value in (0, -INF, 0.5, 300, 1j):
            outcome(lambda x, mask, value=value: x.masked_fill(mask, value), x.to(dtype), mask)
        outcome(lambda x, mask: x.masked_fill(mask, x[1, 1]), x.to(dtype), mask)
    check(lambda x, mask: x.clone().masked_fill_(mask, 9.0), x, mask)
    check(lambda x, mask: x.masked_fill(mask, 9.0), x[0].requires_grad_(), mask[:, None])
    check_error(lambda x: x.masked_fill(x, 1), torch.ones(2))
    check_error(lambda x, v: x.masked_fill(x > 0, v), torch.ones(2), torch.ones(1))


def test_where():
    x, y = torch.arange(6.0).reshape(2, 3), torch.tensor([[-1.0], [-2.0]])
    check(torch.where, x > 2, x.requires_grad_(), y.requires_grad_())
    check(lambda x: torch.where(x > 2, x, 0), x.detach())
    check(lambda x: torch.where(x > 2, 1, 2.5), x.detach())
    check(lambda x: torch.where(x > 2, x.long(), 1.5), x.detach())
    check_error(lambda x: torch.where(x, 1, 2), x.detach())


@pytest.mark.parametrize("size", [((2, 3), (3,)), ((0, 3), (1,)), ((), (2,)), ((2, 1, 4), (3, 1)), ((), ())], ids=str)
def test_broadcast(size):
    x, y = torch.full(size[0], 2.5), torch.full(size[1], -1.5)
    for f in (torch.add, torch.mul, torch.maximum, torch.lt, torch.atan2, torch.pow, torch.logical_and):
        check(f, x, y)
    check(torch.mul, x.requires_grad_(), y.requires_grad_())


def test_strided_out_and_in_place():
    x, y = torch.arange(24.0).reshape(2, 3, 4), torch.arange(12.0).reshape(4, 3)

    def in_place(x, y):
        z = x.clone()
        z.transpose(1, 2).mul_(y)
        z[:, ::2].sub_(1, alpha=3)
        z[0].div_(4)
        return z

    def out(x, y):
        z = torch.empty(0, device=x.device)
        torch.mul(x.transpose(1, 2), y, out=z)
        return z

    check(in_place, x, y)
    check(out, x, y)
    check(lambda x: x.expand(3, 2, 3, 4) + x[:, :1], x)
    check_error(lambda x: x.clone().add_(x[None].expand(2, 2, 3, 4)), x)
    check_error(lambda x: x.long().div_(2), x)
    check_error(lambda x, y: x + y, x, torch.ones(5))
    check_error(lambda x: torch.mul(x, 2.5, out=torch.empty(2, 3, 4, dtype=torch.int64, device=x.device)), x)
    check_error(lambda x: torch.div(x, 2, rounding_mode="up"), x)


def test_complex_parts():
    x, y = torch.tensor([1.0, -2.0, 0.0]), torch.tensor([[0.5], [3.0]])
    check(torch.complex, x, y)
    check(torch.polar, x, y)
    check(torch.complex, x.double().requires_grad_(), y.double().requires_grad_())
    check(torch.polar, x.double().requires_grad_(), y.double().requires_grad_())
    check_error(torch.complex, x, y.double())
    check_error(torch.complex, x.long(), y)


def test_gradient_scaling():
    def unscale(*gradients):
        found = torch.zeros(1, device=gradients[0].device)
        scale = torch.full((1,), 0.125, device=gradients[0].device)
        copies = [g.clone() for g in gradients]
        torch._amp_foreach_non_finite_check_and_unscale_(copies, found, scale)
        return [*copies, found]

    check(unscale, torch.tensor([1.0, 2.0]), torch.ones(2, 2))
    check(unscale, torch.tensor([1.0, INF]), torch.ones(2, 2))
    check(unscale, torch.tensor([1.0, 2.0]), torch.tensor(NAN))

    def update(found):
        scale = torch.full((1,), 1024.0, device=found.device)
        tracker = torch.ones(1, dtype=torch.int32, device=found.device)
        for _ in range(4):
            torch._amp_update_scale_(scale, tracker, found, 2.0, 0.5, 3)
        return scale, tracker

    check(update, torch.zeros(1))
    check(update, torch.ones(1))


def test_false_times_nan_is_nan() -> None:
    """XLA makes a choice of a product with a bool, if it can see it: what is not finite stays so."""

    def products(x: torch.Tensor) -> list[torch.Tensor]:
        device = x.device
        mask = torch.tensor([False, True, False, True], device=device)
        complexes = torch.tensor([NAN, INF, 2, 3], device=device, dtype=torch.complex64)
        written = x.clone().mul_(mask)
        leaf = x.clone().requires_grad_()
        (leaf * mask).sum().backward()
        assert leaf.grad is not None
        ones = torch.tensor([-1.0, 1, -1, 1], device=device)
        return [
            x * mask, mask * x, x * (x == 1), x.addcmul(x, mask.float()), written, complexes * mask, x.bfloat16() * mask, x.unsqueeze(1) * mask,
            torch.outer(x, mask.float()), x @ mask.float(), x * mask.double(), torch.where(mask, 1.0, 0.0) * x, torch.heaviside(ones, x) * x,
            torch.tril(torch.ones(4, 4, device=device)) * x, torch.eye(4, device=device) * x, x.logical_not() * x, x * x.isfinite(),
            torch.nn.functional.one_hot(mask.long()).float() * x.unsqueeze(1), torch.stack([x, mask.float()]).prod(0), leaf.grad, (x * mask).sum(),
            torch.linalg.lu(torch.eye(4, device=device).flip(0))[0] * x,
        ]  # fmt: skip

    check(products, torch.tensor([NAN, INF, -INF, 1.0]))
