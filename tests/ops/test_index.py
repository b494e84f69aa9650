"""Reading and writing at positions given by tensors, compared with torch's CPU kernels."""

from __future__ import annotations

import pytest
import torch
from oracle import check, check_error, moved

import xla_go

DTYPES = [torch.float32, torch.bfloat16, torch.float64, torch.complex64, torch.int64, torch.uint8, torch.bool]
NUMBERS = [torch.float32, torch.bfloat16, torch.float64, torch.int64, torch.int8]


def make(*size: int, dtype: torch.dtype = torch.float32, grad: bool = True) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(size) + len(size))
    if dtype == torch.bool:
        return torch.randint(0, 2, size, generator=generator).bool()
    if dtype.is_floating_point or dtype.is_complex:
        return torch.randn(size, generator=generator, dtype=dtype).requires_grad_(grad)
    return torch.randint(0, 5, size, generator=generator, dtype=dtype)


def positions(limit: int, *size: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    return torch.randint(0, limit, size, generator=torch.Generator().manual_seed(limit + len(size)), dtype=dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_reading(dtype):
    x = make(3, 4, 5, dtype=dtype)
    check(lambda x, i: x.index_select(1, i), x, positions(4, 6))
    check(lambda x, i: x.index_select(-1, i), x, positions(5, 2, dtype=torch.int32))
    check(lambda x, i: x.gather(1, i), x, positions(4, 2, 7, 5))
    check(lambda x, i: x.gather(0, i), x, positions(3, 1, 4, 5))
    check(torch.take, x, positions(60, 2, 3) - 60)
    check(lambda x, i: torch.take_along_dim(x, i, 2), x, positions(5, 3, 4, 1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.bool])
@pytest.mark.parametrize(
    "index",
    [
        lambda x, i, j: x[i],
        lambda x, i, j: x[:, i],
        lambda x, i, j: x[..., j],
        lambda x, i, j: x[i, j],
        lambda x, i, j: x[i[:, None], :, j],
        lambda x, i, j: x[:, i, j],
        lambda x, i, j: x[None, i, 1:, None, j],
        lambda x, i, j: x[-1 - i],
        lambda x, i, j: x[i, :, 2],
        lambda x, i, j: x[i[:0]],
        lambda x, i, j: x[i[0], j[0]],
        lambda x, i, j: x.transpose(0, 2)[:, i, j],
    ],
)
def test_advanced_indexing(index, dtype):
    check(index, make(3, 4, 5, dtype=dtype), positions(3, 2), positions(3, 2))


def test_reading_edges():
    check(lambda x, i: x.index_select(0, i), torch.tensor(1.5), torch.tensor([0]))
    check(lambda x, i: x.gather(0, i), torch.tensor(1.5), torch.tensor(0))
    check(lambda x, i: x.gather(0, i), make(3), torch.tensor(2))
    check(lambda x, i: x.gather(0, i), make(3, 4), torch.empty(0, dtype=torch.int64))
    check(lambda x, i: x.index_select(0, i), make(0, 4), torch.empty(0, dtype=torch.int64))
    check(lambda x, i: x[i], make(3, 0), torch.tensor([1, 2]))
    check(lambda x, i: x[i], make(0, 3), torch.empty(0, dtype=torch.int64))


def test_position_outside_is_clamped():
    """What it raises is in test_checks.py; what is there afterwards comes from no other memory."""
    x = torch.arange(6.0, device="xla").reshape(2, 3)
    selected = x.index_select(0, torch.tensor([7], device="xla"))
    gathered = x.gather(1, torch.tensor([[9], [-3]], device="xla"))
    with pytest.raises(IndexError):
        selected.tolist()
    assert selected.tolist() == [[3, 4, 5]]
    assert gathered.tolist() == [[2], [3]]
    x.index_add_(0, torch.tensor([5], device="xla"), torch.ones(1, 3, device="xla"))
    x.scatter_(1, torch.tensor([[3], [-1]], device="xla"), 9.0)
    with pytest.raises(RuntimeError):
        x.tolist()
    assert x.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_indices_on_the_cpu():
    x, i = torch.arange(12.0).reshape(3, 4), torch.tensor([2, 0])
    assert x.to("xla")[i].cpu().equal(x[i])
    theirs = x.to("xla")
    theirs[i] = 0
    x[i] = 0
    assert theirs.cpu().equal(x)


def test_mask_reads_go_to_the_cpu():
    x = make(3, 4, grad=False)
    xla_go.metrics.clear_all()
    assert moved(x)[moved(x) > 0].cpu().equal(x[x > 0])
    assert xla_go.metrics.executed_fallback_ops() == ["aten::index"]


def in_place(function):
    """function, which writes into its first argument, on a copy of it."""

    def run(x, *rest):
        x = x.clone()
        function(x, *rest)
        return x

    return run


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.bool])
@pytest.mark.parametrize(
    ("write", "value"),
    [
        (lambda x, v, i, j: x.__setitem__(i, v), (4, 5)),
        (lambda x, v, i, j: x.__setitem__(i, v), ()),
        (lambda x, v, i, j: x.__setitem__((slice(None), i), v), (3, 2, 5)),
        (lambda x, v, i, j: x.__setitem__((i, j), v), (2, 5)),
        (lambda x, v, i, j: x.__setitem__((i, slice(None), j), v), (2, 1)),
        (lambda x, v, i, j: x.__setitem__((slice(None), -1 - i), v), (5,)),
        (lambda x, v, i, j: x.index_put_((i, j), v), (5,)),
        (lambda x, v, i, j: x.__setitem__((i[:0],), v), ()),
        (lambda x, v, i, j: x.transpose(0, 2).__setitem__(i, v), (4, 1)),
    ],
)
def test_index_put(write, value, dtype):
    distinct = torch.tensor([2, 0])  # which of equal positions wins is not defined
    check(in_place(write), make(3, 4, 5, dtype=dtype), make(*value, dtype=dtype), distinct, distinct)


