"""Reductions, order statistics and norms on device xla, compared with torch's CPU kernels."""

from __future__ import annotations

import pytest
import torch
from oracle import assert_same, check, check_error, moved

# Variances of one element are part of the cases.
pytestmark = pytest.mark.filterwarnings("ignore:.*degrees of freedom is <= 0")

NAN, INF = float("nan"), float("inf")
FLOATS = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
INTEGERS = [torch.int64, torch.int32, torch.uint8, torch.bool]
COMPLEX = [torch.complex64]
SIZES = [(3, 5, 2), (7,), (), (0, 3), (4, 1)]


def values(size, dtype, seed=3):
    """Numbers of both signs and with equal ones among them, as exact as dtype is."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randint(-6, 7, size, generator=generator).double() / 2
    if dtype.is_complex:
        return torch.complex(x, torch.flip(x, list(range(x.dim())))).to(dtype)
    return x.abs().to(dtype) if dtype in (torch.uint8, torch.bool) else x.to(dtype)


def every(functions):
    """One function that gives the results of all, in the order of their names' table: one program."""
    return lambda x: [function(x) for function in functions.values()]


SUMS = {
    "sum": torch.sum,
    "sum of 0": lambda x: x.sum(0),
    "sum of -1, kept": lambda x: x.sum(-1, keepdim=True),
    "sum of ()": lambda x: x.sum(dim=()),
    "sum in float64": lambda x: x.sum(0, dtype=torch.float64),
    "sum in int32": lambda x: x.real.sum(dtype=torch.int32),
    "prod": torch.prod,
    "prod of 0": lambda x: x.prod(0),
    "prod kept": lambda x: x.prod(-1, keepdim=True),
    "count_nonzero": torch.count_nonzero,
    "count_nonzero of 0": lambda x: torch.count_nonzero(x, 0),
    "all": torch.all,
    "all of 0": lambda x: x.all(0),
    "all of ()": lambda x: x.all(dim=()),
    "any": torch.any,
    "any kept": lambda x: x.any(-1, keepdim=True),
}


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS + COMPLEX, ids=str)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_sums(size, dtype):
    check(every(SUMS), values(size, dtype))


MEANS = {
    "mean": torch.mean,
    "mean of 0": lambda x: x.mean(0),
    "mean kept": lambda x: x.mean(-1, keepdim=True),
    "mean in float64": lambda x: x.real.mean(dtype=torch.float64),
    "var": lambda x: x.var(0),
    "std kept": lambda x: x.std(-1, keepdim=True),
    "var of all": torch.var,
    "var without correction": lambda x: x.var(0, correction=0),
    "var with half a correction": lambda x: x.var(-1, correction=0.5),
    "var_mean": lambda x: torch.var_mean(x, 0),
    "std_mean": lambda x: torch.std_mean(x),
    "norm": torch.linalg.vector_norm,
    "norm of 0": lambda x: torch.linalg.vector_norm(x, dim=0),
    "norm 1 kept": lambda x: torch.linalg.vector_norm(x, 1, dim=-1, keepdim=True),
    "norm 0": lambda x: torch.linalg.vector_norm(x, 0),
    "norm 3": lambda x: torch.linalg.vector_norm(x, 3, dim=0),
    "norm 0.5": lambda x: torch.linalg.vector_norm(x, 0.5),
    "torch.norm": torch.norm,
    "torch.norm of 0": lambda x: torch.norm(x, 3, dim=0),
    "logsumexp": lambda x: torch.logsumexp(x, 0),
    "logsumexp kept": lambda x: torch.logsumexp(x, -1, keepdim=True),
}


@pytest.mark.parametrize("dtype", FLOATS + COMPLEX, ids=str)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_means(size, dtype):
    check(every(MEANS), values(size, dtype))


