"""Faults that users of lazy tensor systems have reported, as kinds: each program gives on the device what it gives on the CPU.

The lists are small programs over a device's name; their results are compared as Python values, dtypes included.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import xla_go

NAN, INF = float("nan"), float("inf")


def on(device: str, values: Any, dtype: torch.dtype | None = None) -> torch.Tensor:
    return torch.tensor(values, dtype=dtype).to(device)


def full(device: str, value: float) -> torch.Tensor:
    return torch.full((2, 2), value).to(device)


def operands_in_another_order(d: str) -> Any:
    """Two graphs with the same inputs, outputs and operators, wired differently."""
    results = []
    for combine in (lambda a, b, c: a * b + c, lambda a, b, c: a * c + b, lambda a, b, c: b * c + a):
        a, b, c = full(d, 2), full(d, 3), full(d, 4)
        r = (a.t(), b.t(), c.t(), combine(a, b, c))
        xla_go.sync()
        results.append(r[3])
    return results


def mutating_and_pure(d: str) -> Any:
    """The same sum, once into an operand and once into a new tensor."""
    a, b = on(d, [10.0]), on(d, [1.0])
    xla_go.sync()
    b.add_(a)
    xla_go.sync()
    c = b + a
    xla_go.sync()
    return [a, b, c]


def one_operand_twice(d: str) -> Any:
    a, b = on(d, [1.0, 2.0]), on(d, [3.0, 4.0])
    return [a - a, a - b, b - a, a * b - b * b]


def gradient_of_a_slice_write(d: str) -> Any:
    w = torch.ones(3, 2, device=d, requires_grad=True)
    y = on(d, [[1.0, 2.0], [3.0, 4.0]]) @ w.t()
    y[:, :1] = 0
    y.sum().backward()
    return w.grad


def gradient_of_split(d: str) -> Any:
    x = on(d, [1.0, 2.0, 3.0]).requires_grad_()
    return torch.autograd.grad(torch.split((x * x).view(-1), 1), x, create_graph=True)[0]


def double_backward_of_grouped_convolution(d: str) -> Any:
    generator = torch.Generator().manual_seed(0)
    w = torch.randn(4, 1, 2, generator=generator).to(d).requires_grad_()
    x = torch.randn(1, 2, 5, generator=generator).to(d).requires_grad_()
    y = F.conv1d(x, w, groups=2)
    first = torch.autograd.grad(y, [x, w], y, create_graph=True)
    return list(torch.autograd.grad(sum((g * g).sum() for g in first), [x, w]))


def copies_keep_the_device(d: str) -> Any:
    t = torch.ones(2, device=d)
    return [copy.copy(t).device == t.device, copy.deepcopy(t).device == t.device, copy.deepcopy(nn.Linear(2, 2).to(d)).weight.device == t.device]


def dtypes_after_moving(d: str) -> Any:
    embedding, linear = nn.Embedding(4, 2).to(d).to(torch.bfloat16), nn.Linear(2, 2).to(d).to(torch.bfloat16)
    y = linear(embedding(on(d, [1, 2])))
    y.sum().backward()
    return [str(y.dtype), str(linear.weight.grad.dtype), str(on(d, [1, 2]).to(torch.float32).dtype)]


def half_precision_in_place(d: str) -> Any:
    w = on(d, [[4.0, 8.0]], torch.bfloat16).requires_grad_()
    x = w * 1
    x *= 0.5
    x.sum().backward()
    return [x, w.grad]


def losses_of_mixed_types(d: str) -> Any:
    if torch.__version__.startswith("2.9"):
        pytest.skip("torch 2.9's CPU kernel refuses the backward of a loss of two types")
    x = on(d, [0.5, -1.5, 2.0], torch.bfloat16).requires_grad_()
    loss = F.mse_loss(x, on(d, [0.25, 0.0, 1.0]))
    loss.backward()
    return [loss, x.grad]


def double_keeps_its_digits(d: str) -> Any:
    t = on(d, 2147483647).to(torch.double)
    return [t < 2147483647 + 0.9, t < 2147483647.0, on(d, [0.1], torch.double) + 0.2, on(d, [2**53 + 1])]


def masked_assignment(d: str) -> Any:
    a = on(d, [1, 2, 3, 4]).to(torch.float32)
    a[on(d, [False, True, False, True])] = 0
    b = a.clone()
    b[b == 0] = -1
    return [a, b, torch.where(a > 0, a, NAN)]


def ignored_targets(d: str) -> Any:
    x = on(d, [[1.0, 2.0], [3.0, 4.0]]).requires_grad_()
    loss = F.nll_loss(F.log_softmax(x, 1), on(d, [1, 1]), ignore_index=1)
    loss.backward()
    some = F.cross_entropy(torch.zeros(4, 7, device=d), on(d, [-1, 6, -1, 2]), ignore_index=-1)
    return [loss, x.grad, some]


def pooled_past_the_edge(d: str) -> Any:
    x = torch.arange(54.0).view(1, 1, 6, 9).to(d)
    return [F.max_pool2d(x, 2, stride=3, ceil_mode=True), F.avg_pool2d(x, 2, stride=3, ceil_mode=True, padding=1)]


def scaled_by_a_given_factor(d: str) -> Any:
    x = torch.arange(0.0, 18.0, 3.0).view(1, 1, 2, 3).to(d)
    return [F.interpolate(x, scale_factor=1.5, mode=m, align_corners=False) for m in ("bilinear", "bicubic")]


def indices_of_a_view(d: str) -> Any:
    x = torch.zeros(3, 2, device=d)
    index = on(d, [2, 0, 1]).narrow(0, 0, 2)
    return x.index_copy_(0, index, on(d, [[7.0, 7.0], [9.0, 9.0]]))


def clamp_and_extremes_keep_nan(d: str) -> Any:
    x = on(d, [NAN, -5.0, 5.0, INF, -INF, -0.0])
    return [
        torch.clamp(x, 0.0, 1.0), x.max(), x.min(), torch.maximum(x, on(d, 0.0)), torch.fmax(x, on(d, 0.0)), F.relu(x),
        on(d, [1.0, NAN, 3.0]).argmax(), on(d, [1.0, NAN, 3.0]).argmin(), on(d, [1.0, 4.0, 0.0, 4.0, 0.0]).argmax(),
        x.sort()[0], torch.nan_to_num(x, nan=-INF, posinf=INF, neginf=-INF), x.sum(), torch.sign(x), x.cummax(0)[0],
    ]  # fmt: skip


def empty_dimensions(d: str) -> Any:
    a, none = torch.zeros(0, 2, 1, device=d), on(d, [], torch.int64)
    return [
        torch.gather(a, 0, torch.empty(0, 2, 1, dtype=torch.int64, device=d)), a.index_select(0, none), a.sum(0), a.prod(), a.roll(1, 0), a.flip(0),
        torch.cat([a, a]), a.sort(0)[0], a.cumsum(0), a.softmax(0), a.mean(1), a[:-1:2], torch.zeros(3, 0, device=d)[:, 1::2], a.transpose(0, 1) @ torch.zeros(2, 1, 3, device=d),
        list(torch.empty(0, 4, device=d).stride()), torch.randint_like(torch.zeros(0, 3, dtype=torch.uint8, device=d), 9), a.any(), a.all(0), a.norm(),
    ]  # fmt: skip


def integer_arithmetic(d: str) -> Any:
    x, small = on(d, [-7, 7, 0], torch.int32), on(d, [9, 16, 17], torch.uint8)
    flags = on(d, [False, True, True])
    return [
        torch.div(x, 2, rounding_mode="floor"), torch.div(x, 2, rounding_mode="trunc"), x / 2, x % 3, x // -3, torch.fmod(x, 3), torch.pow(small, 2), small + 250,
        flags & flags.byte(), flags + flags, torch.cumsum(flags, 0), flags.sum(), x * 1.5, x + True, on(d, [3, 2000000000]) @ on(d, [2, 3]) + 1, small >> 1, ~x, x.abs(), small - 17,
        torch.sort(on(d, [-128, 100, 0, -127], torch.int8), descending=True)[0], torch.sort(on(d, [-128, 100, 0, -127], torch.int8), descending=True)[1], x.float().round().to(torch.int16),
    ]  # fmt: skip


def scalar_operands(d: str) -> Any:
    half = on(d, [1.0, 2.0, 3.0], torch.bfloat16)
    return [half / math.sqrt(128), half * 0.1, 2**0.5 - half, half + 1e-3, torch.add(half, half, alpha=0.3), on(d, [1, 2]) * 0.5, on(d, 2) * on(d, [1.5]), on(d, 1.5) * on(d, [2]), on(d, [1.0]) + 1j]


def one_value_for_life(d: str) -> Any:
    torch.manual_seed(0)
    r = torch.randn(64, device=d).mul(3).abs().to(torch.uint8)
    once = r.tolist()
    r.to(torch.float64).tolist()
    torch.manual_seed(0)
    again = torch.randn(64, device=d).mul(3).abs().to(torch.uint8).tolist()
    return [once == r.tolist(), once == again, once != torch.randn(64, device=d).mul(3).abs().to(torch.uint8).tolist()]


PROGRAMS: list[Callable[[str], Any]] = [
    operands_in_another_order, mutating_and_pure, one_operand_twice, gradient_of_a_slice_write, gradient_of_split,
    double_backward_of_grouped_convolution, copies_keep_the_device, dtypes_after_moving, half_precision_in_place, losses_of_mixed_types,
    double_keeps_its_digits, masked_assignment, ignored_targets, pooled_past_the_edge, scaled_by_a_given_factor, indices_of_a_view,
    clamp_and_extremes_keep_nan, empty_dimensions, integer_arithmetic, scalar_operands, one_value_for_life,
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_as_on_the_cpu(program: Callable[[str], Any]) -> None:
    compare(program("xla"), program("cpu"), "result")


def compare(got: Any, want: Any, what: str) -> None:
    if isinstance(want, list | tuple):
        assert len(got) == len(want), what
        for i, (g, w) in enumerate(zip(got, want, strict=True)):
            compare(g, w, f"{what}[{i}]")
    elif isinstance(want, torch.Tensor):
        assert got.dtype == want.dtype, f"{what}: {got.dtype}, expected {want.dtype}"
        torch.testing.assert_close(got.detach().cpu(), want.detach(), equal_nan=True, msg=lambda m: f"{what}: {m}")
    else:
        assert got == want, what


ERRORS: list[Callable[[str], Any]] = [
    lambda d: torch.max(torch.zeros(2, 0, 4, device=d)),
    lambda d: torch.zeros(2, 3, device=d) + torch.zeros(2, device=d),
    lambda d: torch.zeros(2, 3, device=d) @ torch.zeros(2, 3, device=d),
    lambda d: torch.zeros(2, device=d).add_(torch.zeros(3, 2, device=d)),
    lambda d: on(d, [1, 2]).add_(0.5),
    lambda d: on(d, [True]) - on(d, [True]),
    lambda d: torch.zeros(2, 3, device=d).sum(5),
    lambda d: torch.zeros(2, 3, device=d).view(4),
    lambda d: torch.cat([torch.zeros(2, 3, device=d), torch.zeros(2, 2, device=d)]),
    lambda d: torch.zeros(3, device=d)[5],
    lambda d: F.conv2d(torch.zeros(1, 3, 4, 4, device=d), torch.zeros(2, 4, 3, 3, device=d)),
    lambda d: torch.zeros(2, device=d).softmax(0, dtype=torch.int64),
    lambda d: torch.zeros(4, device=d).requires_grad_().add_(1),
    lambda d: torch.zeros(2, 2, device=d).item(),
]


@pytest.mark.parametrize("program", ERRORS, ids=range(len(ERRORS)))
def test_errors_are_the_cpus(program: Callable[[str], Any]) -> None:
    with pytest.raises(Exception) as want:
        program("cpu")
    with pytest.raises(type(want.value)) as got:
        result = program("xla")
        if isinstance(result, torch.Tensor):
            result.cpu()
    assert str(want.value).split("\n")[0].split(" (Trig")[0] in str(got.value)