@pytest.mark.parametrize("dtype", NUMBERS)
def test_index_put_accumulates(dtype):
    i = torch.tensor([1, 1, 0, 1])
    check(lambda x, v, i: x.index_put((i,), v, accumulate=True), make(3, 4, dtype=dtype), make(4, 4, dtype=dtype), i)
    check(lambda x, v, i: x.index_put((i, i), v, accumulate=True), make(3, 4, dtype=dtype), make(4, dtype=dtype), i)
    check(lambda x, v, i: torch.ops.aten.index_put(x, [i, None, i], v, True), make(3, 4, 5, dtype=dtype), make(4, 4, dtype=dtype), i)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.bool])
@pytest.mark.parametrize("value", [(), (5,), (1, 5)])
def test_mask_writes_are_selects(value, dtype):
    mask = make(3, 4, dtype=torch.bool)
    check(in_place(lambda x, v, m: x.index_put_((m,), v)), make(3, 4, 5, dtype=dtype, grad=False), make(*value, dtype=dtype, grad=False), mask)
    check(in_place(lambda x, v, m: x.__setitem__((slice(None), m), v)), make(2, 3, 4, 5, dtype=dtype, grad=False), make(*value, dtype=dtype, grad=False), mask)
    check(in_place(lambda x, v, m: x.__setitem__(m, True)), make(3, 4, 5, dtype=dtype, grad=False), make(*value, dtype=dtype, grad=False), mask)


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("dim", [0, -1])
def test_index_add(dim, dtype):
    x, i = make(3, 4, 5, dtype=dtype), positions(3, 6)
    source = make(*[6 if d == dim % 3 else n for d, n in enumerate(x.shape)], dtype=dtype)
    check(lambda x, s, i: x.index_add(dim, i, s), x, source, i)
    check(lambda x, s, i: x.index_add(dim, i, s, alpha=2), x, source, i.int())
    if dtype.is_floating_point:
        check(lambda x, s, i: x.index_add(dim, i, s, alpha=0.5), x, source, i)