GRADIENTS = [
    "sum",
    "sum of 0",
    "prod of 0",
    "mean",
    "mean of 0",
    "var",
    "std kept",
    "var_mean",
    "norm",
    "norm 1 kept",
    "norm 3",
    "logsumexp",
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_of_sums(name, dtype):
    x = torch.randn(3, 5, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64).to(dtype)
    check((SUMS | MEANS)[name], x.requires_grad_())


EXTREMA = {
    "max": torch.max,
    "min": torch.min,
    "max of 0": lambda x: x.max(0),
    "max of -1": lambda x: x.max(-1),
    "min kept": lambda x: x.min(0, keepdim=True),
    "amax": torch.amax,
    "amin kept": lambda x: x.amin(-1, keepdim=True),
    "aminmax": torch.aminmax,
    "aminmax of 0": lambda x: torch.aminmax(x, dim=0),
    "norm inf": lambda x: torch.linalg.vector_norm(x.double(), INF, dim=0),
    "norm -inf": lambda x: torch.linalg.vector_norm(x.double(), -INF),
}
ARGUMENTS = {
    "argmax": torch.argmax,
    "argmin of 0": lambda x: x.argmin(0),
    "argmax kept": lambda x: x.argmax(-1, keepdim=True),
    "argmin of all, kept": lambda x: x.argmin(keepdim=True),
}


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS, ids=str)
@pytest.mark.parametrize("size", [(3, 5, 2), (7,), (), (4, 1)], ids=str)
def test_extrema(size, dtype):
    check(every(EXTREMA), values(size, dtype))


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS[:3], ids=str)
@pytest.mark.parametrize("size", [(3, 5, 2), (7,), (), (4, 1)], ids=str)
def test_positions_of_extrema(size, dtype):
    check(every(ARGUMENTS), values(size, dtype))


@pytest.mark.parametrize("name", EXTREMA | ARGUMENTS)
def test_extrema_of_special_numbers(name):
    rows = [
        [1.0, NAN, 3.0, NAN],
        [INF, 1.0, INF, -INF],
        [-INF, -INF, -INF, -INF],
        [NAN, NAN, NAN, NAN],
        [2.0, 2.0, 1.0, 1.0],
    ]
    check((EXTREMA | ARGUMENTS)[name], torch.tensor(rows))
    check((EXTREMA | ARGUMENTS)[name], torch.tensor(rows[1:3]).mT)


@pytest.mark.parametrize("name", ["max", "max of -1", "min kept", "amax", "amin kept", "norm inf"])
def test_gradients_of_extrema(name):
    x = torch.randn(3, 5, generator=torch.Generator().manual_seed(1))
    check(EXTREMA[name], x.requires_grad_())
    check(EXTREMA[name], torch.ones(2, 3).requires_grad_())


# torch's running mean turns an infinite element into NaN, where ours stays infinite; its integers
# made of infinite numbers mean nothing.
UNLIKE = {"var_mean", "sum in int32"}


@pytest.mark.parametrize("name", [name for name in SUMS | MEANS if name not in UNLIKE])
def test_special_numbers(name):
    x = torch.tensor([[1.0, NAN, -0.0], [INF, 1.0, 2.0], [INF, -INF, 0.0], [-INF, -INF, -INF]])
    check(lambda x: [(SUMS | MEANS)[name](x), (SUMS | MEANS)[name](x.mT)], x)


@pytest.mark.parametrize("name", ["sum", "mean of 0", "std kept", "norm", "argmax kept", "max of 0"])
def test_strided(name):
    functions = SUMS | MEANS | EXTREMA | ARGUMENTS
    x = values((6, 4, 5), torch.float32)
    check(functions[name], x[::2, 1:3].transpose(0, 2))
    check(lambda x: functions[name](x[:, :1].expand(6, 3, 5)), x)


def test_sum_keeps_its_precision():
    check(torch.sum, torch.full((300_000,), 0.1), tolerance=(1e-5, 0))
    check(lambda x: x.sum(0), torch.full((70_000, 2), 0.1, dtype=torch.bfloat16))
    check(lambda x: x.mean(), torch.full((70_000,), 300.0, dtype=torch.float16))


ORDERED = {
    "median": torch.median,
    "nanmedian": torch.nanmedian,
    "median of 0": lambda x: x.median(0).values,
    "nanmedian kept": lambda x: x.nanmedian(-1, keepdim=True).values,
    "kthvalue": lambda x: x.kthvalue(1).values,
    "kthvalue of 0": lambda x: x.kthvalue(min(2, x.shape[0]) if x.dim() else 1, 0).values,
    "mode": lambda x: x.mode(0).values,
    "mode kept": lambda x: x.mode(-1, keepdim=True).values,
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.uint8], ids=str)
@pytest.mark.parametrize("size", [(3, 5, 2), (8,), (), (4, 1)], ids=str)
def test_order_statistics(size, dtype):
    check(every(ORDERED), values(size, dtype))


