"""Eager mode: each operator is a step of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import nn

import xla_go

xla = torch.device("xla")


@pytest.fixture(autouse=True)
def eager() -> Iterator[None]:
    xla_go.eager_mode(True)
    yield
    xla_go.eager_mode(False)


def counted(name: str) -> int:
    data = xla_go.metrics.metric_data(name)
    return data[0] if data else 0


def test_each_operator_runs_at_once() -> None:
    assert xla_go.is_eager_mode()
    x = torch.arange(47.0).to(xla)
    runs, compiles = counted("EagerOpExecuteTime"), counted("EagerOpCompileTime")
    y = x * 2
    y = y * 2
    assert counted("EagerOpExecuteTime") - runs == 2
    assert counted("EagerOpCompileTime") - compiles == 1
    with xla_go.strict():  # reads what has run, compiles nothing
        assert torch.equal((y * 2).cpu(), torch.arange(47.0) * 8)


def test_leaving_eager_mode_gathers_again() -> None:
    xla_go.eager_mode(False)
    assert not xla_go.is_eager_mode()
    x = torch.arange(3.0).to(xla)
    runs = counted("ExecuteTime")
    y = x * 2 + 1 - 3
    assert counted("ExecuteTime") == runs
    assert torch.equal(y.cpu(), torch.arange(3.0) * 2 + 1 - 3)


def test_views_and_writes_in_place() -> None:
    x = torch.arange(12.0).reshape(3, 4)
    y = x.to(xla)
    for t in (x, y):
        t[1, 2:] += 5
        t.t()[0].mul_(3)
        t[2] = t[0]
        t.view(-1)[::2].zero_()
    assert torch.equal(x, y.cpu())


def test_training_equals_the_cpu() -> None:
    losses = []
    for device in ("cpu", "xla"):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2)).to(device)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
        x, target = torch.linspace(-1, 1, 24).reshape(6, 4).to(device), torch.tensor([0, 1, 0, 1, 1, 0]).to(device)
        for _ in range(3):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), target)
            loss.backward()
            optimizer.step()
        losses.append(loss.item())
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