@pytest.mark.parametrize("dtype", DTYPES)
def test_index_copy_and_fill(dtype):
    x, i = make(3, 4, 5, dtype=dtype), torch.tensor([3, 1])
    check(lambda x, s, i: x.index_copy(1, i, s), x, make(3, 2, 5, dtype=dtype), i)
    check(lambda x, i: x.index_fill(1, i, 1), x, i - 4)
    check(lambda x, v, i: x.index_fill(1, i, v), x, make(dtype=dtype, grad=False), i)
    check(lambda x, s, i: x.index_copy(0, i, s), make(dtype=dtype), make(dtype=dtype), torch.tensor(0))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce", ["prod", "mean", "amax", "amin"])
def test_index_reduce(reduce, include_self, dtype):
    check(lambda x, s, i: x.index_reduce(0, i, s, reduce, include_self=include_self), make(4, 3, dtype=dtype, grad=False), make(5, 3, dtype=dtype, grad=False), positions(3, 5))


@pytest.mark.parametrize("dtype", DTYPES)
def test_scatter(dtype):
    x, i = make(3, 5, dtype=dtype), torch.tensor([[0, 3, 2], [4, 1, 0]])
    check(lambda x, s, i: x.scatter(1, i, s), x, make(2, 3, dtype=dtype), i)
    check(lambda x, s, i: x.scatter(1, i, s), x, make(4, 4, dtype=dtype, grad=False), i)
    check(lambda x, i: x.scatter(1, i, 1), x, i)
    check(lambda x, s, i: x.scatter(0, i, s), make(5, 3, dtype=dtype), make(2, 3, dtype=dtype), i.int())
    check(lambda x, s, i: x.put(i, s), x, make(2, 3, dtype=dtype), i - 15)


@pytest.mark.parametrize("dtype", NUMBERS)
def test_scatter_that_adds(dtype):
    x, i = make(3, 5, dtype=dtype), positions(5, 2, 4)
    check(lambda x, s, i: x.scatter_add(1, i, s), x, make(2, 4, dtype=dtype), i)
    check(lambda x, s, i: x.put(i, s, accumulate=True), x, make(2, 4, dtype=dtype), i)
    for reduce in ("add", "multiply"):
        check(lambda x, s, i, r=reduce: x.scatter(1, i, s, reduce=r), x.detach(), make(2, 4, dtype=dtype, grad=False), i)
        check(lambda x, i, r=reduce: x.scatter(1, i, 2, reduce=r), x.detach(), i)


def test_scatter_add_of_repeated_rows():
    """One position for a whole row, as graph networks have it: the index is expanded, not stored."""
    i = torch.tensor([0, 2, 0, 1])
    check(lambda x, s, i: x.scatter_add(0, i[:, None].expand(4, 6), s), make(3, 6), make(4, 6), i)
    check(lambda x, i: x.gather(0, i[:, None].expand(4, 6)), make(3, 6), i)
    check(lambda x, i: x.gather(1, i[None, :, None].expand(2, 4, 3)), make(2, 3, 5), i)
    check(lambda x, s, i: x.scatter(1, i[None, 1:3, None].expand(2, 2, 3), s), make(3, 3, 5), make(2, 2, 3), i)
    check(lambda x, s, i: x.scatter_reduce(1, i[None, :, None].expand(2, 4, 3), s, "mean", include_self=False), make(2, 3, 5), make(2, 4, 3), i)
    check(lambda x, i: x.scatter(0, i[:, None].expand(4, 6), 2.0), make(3, 6), i)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
def test_scatter_reduce(reduce, include_self, dtype):
    check(lambda x, s, i: x.scatter_reduce(1, i, s, reduce, include_self=include_self), make(3, 5, dtype=dtype), make(3, 4, dtype=dtype), positions(3, 3, 4))


