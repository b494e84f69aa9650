"""Functions that are traced once and are one operator afterwards."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import xla_go
from xla_go import debug, errors, metrics
from xla_go.pure_function import PureFunction


def test_later_calls_are_one_operator() -> None:
    traced = 0

    def function(state: dict[str, torch.Tensor], x: torch.Tensor, *, factor: float) -> tuple[Any, ...]:
        nonlocal traced
        traced += 1
        y = torch.nn.functional.linear(x, state["w"], state["b"]) * factor
        return y.relu(), "text", y.argmax(1), x

    pure = PureFunction(function)
    w, b, x = torch.randn(4, 3), torch.randn(4), torch.randn(2, 3)
    for _ in range(3):
        ours = [one.to("xla").requires_grad_() for one in (w, b, x)]
        y, text, largest, same = pure({"w": ours[0], "b": ours[1]}, ours[2], factor=1.5)
        (y * y).sum().backward()
    theirs = [one.clone().requires_grad_() for one in (w, b, x)]
    wanted = function({"w": theirs[0], "b": theirs[1]}, theirs[2], factor=1.5)
    (wanted[0] * wanted[0]).sum().backward()
    torch.testing.assert_close(y.detach().cpu(), wanted[0].detach())
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one.grad.cpu(), other.grad)
    assert text == "text" and largest.tolist() == wanted[2].tolist() and not largest.requires_grad
    torch.testing.assert_close(same.detach().cpu(), x)
    assert (traced, len(pure.programs)) == (2, 2)
    with torch.no_grad():
        pending = pure({"w": ours[0], "b": ours[1]}, ours[2], factor=1.5)[0]
    graph = debug.graph(pending)
    assert graph.ir.count("xla_go::call_module") == 1 and "aten::" not in graph.ir
    assert "op_name=" in graph.hlo  # the operators' own names are in the module


def test_random_numbers_go_on() -> None:
    pure = PureFunction(lambda x: torch.nn.functional.dropout(x, 0.5))
    x = torch.ones(64, device="xla", requires_grad=True)
    xla_go.manual_seed(7)
    first, second = pure(x), pure(x)
    first.sum().backward()
    assert x.grad.ne(0).tolist() == first.ne(0).tolist() != second.ne(0).tolist()
    xla_go.manual_seed(7)
    plain = torch.nn.functional.dropout(x, 0.5)
    assert plain.tolist() == first.tolist()  # what the function itself would have drawn
    seeded = PureFunction(torch.rand_like, seeded=True)
    state = torch.xla.get_rng_state()
    draws = [seeded(x, rng_seed=seed).tolist() for seed in (0, 1, 0)]
    assert draws[0] == draws[2] != draws[1] and torch.xla.get_rng_state().equal(state)
    with pytest.raises(TypeError, match="a keyword rng_seed"):
        seeded(x)


def test_functions_in_functions_and_values_from_outside() -> None:
    outside = torch.full((3,), 2.0, device="xla")
    inner = PureFunction(lambda x: x.exp() * outside)
    outer = PureFunction(lambda x: inner(x).sum() + 1)
    x = torch.zeros(3, device="xla", requires_grad=True)
    for _ in range(2):
        x.grad = None
        outer(x).backward()
        assert x.grad.tolist() == [2, 2, 2]
    outside.zero_()
    assert outer(x).item() == 7  # as it was


def test_what_is_no_pure_function() -> None:
    x = torch.ones(3, device="xla", requires_grad=True)
    weight = torch.ones(3, device="xla", requires_grad=True)
    for function, kind, words in (
        (lambda x: x * weight, ValueError, "give it as an argument"),
        (lambda x: x.detach().zero_(), errors.FailedPreconditionError, "in-place operation"),
        (lambda x: x * x.sum().item(), errors.FailedPreconditionError, "placeholder"),
        (lambda x: x.cpu(), errors.FailedPreconditionError, "placeholder"),
        (lambda x: torch.zeros(2), ValueError, "gives tensors on device xla"),
    ):
        with pytest.raises(kind, match=words):
            PureFunction(function)(x)
    xla_go.sync()  # nothing of them is left


def test_without_a_device_the_function_is_called() -> None:
    pure = PureFunction(lambda x: x + 1)
    assert pure(torch.ones(2)).tolist() == [2, 2] and not pure.programs
    before = metrics.counter_value("xla::call_module") or 0
    pure(torch.ones(2, device="xla"))
    assert metrics.counter_value("xla::call_module") == before + 1
