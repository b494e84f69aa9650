"""Positions and classes out of range: each operator refuses what torch's CPU kernel refuses, in its words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import pytest
import torch
import torch.nn.functional as F

import xla_go

xla = torch.device("xla")
aten = torch.ops.aten

X = torch.arange(24.0).reshape(2, 3, 4)


@dataclass
class Case:
    """A call with positions from a list of numbers, in the types of positions that it takes."""

    name: str
    call: Callable[[torch.Tensor], torch.Tensor]
    bad: tuple[tuple[int, ...], ...]  # lists of which torch refuses each
    good: tuple[int, ...]
    types: tuple[torch.dtype, ...] = (torch.int64,)


BOTH = (torch.int64, torch.int32)


def device_of(index: torch.Tensor) -> torch.Tensor:
    """X where the index is."""
    return X.to(index.device)


def ones(index: torch.Tensor, *sizes: int) -> torch.Tensor:
    return torch.ones(sizes, device=index.device)


def columns(index: torch.Tensor) -> torch.Tensor:
    """One position for each of two rows, as gather and scatter take them along the last dimension of a 2 x 4 matrix."""
    return index.reshape(2, 1)


def matrix(index: torch.Tensor) -> torch.Tensor:
    return device_of(index)[:, 0]


def one_number(index: torch.Tensor) -> torch.Tensor:
    return torch.tensor(1.0, device=index.device)


def scores(index: torch.Tensor) -> torch.Tensor:
    return X[0].to(index.device).log_softmax(1)


def image(index: torch.Tensor) -> torch.Tensor:
    return X.reshape(1, 6, 2, 2).to(index.device)


def plane(index: torch.Tensor) -> torch.Tensor:
    return index.reshape(1, 2, 2)


ANY_SIGN = ((0, 9), (9, 0), (-9, 1))  # for operators that count from the end
POSITIVE = ((0, 9), (9, 0), (-1, 1), (1, -9))
CLASSES = ((0, 9, 1), (0, -1, 1), (8, 9, -7))
PLANES = ((0, 9, 1, 2), (0, -1, 1, 2))

CASES = [
    Case("gather", lambda i: matrix(i).gather(1, columns(i)), POSITIVE, (0, 3), BOTH),
    Case("gather of rows", lambda i: matrix(i).gather(0, i.unsqueeze(1).expand(2, 4).contiguous()), POSITIVE, (0, 1), BOTH),
    Case("gather, one position for a row", lambda i: matrix(i).gather(0, i.unsqueeze(1).expand(2, 4)), POSITIVE, (0, 1)),
    Case("gather of a vector", lambda i: matrix(i)[0].gather(0, i), POSITIVE, (0, 3), BOTH),
    Case("gather of a number", lambda i: one_number(i).gather(0, i[0]), ((9, 0), (-1, 0)), (0, 0), BOTH),
    Case("take", lambda i: device_of(i).take(i), ((0, 24), (99, 1), (-25, 1)), (0, -24)),
    Case("index", lambda i: device_of(i)[i], ANY_SIGN, (0, -2), BOTH),
    Case("index of the last dimension", lambda i: device_of(i)[..., i], ANY_SIGN, (0, -4), BOTH),
    Case("index by two, the second wrong", lambda i: device_of(i)[torch.zeros_like(i), i], ANY_SIGN, (0, -3), BOTH),
    Case("index by two, apart", lambda i: device_of(i)[i, :, i], ANY_SIGN, (0, -2), BOTH),
    Case("index by a matrix", lambda i: device_of(i)[:, columns(i)], ANY_SIGN, (0, -3), BOTH),
    Case("index_select 0", lambda i: device_of(i).index_select(0, i), POSITIVE, (0, 1), BOTH),
    Case("index_select 1", lambda i: device_of(i).index_select(1, i), POSITIVE, (0, 2), BOTH),
    Case("index_select 2", lambda i: device_of(i).index_select(2, i), POSITIVE, (0, 3), BOTH),
    Case("index_select of a vector", lambda i: matrix(i)[0].index_select(0, i), POSITIVE, (0, 3), BOTH),
    Case("index_put", lambda i: device_of(i).index_put((i,), one_number(i)), ANY_SIGN, (0, -2), BOTH),
    Case("index_put, accumulating", lambda i: device_of(i).index_put((i,), one_number(i), accumulate=True), ANY_SIGN, (0, -2), BOTH),
    Case("index_put by two", lambda i: device_of(i).index_put((torch.zeros_like(i), i), one_number(i)), ANY_SIGN, (0, -3), BOTH),
    Case("index_add 0", lambda i: device_of(i).index_add(0, i, ones(i, 2, 3, 4)), POSITIVE, (0, 1), BOTH),
    Case("index_add 1", lambda i: device_of(i).index_add(1, i, ones(i, 2, 2, 4)), POSITIVE, (0, 2), BOTH),
    Case("index_add 2", lambda i: device_of(i).index_add(2, i, ones(i, 2, 3, 2)), POSITIVE, (0, 3), BOTH),
    Case("index_add, alpha", lambda i: device_of(i).index_add(0, i, ones(i, 2, 3, 4), alpha=2), POSITIVE, (0, 1), BOTH),
    Case("index_add to a vector", lambda i: matrix(i)[0].index_add(0, i, ones(i, 2)), POSITIVE, (0, 3), BOTH),
    Case("index_copy", lambda i: device_of(i).index_copy(1, i, ones(i, 2, 2, 4)), POSITIVE, (0, 2)),
    Case("index_copy to a vector", lambda i: matrix(i)[0].index_copy(0, i, ones(i, 2)), POSITIVE, (0, 3)),
    Case("index_fill", lambda i: device_of(i).index_fill(1, i, 2.0), ANY_SIGN, (0, -3)),
    Case("index_reduce", lambda i: device_of(i).index_reduce(0, i, ones(i, 2, 3, 4), "amax"), POSITIVE, (0, 1), BOTH),
    Case("scatter", lambda i: matrix(i).scatter(1, columns(i), ones(i, 2, 1)), POSITIVE, (0, 3), BOTH),
    Case("scatter of a number", lambda i: matrix(i).scatter(1, columns(i), 2.0), POSITIVE, (0, 3), BOTH),
    Case("scatter, multiplying", lambda i: matrix(i).scatter(1, columns(i), ones(i, 2, 1), reduce="multiply"), POSITIVE, (0, 3), BOTH),
    Case("scatter of a number, adding", lambda i: matrix(i).scatter(1, columns(i), 2.0, reduce="add"), POSITIVE, (0, 3), BOTH),
    Case("scatter_add", lambda i: matrix(i).scatter_add(1, columns(i), ones(i, 2, 1)), POSITIVE, (0, 3), BOTH),
    Case("scatter_add, one position for a row", lambda i: matrix(i).scatter_add(0, i.unsqueeze(1).expand(2, 4), ones(i, 2, 4)), POSITIVE, (0, 1)),
    Case("scatter_reduce", lambda i: matrix(i).scatter_reduce(1, columns(i), ones(i, 2, 1), "amax"), POSITIVE, (0, 3), BOTH),
    Case("put", lambda i: device_of(i).put(i, ones(i, 2)), ((0, 24), (99, 1), (-25, 1)), (0, -24)),
    Case("put, accumulating", lambda i: device_of(i).put(i, ones(i, 2), accumulate=True), ((0, 24), (-25, 1)), (0, -24)),
    Case("embedding", lambda i: F.embedding(i, matrix(i)), POSITIVE, (0, 1), BOTH),
    Case("cross_entropy", lambda i: F.cross_entropy(X[0].to(i.device), i), CLASSES, (0, -100, 3)),
    Case("cross_entropy, smoothed", lambda i: F.cross_entropy(X[0].to(i.device), i, label_smoothing=0.1), CLASSES, (0, -100, 3)),
    Case("cross_entropy, ignoring", lambda i: F.cross_entropy(X[0].to(i.device), i, ignore_index=7), ((0, 9, 7), (7, -100, 7)), (0, 7, 3)),
    Case("nll_loss", lambda i: F.nll_loss(scores(i), i, reduction="none"), CLASSES, (0, -100, 3)),
    Case("nll_loss of one sample", lambda i: F.nll_loss(scores(i)[0], i[0]), ((9, 0), (-1, 0)), (3, 0)),
    Case("nll_loss of bytes", lambda i: F.nll_loss(scores(i), i), ((0, 9, 1),), (0, 1, 3), (torch.uint8,)),
    Case("nll_loss of an image", lambda i: F.nll_loss(image(i), plane(i)), PLANES, (0, -100, 5, 1)),
    Case("nll_loss of an image, unreduced", lambda i: F.nll_loss(image(i), plane(i), reduction="none"), PLANES, (0, -100, 5, 1)),
    Case("nll_loss backward", lambda i: aten.nll_loss_backward(one_number(i), scores(i), i, None, 1, -100, 3 * one_number(i)), CLASSES, (0, -100, 3)),
    Case("multi_margin_loss", lambda i: F.multi_margin_loss(X[0].to(i.device), i), CLASSES, (0, 1, 3)),
    Case("multi_margin_loss backward", lambda i: aten.multi_margin_loss_backward(one_number(i), X[0].to(i.device), i, 1, 1.0, None, 1), CLASSES, (0, 1, 3)),
    Case("multilabel_margin_loss", lambda i: F.multilabel_margin_loss(X[0, :1].to(i.device), i.reshape(1, 4)), ((0, 9, 1, -1), (-7, 0, 1, 2)), (0, 3, -1, 0)),
    Case("max_unpool2d", lambda i: F.max_unpool2d(ones(i, 1, 1, 2, 2), i.reshape(1, 1, 2, 2), 2), ((0, 16, 1, 2), (0, -1, 1, 2)), (0, 15, 1, 2)),
    Case("max_unpool3d", lambda i: F.max_unpool3d(ones(i, 1, 1, 1, 1, 2), i.reshape(1, 1, 1, 1, 2), 2), ((0, 16), (-1, 0)), (0, 15)),
    Case(
        "searchsorted, sorter",
        lambda i: torch.searchsorted(torch.arange(3.0, device=i.device), torch.tensor([1.5], device=i.device), sorter=i),
        ((0, 1, 9), (-1, 1, 2)),
        (2, 1, 0),
    ),
]

CALLS = [pytest.param(case, dtype, id=f"{case.name}-{str(dtype).removeprefix('torch.')}") for case in CASES for dtype in case.types]


@pytest.fixture(autouse=True)
def settings() -> Iterator[None]:
    """What a test has refused is not told in another one."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # with more, the CPU tells of whichever wrong position it meets first
    yield
    torch.set_num_threads(threads)
    try:
        xla_go.sync(wait=True)
    except Exception:
        xla_go.sync(wait=True)


