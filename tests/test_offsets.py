"""A slice that moves is compiled twice at most: as it is, and once more with its offsets as parameters."""

from __future__ import annotations

import pytest
import torch

import xla_go
from xla_go import metrics

pytestmark = pytest.mark.once


def compiles() -> int:
    return metrics.counter_value("UncachedCompile") or 0


def test_a_moving_window_is_read_by_one_program() -> None:
    x = torch.arange(40.0).reshape(4, 10).to("xla")
    want = x.cpu()
    xla_go.sync(wait=True)
    before = compiles()
    for i in range(7):
        assert (x[:, i : i + 3] * 2).sum().item() == (want[:, i : i + 3] * 2).sum().item()
    assert compiles() - before <= 2


def test_rows_columns_and_elements_move() -> None:
    x = torch.arange(60.0).reshape(3, 4, 5).to("xla")
    want = x.cpu()
    xla_go.sync(wait=True)
    before = compiles()
    for i in range(3):
        for j in range(4):
            y = x[i, j] + x[:, j].sum(0) + x[i].t()[2, j]
            torch.testing.assert_close(y.cpu(), want[i, j] + want[:, j].sum(0) + want[i].t()[2, j], rtol=0, atol=0)
    # The kinds of offsets vary one after another here: j first, i later.
    assert compiles() - before <= 3


def test_a_cache_is_written_at_a_moving_place() -> None:
    cache = torch.zeros(2, 16, 3).to("xla")
    want = torch.zeros(2, 16, 3)
    xla_go.sync(wait=True)
    before = compiles()
    for i in range(16):
        value = torch.full((2, 3), float(i))
        cache[:, i] = value.to("xla") * 2
        want[:, i] = value * 2
        xla_go.sync()
    torch.testing.assert_close(cache.cpu(), want, rtol=0, atol=0)
    assert compiles() - before <= 2


def test_steps_and_windows_past_a_row_end() -> None:
    x = torch.arange(35.0).reshape(5, 7).to("xla")
    want = x.cpu()
    for i in range(5):
        y = x.as_strided((2, 3), (7, 2), i) * 1 + x.as_strided((2, 2), (14, 1), 2 * i)[0, 0]
        torch.testing.assert_close(y.cpu(), want.as_strided((2, 3), (7, 2), i) + want.as_strided((2, 2), (14, 1), 2 * i)[0, 0], rtol=0, atol=0)


def test_updates_keep_their_memory() -> None:
    x = torch.zeros(64, 128).to("xla")
    for i in range(8):
        x[i].add_(float(i))
        xla_go.sync()
    total = x.sum(1).cpu()
    assert total[:8].tolist() == [128.0 * i for i in range(8)]
    donated = metrics.metric_data("InputOutputAliasCount")
    assert donated is not None and donated[2][-2][1] >= 1