def test_scatter_reduce_keeps_nan():
    s = torch.tensor([1.0, float("nan"), 3.0, float("-inf")])
    for reduce in ("amax", "amin", "sum", "prod", "mean"):
        check(lambda x, s, i, r=reduce: x.scatter_reduce(0, i, s, r), torch.zeros(3), s, torch.tensor([0, 1, 1, 2]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("by_frequency", [False, True])
@pytest.mark.parametrize("padding", [None, 0, 2, -1])
def test_embedding(padding, by_frequency, dtype):
    def run(w, i):
        return torch.nn.functional.embedding(i, w, padding_idx=padding, scale_grad_by_freq=by_frequency)

    check(run, make(5, 4, dtype=dtype), torch.tensor([[0, 2, 2], [4, 2, 1]]))


def test_embedding_edges():
    check(torch.nn.functional.embedding, torch.tensor(2, dtype=torch.int32), make(5, 4))
    check(torch.nn.functional.embedding, torch.empty(0, 3, dtype=torch.int64), make(5, 4))


INDEX = torch.tensor([0, 1])


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (lambda x, i: x.index_select(0, i), (make(3, 4), INDEX.float())),
        (lambda x, i: x.index_select(0, i), (make(3, 4), INDEX[:, None])),
        (lambda x, i: x.index_select(2, i), (make(3, 4), INDEX)),
        (lambda x, i: x.index_select(0, i), (make(), INDEX)),
        (lambda x, i: x.gather(0, i), (make(3, 4), INDEX)),
        (lambda x, i: x.gather(0, i), (make(3, 4), torch.zeros(2, 5, dtype=torch.int64))),
        (lambda x, i: x.gather(0, i), (make(3, 4), torch.zeros(2, 2))),
        (lambda x, i: x[i, i, i], (make(3, 4), INDEX)),
        (lambda x, i, j: x[i, j], (make(3, 4), INDEX, torch.tensor([0, 1, 2]))),
        (lambda x, i: x[i], (make(0, 4), INDEX)),
        (lambda x, i: torch.ops.aten.index(x, [i]), (make(3, 4), INDEX.float())),
        (lambda x, i: x[i], (make(3, 4), torch.tensor([True, False]))),
        (torch.take, (make(3), INDEX.int())),
        (lambda x, i, v: x.index_put((i,), v), (make(3, 4), INDEX, make(2, 3))),
        (lambda x, i, v: x.index_put((i,), v), (make(3, 4), INDEX, make(2, 4).double())),
        (lambda x, i, s: x.scatter(0, i, s), (make(3, 4), INDEX[:, None], make(3, 4).double())),
        (lambda x, i, s: x.scatter(0, i, s), (make(3, 4), torch.zeros(5, 2, dtype=torch.int64), make(3, 4))),
        (lambda x, i: x.scatter(0, i, 1.0), (make(3, 4), torch.zeros(2, 5, dtype=torch.int64))),
        (lambda x, i: x.scatter(0, i, 1j), (make(3, 4), INDEX[:, None])),
        (lambda x, i, s: x.scatter(0, i, s, reduce="mean"), (make(3, 4), INDEX[:, None], make(3, 4))),
        (lambda x, i, s: x.scatter_reduce(0, i, s, "add"), (make(3, 4), INDEX[:, None], make(3, 4))),
        (lambda x, i, s: x.index_add(0, i, s), (make(3, 4), INDEX, make(3, 4))),
        (lambda x, i, s: x.index_add(0, i, s), (make(3, 4), INDEX, make(2, 3))),
        (lambda x, i, s: x.index_add(0, i, s), (make(3, 4), INDEX, make(2, 4).double())),
        (lambda x, i, s: x.index_copy(0, i, s), (make(3, 4), INDEX, make(3, 4))),
        (lambda x, i, s: x.index_copy(0, i, s), (make(3, 4), INDEX, make(2, 3))),
        (lambda x, i, s: x.index_copy(0, i, s), (make(3, 4), INDEX.int(), make(2, 4))),
        (lambda x, i: x.index_fill(0, i, 1j), (make(3, 4), INDEX)),
        (lambda x, i: x.clone().put_(i, x), (make(3, 4, grad=False), INDEX)),
        (torch.nn.functional.embedding, (INDEX.float(), make(3, 4))),
        (torch.nn.functional.embedding, (INDEX, make(3))),
    ],
)
def test_errors(function, arguments):
    check_error(function, *arguments)