def refusal(call: Callable[[], object]) -> Exception:
    try:
        call()
    except (RuntimeError, IndexError, ValueError) as error:
        return error
    raise AssertionError("expected an error")


def read(case: Case, index: torch.Tensor) -> torch.Tensor:
    return case.call(index).cpu()


def worded(error: Exception) -> str:
    text = str(error).split("\n")[0]
    # One release leaves a bracket open.
    return text if text.count("(") == text.count(")") else text + ")"


@pytest.mark.parametrize(("case", "dtype"), CALLS)
def test_refuses_what_the_cpu_refuses_in_its_words(case: Case, dtype: torch.dtype) -> None:
    for numbers in case.bad:
        index = torch.tensor(numbers, dtype=dtype)
        expected = refusal(partial(case.call, index))
        got = refusal(partial(read, case, index.to(xla)))
        assert (type(got), worded(got)) == (type(expected), worded(expected)), numbers
        assert "in aten::" in str(got)


@pytest.mark.parametrize(("case", "dtype"), CALLS)
def test_takes_what_the_cpu_takes(case: Case, dtype: torch.dtype) -> None:
    index = torch.tensor(case.good, dtype=dtype)
    torch.testing.assert_close(case.call(index.to(xla)).cpu(), case.call(index), equal_nan=True)
    xla_go.sync(wait=True)


@pytest.mark.parametrize(("case", "dtype"), CALLS)
def test_refuses_at_once_in_eager_mode(case: Case, dtype: torch.dtype) -> None:
    index = torch.tensor(case.bad[0], dtype=dtype)
    expected = refusal(lambda: case.call(index))
    on_device = index.to(xla)
    xla_go.eager_mode(True)
    try:
        got = refusal(lambda: case.call(on_device))
        assert (type(got), worded(got)) == (type(expected), worded(expected))
        good = torch.tensor(case.good, dtype=dtype)
        torch.testing.assert_close(case.call(good.to(xla)).cpu(), case.call(good), equal_nan=True)
    finally:
        xla_go.eager_mode(False)
