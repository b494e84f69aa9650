"""Numbers that move from step to step, positions, shifts, paddings and the like, make two programs at most: one as they
are, and one with them as parameters. Results are those of the CPU."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

import xla_go
from xla_go import metrics

pytestmark = pytest.mark.once

Case = Callable[[str, int], torch.Tensor]


def compiles() -> int:
    return metrics.counter_value("UncachedCompile") or 0


def matrix(d: str, rows: int = 8, columns: int = 6) -> torch.Tensor:
    return torch.arange(float(rows * columns)).reshape(rows, columns).to(d)


def written(x: torch.Tensor, write: Callable[[torch.Tensor], object]) -> torch.Tensor:
    write(x)
    return x


def gradient(x: torch.Tensor, f: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    x = x.detach().requires_grad_()
    y = f(x)
    (y * torch.arange(float(y.numel())).reshape(y.shape).to(y.device)).sum().backward()
    assert x.grad is not None
    return x.grad


def index(d: str, *values: int) -> torch.Tensor:
    return torch.tensor(values, device=d)


CASES: dict[str, Case] = {
    # Positions that Python knows, as lists, numbers and tensors made on the spot.
    "list": lambda d, k: matrix(d)[[k, (3 * k + 1) % 8, 5]],
    "two lists": lambda d, k: matrix(d)[[k, 1], [2, k]],
    "range": lambda d, k: matrix(d)[range(k, k + 2)],
    "list between slices": lambda d, k: matrix(d, 8, 12).view(8, 2, 6)[[k, 1], :, k],
    "mask of a list": lambda d, k: matrix(d)[[i == k for i in range(8)]],
    "numbers": lambda d, k: matrix(d)[k, k],
    "negative": lambda d, k: matrix(d)[-k - 1],
    "ellipsis": lambda d, k: matrix(d)[..., k],
    "number on the host": lambda d, k: matrix(d)[torch.tensor(k)],
    "indices on the host": lambda d, k: matrix(d)[torch.tensor([k, 1])],
    "index_select": lambda d, k: matrix(d).index_select(0, index(d, k, 1, 2)),
    "index_select of an upload": lambda d, k: matrix(d).index_select(0, torch.tensor([k, 1]).to(d)),
    "gather": lambda d, k: matrix(d).gather(0, torch.tensor([[k] * 6], device=d)),
    "take_along_dim": lambda d, k: matrix(d).take_along_dim(torch.tensor([[k]], device=d), 0),
    "embedding": lambda d, k: F.embedding(index(d, k, 1), matrix(d)),
    "one_hot": lambda d, k: F.one_hot(index(d, k, 2), 8),
    # Written in place and out of place.
    "element = number": lambda d, k: written(matrix(d), lambda x: x.__setitem__((k, (k + 1) % 6), 7.0)),
    "row = tensor": lambda d, k: written(matrix(d), lambda x: x.__setitem__(k, torch.ones(6).to(d))),
    "rows = number": lambda d, k: written(matrix(d), lambda x: x.__setitem__([k, (k + 3) % 8], 7.0)),
    "rows swapped": lambda d, k: written(matrix(d), lambda x: x.__setitem__([0, k], x[[k, 0]])),
    "slice filled": lambda d, k: written(matrix(d), lambda x: x[k : k + 2].fill_(k)),
    "index_put_": lambda d, k: written(matrix(d), lambda x: x.index_put_((index(d, k),), torch.tensor(3.0, device=d))),
    "index_put_ accumulating": lambda d, k: written(matrix(d), lambda x: x.index_put_((index(d, k),), torch.tensor(3.0, device=d), accumulate=True)),
    "index_add": lambda d, k: matrix(d).index_add(0, index(d, k), torch.ones(1, 6).to(d)),
    "index_fill": lambda d, k: matrix(d).index_fill(0, index(d, k), 3.0),
    "scatter": lambda d, k: matrix(d).scatter(0, torch.tensor([[k] * 6], device=d), 3.0),
    "loop": lambda d, k: written(torch.zeros(8).to(d), lambda out: out.__setitem__(k, matrix(d)[k].sum())),
    "select_scatter": lambda d, k: torch.select_scatter(matrix(d), torch.ones(6).to(d), 0, k),
    "slice_scatter": lambda d, k: torch.slice_scatter(matrix(d), torch.ones(2, 6).to(d), 0, k, k + 2),
    "slice_scatter with a step": lambda d, k: torch.slice_scatter(matrix(d, 12), torch.ones(2, 6).to(d), 0, k, k + 6, 3),
    "diagonal_scatter": lambda d, k: torch.diagonal_scatter(matrix(d, 8, 20), torch.ones(8).to(d), k),
    "diagonal_scatter below": lambda d, k: torch.diagonal_scatter(matrix(d, 20, 8), torch.ones(8).to(d), -k),
    "as_strided_scatter": lambda d, k: torch.as_strided_scatter(matrix(d), torch.ones(2, 2).to(d), (2, 2), (6, 1), k),
    "overlapping windows": lambda d, k: torch.arange(48.0).to(d).as_strided((3, 4), (2, 1), k) * 2,
    "diagonal written": lambda d, k: written(matrix(d, 8, 20), lambda x: x.diagonal(k).mul_(3)),
    # Shifts, triangles, paddings, sequences.
    "roll": lambda d, k: matrix(d).roll(k, 0),
    "roll flat": lambda d, k: matrix(d).roll(k + 1),
    "roll two": lambda d, k: matrix(d).roll((k, -k), (0, 1)),
    "tril": lambda d, k: matrix(d).tril(k - 2),
    "triu": lambda d, k: matrix(d).triu(3 * k - 9),
    "triu of a mask": lambda d, k: torch.ones(8, 8, device=d, dtype=torch.bool).triu(k),
    "tril_": lambda d, k: written(matrix(d), lambda x: x.tril_(k - 2)),
    "diagonal": lambda d, k: matrix(d, 8, 20).diagonal(k) * 2,
    "arange": lambda d, k: torch.arange(k + 1, k + 6, device=d),
    "linspace": lambda d, k: torch.linspace(k, k + 5, 5, device=d),
    "full": lambda d, k: torch.full((4,), k, device=d),
    "pad": lambda d, k: F.pad(matrix(d), (k, 6 - k)),
    "pad two": lambda d, k: F.pad(matrix(d), (k, 6 - k, 5 - k, k), value=2.5),
    "crop": lambda d, k: F.pad(matrix(d), (-k, k - 1)),
    "reflect": lambda d, k: F.pad(matrix(d)[None], (k, 5 - k), mode="reflect"),
    "reflect two": lambda d, k: F.pad(matrix(d)[None, None], (k, 5 - k, 7 - k, k), mode="reflect"),
    "replicate": lambda d, k: F.pad(matrix(d)[None], (k, 9 - k), mode="replicate"),
    "kthvalue": lambda d, k: matrix(d).kthvalue(k + 1, 0)[0],
    # Gradients.
    "gradient of a row": lambda d, k: gradient(matrix(d), lambda x: x[k]),
    "gradient of rows": lambda d, k: gradient(matrix(d), lambda x: x[k : k + 2]),
    "gradient of a step": lambda d, k: gradient(matrix(d, 12), lambda x: x[k : k + 6 : 2]),
    "gradient of a list": lambda d, k: gradient(matrix(d), lambda x: x[[k, 2]]),
    "gradient of a diagonal": lambda d, k: gradient(matrix(d, 8, 20), lambda x: x.diagonal(k)),
    "gradient of tril": lambda d, k: gradient(matrix(d), lambda x: x.tril(k)),
    "gradient of roll": lambda d, k: gradient(matrix(d), lambda x: x.roll(k, 0)),
    "gradient of pad": lambda d, k: gradient(matrix(d), lambda x: F.pad(x, (k, 6 - k))),
    "gradient of reflect": lambda d, k: gradient(matrix(d)[None], lambda x: F.pad(x, (k, 5 - k), mode="reflect")),
    "gradient of replicate": lambda d, k: gradient(matrix(d)[None], lambda x: F.pad(x, (k, 9 - k), mode="replicate")),
    "gradient without padding": lambda d, k: gradient(matrix(d), lambda x: F.embedding(index(d, k, 1, 7), x, padding_idx=k)),
    # Numbers that choose faster code where they stand still.
    "layer_norm": lambda d, k: F.layer_norm(matrix(d), (6,), eps=1e-3 * (k + 1)),
    "group_norm": lambda d, k: F.group_norm(matrix(d), 2, eps=1e-3 * (k + 1)),
    "norm": lambda d, k: matrix(d).norm(k + 1.5),
    "vector_norm": lambda d, k: torch.linalg.vector_norm(matrix(d), k + 1, dim=1),
    "cdist": lambda d, k: torch.cdist(matrix(d), matrix(d) + 1, p=k + 1.0),
    "gradient of cdist": lambda d, k: gradient(matrix(d), lambda x: torch.cdist(x, torch.ones(3, 6).to(d), p=k + 1.0)),
    "round": lambda d, k: torch.round(matrix(d) / 7, decimals=k),
    "power": lambda d, k: (matrix(d) + 1) ** (2, 3, -1, -2, 2, 3)[k],
}


@pytest.mark.parametrize("name", CASES)
def test_moving_numbers_make_two_programs(name: str) -> None:
    case = CASES[name]
    xla_go.sync(wait=True)
    before = compiles()
    for k in (1, 0, 3, 4, 2, 5):
        torch.testing.assert_close(case("xla", k).detach().cpu(), case("cpu", k).detach(), rtol=1e-5, atol=1e-5)
    assert compiles() - before <= 2


def test_two_numbers_that_move_apart_make_three_programs() -> None:
    x = matrix("xla")
    want = matrix("cpu")
    xla_go.sync(wait=True)
    before = compiles()
    for i, j in [(0, 0), (1, 0), (1, 1), (2, 5), (0, 3), (4, 0)]:
        y = x.roll(i, 0).tril(j) + x[j]
        torch.testing.assert_close(y.cpu(), want.roll(i, 0).tril(j) + want[j], rtol=0, atol=0)
    assert compiles() - before <= 3


def test_numbers_that_change_the_shape_are_no_parameters() -> None:
    x = matrix("xla")
    xla_go.sync(wait=True)
    before = compiles()
    for k in (2, 3, 4):
        for y, want in [
            (F.pad(x, (k, 0)), F.pad(matrix("cpu"), (k, 0))),
            (x[:k] + 1, matrix("cpu")[:k] + 1),
            (x.diagonal(-k) + 1, matrix("cpu").diagonal(-k) + 1),
            (torch.arange(k, device="xla") + 1, torch.arange(k) + 1),
        ]:
            torch.testing.assert_close(y.cpu(), want, rtol=0, atol=0)
    assert compiles() - before >= 3


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.int64, torch.uint8, torch.bool, torch.complex64])
def test_types(dtype: torch.dtype) -> None:
    x = (torch.arange(35).reshape(5, 7) % 3).to(dtype)
    on_device = x.to("xla")
    for k in (2, 0, 1, 4):
        for f in (
            lambda t: t.roll(k, 1),  # noqa: B023
            lambda t: t.tril(k - 2),  # noqa: B023
            lambda t: F.pad(t, (k, 4 - k, 4 - k, k)),  # noqa: B023
            lambda t: t.select_scatter(t[:, 0], 1, k),  # noqa: B023
            lambda t: t.as_strided((3, 4), (2, 1), k).clone(),  # noqa: B023
            lambda t: t.diagonal(k).clone() if k < 2 else t,  # noqa: B023
        ):
            assert torch.equal(f(on_device).cpu(), f(x)), (dtype, k)


def test_donation_is_kept_with_parameters() -> None:
    from xla_go import _adapter

    x = torch.zeros(64, 128).to("xla")
    x.add_(1)
    homes = []
    for i in (0, 5, 9, 63):
        x.copy_(torch.select_scatter(x, torch.full((128,), float(i)).to("xla"), 0, i))
        xla_go.sync(wait=True)
        homes.append(_adapter.load().buffer_pointer(x.untyped_storage()._cdata))
    assert len(set(homes)) == 1
    assert x[:, 0].cpu()[[0, 5, 9, 63, 1]].tolist() == [0, 5, 9, 63, 1]
