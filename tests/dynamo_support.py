"""What the tests of torch.compile's backends share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import xla_go
from xla_go import metrics

BACKEND = "xla_go"
xla = torch.device("xla")


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Begins and ends each test with nothing compiled, and begins it with nothing left to compute of an earlier one."""
    torch._dynamo.reset()
    xla_go.sync(wait=True)
    yield
    torch._dynamo.reset()


def count(name: str) -> int:
    return metrics.counter_value(name) or 0


def compiles() -> int:
    return count("UncachedCompile")


def compiled(function: Callable[..., Any], **keywords: Any) -> Callable[..., Any]:
    return torch.compile(function, backend=BACKEND, **keywords)
