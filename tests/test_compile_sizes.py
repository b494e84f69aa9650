"""torch.compile(backend="xla_go") where sizes change: what is padded is right and needs few programs, what mixes is not padded."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from dynamo_support import compiled, compiles, count, fresh, xla  # noqa: F401


def close(actual: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(actual.detach().cpu(), expected.detach().cpu(), rtol=1e-4, atol=1e-5)


SIZES = (5, 6, 7, 8, 3, 4, 9, 16, 13)


def run_sizes(f: Callable[..., Any], make: Callable[[int], torch.Tensor], **keywords: Any) -> int:
    """Compares the results for many sizes, and gives how many programs were compiled for them."""
    g = compiled(f, dynamic=True, **keywords)
    before = compiles()
    with torch.no_grad():
        for n in SIZES:
            x = make(n)
            expected, actual = f(x), g(x.to(xla))
            for a, b in zip(*(r if isinstance(r, tuple) else (r,) for r in (actual, expected)), strict=True):
                if isinstance(b, torch.Tensor):
                    assert a.shape == b.shape
                    close(a, b)
                else:
                    assert a == b
    return compiles() - before


ROWS = {  # what works on each row for itself
    "pointwise": lambda x: (x * 2 + 1, x.exp().round()),
    "softmax of each row": lambda x: x.softmax(1),
    "statistics of each row": lambda x: (x.sum(1), x.mean(1, keepdim=True), x.amax(1), x.argmax(1)),
    "product": lambda x: x @ torch.ones(6, 3, device=x.device),
    "merged and divided": lambda x: ((x @ torch.ones(6, 6, device=x.device)).view(-1, 2, 3).transpose(1, 2).reshape(-1, 2).relu().view(-1, 6),),
    "transposed": lambda x: x.t().cumsum(0),
    "normalised": lambda x: torch.nn.functional.layer_norm(x, (6,)),
    "positions": lambda x: x + torch.arange(x.shape[0], device=x.device)[:, None],
    "its size": lambda x: (x + 1, x.shape[0], x.new_zeros(x.shape[0], 2)),
}


@pytest.mark.parametrize("name", ROWS)
def test_a_padded_size_needs_a_program_for_each_power_of_two(name: str) -> None:
    assert run_sizes(ROWS[name], lambda n: torch.randn(n, 6)) <= 3  # 4, 8 and 16


MIXING = {  # where rows meet, padding would be seen
    "sum": lambda x: x.sum(0),
    "mean of all": lambda x: x.mean(),
    "softmax over rows": lambda x: x.softmax(0),
    "sum from below": lambda x: x.flip(0).cumsum(0).flip(0),
    "largest": lambda x: (x - 10).amax(0),
    "product over rows": lambda x: (x + 1).t() @ (x + 1),
    "divided by the number of rows": lambda x: x / x.shape[0],
    "filled with the number of rows": lambda x: x.new_full((2,), x.shape[0]) + x.new_full((x.shape[0], 2), x.shape[0]),
    "positions from the number of rows on": lambda x: x + torch.arange(x.shape[0], 2 * x.shape[0], device=x.device)[:, None],
    "last row": lambda x: x[-1] + 0,
    "all in one": lambda x: x.t().reshape(-1) + 1,
    "first half": lambda x: x[: x.shape[0] // 2] * 2,
    "sorted": lambda x: x.sort(0).values,
}


@pytest.mark.parametrize("name", MIXING)
def test_a_size_that_mixes_is_not_padded(name: str) -> None:
    assert run_sizes(MIXING[name], lambda n: torch.randn(n, 6)) <= len(SIZES)


def test_a_model_with_batches_of_any_size() -> None:
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    there = copy.deepcopy(model).to(xla)
    g = compiled(there, dynamic=True)
    before = compiles()
    with torch.no_grad():
        for n in SIZES:
            x = torch.randn(n, 4, 16)
            close(g(x.to(xla)), model(x))
    assert compiles() - before <= 3


def test_training_with_batches_of_any_size() -> None:
    torch.manual_seed(0)
    ours = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    theirs = copy.deepcopy(ours)
    ours = ours.to(xla)
    g = compiled(ours, dynamic=True)
    for n in SIZES[:5]:
        x = torch.randn(n, 6)
        for model, value in ((g, x.to(xla)), (theirs, x)):
            model(value).square().sum().backward()
        for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
            close(p.grad, q.grad)


def test_a_size_that_is_not_padded_is_recorded_so_often() -> None:
    from xla_go._dynamo.program import RECORDINGS

    g = compiled(lambda x: x.sum(0) * 2, dynamic=True)
    before = count("RecordedProgram")
    with torch.no_grad():
        for n in range(3, 3 + RECORDINGS + 4):
            x = torch.randn(n, 2)
            close(g(x.to(xla)), x.sum(0) * 2)
    assert count("RecordedProgram") - before == RECORDINGS