@pytest.mark.parametrize("name", ["median", "nanmedian", "median of 0", "nanmedian kept", "kthvalue"])
def test_order_statistics_with_nan(name):
    check(ORDERED[name], torch.tensor([[3.0, NAN, 1.0, 2.0], [NAN, NAN, NAN, NAN], [INF, -INF, NAN, 0.0]]))


def test_positions_of_order_statistics():
    x = torch.randperm(40, generator=torch.Generator().manual_seed(2)).reshape(4, 10).double()
    check(lambda x: x.median(1), x.requires_grad_())
    check(lambda x: x.kthvalue(4), x.detach().requires_grad_())
    check(lambda x: x.nanmedian(0, keepdim=True), x.detach().requires_grad_())


def test_trace_renorm_dist():
    x = torch.randn(4, 6, generator=torch.Generator().manual_seed(4))
    check(torch.trace, x.requires_grad_())
    check(torch.trace, torch.arange(6, dtype=torch.int32).reshape(2, 3))
    check(lambda x: x.renorm(2, 0, 1.5), x.detach())
    check(lambda x: x.clone().renorm_(1, 1, 0.5), x.detach())
    check(torch.dist, x.detach(), x.detach()[:1])
    check(lambda x: torch.nansum(x, 1), torch.tensor([[1.0, NAN], [NAN, NAN]]))


def test_clip_grad_norm():
    def clip(x, y):
        x, y = x.clone(), y.clone()
        x.grad, y.grad = x.detach() * 3, y.detach() - 1
        norm = torch.nn.utils.clip_grad_norm_([x, y], 0.7, foreach=False)
        return norm, x.grad, y.grad

    check(clip, torch.randn(5), torch.randn(2, 3))


def test_out():
    x = values((3, 4), torch.float32)
    results = []
    for tensor in (x, moved(x)):
        total, value, index = (
            tensor.new_empty(4),
            tensor.new_empty(0),
            torch.empty(0, dtype=torch.int64, device=tensor.device),
        )
        torch.sum(tensor, 0, out=total)
        torch.max(tensor, 1, out=(value, index))
        results.append((total, value, index))
    for want, got in zip(*results, strict=True):
        assert_same(got, want, "out")


ERRORS = {
    "dim outside": lambda x: x.sum(3),
    "dim twice": lambda x: x.mean((0, -2)),
    "mean of integers": lambda x: x.long().mean(),
    "mean in integers": lambda x: x.mean(dtype=torch.int64),
    "max of nothing": lambda x: x[:0].max(),
    "max of no rows": lambda x: x[:0].max(0),
    "amax of nothing": lambda x: x[:0].amax(),
    "amin of no rows": lambda x: x[:0].amin((0, 1)),
    "argmax of nothing": lambda x: x[:0].argmax(),
    "argmin of no rows": lambda x: x[:0].argmin(0),
    "argmax of bool": lambda x: (x > 0).argmax(),
    "aminmax of nothing": lambda x: torch.aminmax(x[:0]),
    "max of complex": lambda x: torch.complex(x, x).max(),
    "var of integers": lambda x: x.long().var(),
    "norm of integers": lambda x: torch.linalg.vector_norm(x.long()),
    "norm inf of nothing": lambda x: torch.linalg.vector_norm(x[:0], INF),
    "norm -1 of no rows": lambda x: torch.linalg.vector_norm(x[:0], -1.5, dim=0),
    "narrow norm": lambda x: torch.linalg.vector_norm(x, dtype=torch.float16),
    "kthvalue outside": lambda x: x.kthvalue(9),
    "median of no rows": lambda x: x[:0].median(0),
    "trace of a row": lambda x: x[0].trace(),
    "renorm of a row": lambda x: x[0].renorm(2, 0, 1.0),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name):
    check_error(ERRORS[name], torch.ones(2, 3))
