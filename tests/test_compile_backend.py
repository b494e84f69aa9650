"""torch.compile(backend="xla_go"): right results, one program for each graph, replayed without being traced."""

from __future__ import annotations

import copy
import gc
import threading
import warnings
import weakref
from typing import Any

import pytest
import torch
from dynamo_support import BACKEND, compiled, compiles, count, fresh, xla  # noqa: F401

import xla_go
from support import Child
from xla_go import _adapter, debug


def close(actual: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(actual.detach().cpu(), expected.detach().cpu(), rtol=1e-4, atol=1e-5)


def pointer(t: torch.Tensor) -> int:
    """The device address of a tensor's storage, once its value is there."""
    xla_go.sync(wait=True)
    return _adapter.load().buffer_pointer(t.untyped_storage()._cdata)


class Mixed(torch.nn.Module):
    """A convolution, a normalisation with buffers, attention and a loss that needs no help."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(1, 4, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(4)
        self.attention = torch.nn.MultiheadAttention(16, 2, batch_first=True)
        self.out = torch.nn.Linear(16, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.conv(x)).relu().flatten(2)
        return self.out(self.attention(x, x, x)[0]).mean(1)


# ---- results ----


@pytest.mark.parametrize("backend", ["xla_go", "openxla"])
def test_names(backend: str) -> None:
    f = torch.compile(lambda a: (a * 2).relu() - 1, backend=backend)
    a = torch.randn(3, 5)
    close(f(a.to(xla)), (a * 2).relu() - 1)
    assert backend in torch._dynamo.list_backends()


def test_training_is_that_of_the_cpu() -> None:
    torch.manual_seed(0)
    ours = Mixed()
    theirs = copy.deepcopy(ours)
    ours = ours.to(xla)
    step = compiled(ours)
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.05, momentum=0.9) for m in (ours, theirs)]
    known = 0
    for number in range(5):
        x = torch.randn(2, 1, 4, 4)
        for model, optimizer, value in ((step, optimizers[0], x.to(xla)), (theirs, optimizers[1], x)):
            optimizer.zero_grad()
            model(value).square().sum().backward()
            optimizer.step()
        if number == 1:
            known = compiles()
    assert compiles() == known
    for (name, p), q in zip(ours.state_dict().items(), theirs.state_dict().values(), strict=True):
        torch.testing.assert_close(p.cpu(), q, rtol=1e-3, atol=1e-4, msg=name)


def test_train_and_eval_are_two_graphs() -> None:
    model = Mixed()
    twin = copy.deepcopy(model).eval()
    model = model.to(xla)
    f = compiled(model)
    x = torch.randn(2, 1, 4, 4)
    model.eval()
    with torch.no_grad():
        close(f(x.to(xla)), twin(x))
        model.train()
        twin.train()
        close(f(x.to(xla)), twin(x))
        model.eval()
        twin.eval()
        before = compiles()
        close(f(x.to(xla)), twin(x))
        assert compiles() == before


def test_kinds_of_results() -> None:
    def f(a: torch.Tensor) -> tuple[Any, ...]:
        return a > 0, None, torch.complex(a, a).conj(), a.new_empty(0, 3), a.sum(), a.shape[0], a.to(torch.int32)

    a = torch.randn(4, 3)
    g = compiled(f)
    for _ in range(3):
        for actual, expected in zip(g(a.to(xla)), f(a), strict=True):
            if isinstance(expected, torch.Tensor):
                assert actual.dtype == expected.dtype and actual.shape == expected.shape
                close(actual.resolve_conj(), expected.resolve_conj())
            else:
                assert actual == expected


def test_gradients_of_unused_arguments_are_none() -> None:
    f = compiled(lambda a, b: a * 2 + b.detach())
    a, b = (torch.randn(3).to(xla).requires_grad_() for _ in range(2))
    for _ in range(2):
        a.grad = None
        f(a, b).sum().backward()
        close(a.grad, torch.full((3,), 2.0))
        assert b.grad is None


def test_autocast() -> None:
    model = torch.nn.Linear(8, 8).to(xla)
    f = compiled(model)
    x = torch.randn(4, 8).to(xla)
    for _ in range(2):
        with torch.autocast("xla", dtype=torch.bfloat16):
            y = f(x)
            assert y.dtype == torch.bfloat16
            close(y.float(), model(x).float())
        assert f(x).dtype == torch.float32


# ---- writes and views ----


def test_a_write_to_a_view_of_an_argument() -> None:
    def f(a: torch.Tensor) -> torch.Tensor:
        b = a.t()
        b.mul_(2.0)
        return b

    g = compiled(f)
    for _ in range(3):
        x = torch.arange(6.0).reshape(2, 3).to(xla)
        result = g(x)
        assert result.cpu().tolist() == [[0, 6], [2, 8], [4, 10]]
        assert x.cpu().tolist() == [[0, 2, 4], [6, 8, 10]]
        result.add_(1)
        assert x[0, 0].item() == 1, "the result is a view of the argument"


def test_results_share_what_they_shared() -> None:
    def f(a: torch.Tensor) -> tuple[torch.Tensor, ...]:
        b = a + 1
        return b, b.t(), a, a[0]

    g = compiled(f)
    for _ in range(2):
        a = torch.zeros(2, 3).to(xla)
        b, transposed, same, row = g(a)
        b.fill_(5)
        assert transposed.eq(5).all().item()
        same.fill_(3)
        assert a.eq(3).all().item() and row.eq(3).all().item()


def test_arguments_that_are_views_of_one_tensor() -> None:
    def f(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        a.add_(1)
        return b * 2

    g = compiled(f)
    for _ in range(3):
        base = torch.arange(8.0)
        expected = base.clone()
        there = base.to(xla)
        close(g(there[:4], there[2:]), f(expected[:4], expected[2:]))
        close(there, expected)


def test_swapped_arguments() -> None:
    def f(a: torch.Tensor, b: torch.Tensor) -> None:
        c = b.clone()
        b.copy_(a)
        a.copy_(c)

    g = compiled(f)
    a, b = torch.zeros(3).to(xla), torch.ones(3).to(xla)
    for number in range(4):
        g(a, b)
        assert a.cpu().tolist() == [float(number % 2 == 0)] * 3
        assert b.cpu().tolist() == [float(number % 2)] * 3


def test_a_changed_argument_tells_autograd() -> None:
    f = compiled(lambda a: a.add_(1))
    with torch.no_grad():
        a = torch.zeros(3).to(xla)
        for _ in range(3):
            before = a._version
            f(a)
            assert a._version > before


def test_cache_replaced_out_of_place() -> None:
    class Cached(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.values = torch.zeros(8, 2, device=xla)

        def forward(self, i: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
            self.values = self.values.index_copy(0, i, u)
            return self.values.sum()

    f = compiled(Cached())
    found = []
    with torch.no_grad():
        for t in range(6):
            found.append(f(torch.tensor([t], device=xla), torch.full((1, 2), 1.0 + t, device=xla)).item())
            if t == 1:
                before = compiles()
    assert found == [2, 6, 12, 20, 30, 42]
    assert compiles() == before


# ---- one program, replayed ----


def test_a_call_replays_one_program() -> None:
    f = compiled(lambda a, b: ((a @ b).softmax(-1), (a @ b).sum()))
    a, b = torch.randn(8, 16).to(xla), torch.randn(16, 4).to(xla)
    f(a, b)
    xla_go.sync(wait=True)
    calls, executions, known = _adapter.load().op_call_count(), count("ExecuteComputation"), compiles()
    for _ in range(10):
        f(a, b)
    xla_go.sync(wait=True)
    assert _adapter.load().op_call_count() == calls, "nothing is traced"
    assert count("ExecuteComputation") - executions == 10
    assert compiles() == known


def test_eager_and_compiled_share_a_program() -> None:
    def f(a: torch.Tensor) -> torch.Tensor:
        return (a * 3).cosh().sum(1)

    a = torch.randn(6, 37).to(xla)
    xla_go.sync()
    expected = f(a).cpu()
    before = compiles()
    close(compiled(f)(a), expected)
    assert compiles() == before


def test_pending_arguments_run_once() -> None:
    f = compiled(lambda a: a * 2)
    f(torch.ones(3, device=xla))
    xla_go.sync(wait=True)
    for _ in range(3):
        executions = count("ExecuteComputation")
        a = torch.ones(3).to(xla) + 1
        b = f(a)
        assert a.cpu().tolist() == [2] * 3 and b.cpu().tolist() == [4] * 3
        assert count("ExecuteComputation") - executions == 2


def test_without_recording_a_call_joins_its_step() -> None:
    f = compiled(lambda a: a.sin() + 1, options={"record": False})
    a = torch.randn(5).to(xla)
    f(a)
    xla_go.sync(wait=True)
    executions = count("ExecuteComputation")
    b = f(a * 2).exp()
    close(b, ((a.cpu() * 2).sin() + 1).exp())
    assert count("ExecuteComputation") - executions == 1


def test_unknown_options_raise() -> None:
    f = compiled(lambda a: a + 1, options={"fast": True})
    with pytest.raises(Exception, match=r"expected options among record.*got 'fast'"):
        f(torch.ones(1, device=xla))


def test_overwritten_arguments_keep_their_memory() -> None:
    f = compiled(lambda a: a.mul_(2).add_(1))
    with torch.no_grad():
        a = torch.zeros(1 << 14).to(xla)
        f(a)
        home = pointer(a)
        for _ in range(4):
            f(a)
            assert pointer(a) == home
        kept = a.clone()  # the same value: it must stay
        f(a)
        assert a[0].item() == 63 and kept[0].item() == 31


def test_compiled_optimizer() -> None:
    torch.manual_seed(0)
    ours = torch.nn.Linear(6, 5)
    theirs = copy.deepcopy(ours)
    ours = ours.to(xla)
    optimizers = [torch.optim.AdamW(m.parameters(), lr=0.1) for m in (ours, theirs)]
    steps = [compiled(optimizers[0].step), optimizers[1].step]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number in range(5):
            x = torch.randn(4, 6)
            for model, step, optimizer, value in zip((ours, theirs), steps, optimizers, (x.to(xla), x), strict=True):
                optimizer.zero_grad()
                model(value).square().mean().backward()
                step()
            if number == 2:
                before = compiles()
    assert compiles() == before
    close(ours.weight, theirs.weight)
    close(ours.bias, theirs.bias)


def test_a_training_step_in_one_graph() -> None:
    def step(w: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        gradient, loss = torch.func.grad_and_value(lambda w: (x @ w - y).square().mean())(w)
        return w - 0.1 * gradient, loss

    x, y = torch.randn(16, 4), torch.randn(16, 2)
    w = torch.randn(4, 2)
    there = [t.to(xla) for t in (w, x, y)]
    f = compiled(step)
    there[0], _ = f(*there)
    w, _ = step(w, x, y)
    xla_go.sync(wait=True)
    executions = count("ExecuteComputation")
    for _ in range(5):
        there[0], loss = f(*there)
        w, expected = step(w, x, y)
    close(there[0], w)
    close(loss, expected)
    assert count("ExecuteComputation") - executions == 5


# ---- random numbers ----


def test_dropout_is_drawn_anew_and_repeats_with_its_seed() -> None:
    f = compiled(lambda a: torch.nn.functional.dropout(a, 0.5) + torch.rand_like(a))
    a = torch.ones(64, device=xla)
    torch.manual_seed(7)
    first = [f(a).cpu() for _ in range(4)]
    assert not any(first[i].equal(first[j]) for i in range(4) for j in range(i))
    torch.manual_seed(7)
    for value in first:
        assert f(a).cpu().equal(value)
    torch.manual_seed(7)
    for value in first:
        assert (torch.nn.functional.dropout(a, 0.5) + torch.rand_like(a)).cpu().equal(value), "as without compile"


def test_saved_random_state() -> None:
    f = compiled(lambda a: torch.rand_like(a))
    a = torch.ones(8, device=xla)
    f(a)
    state = torch.xla.get_rng_state()
    first = f(a).cpu()
    torch.xla.set_rng_state(state)
    assert f(a).cpu().equal(first)
    assert not f(a).cpu().equal(first)


# ---- what is not on the device ----


def test_cpu_graphs_run_on_the_cpu_and_say_so() -> None:
    f = compiled(lambda a: a * 2 + 1)
    with pytest.warns(UserWarning, match="a graph without tensors on device xla runs on the CPU"):
        assert f(torch.ones(3)).tolist() == [3] * 3


def test_cpu_numbers_and_transfers() -> None:
    def f(a: torch.Tensor, scale: torch.Tensor, table: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        half = scale / 2
        b = a * half + table.to(a.device)[1]
        return b, b.sum().cpu() + half

    g = compiled(f)
    a = torch.randn(3)
    for number in range(4):
        scale, table = torch.tensor(float(number)), torch.randn(2, 3)
        expected = f(a, scale, table)
        actual = g(a.to(xla), scale, table)
        assert [t.device.type for t in actual] == ["xla", "cpu"]
        close(actual[0], expected[0])
        close(actual[1], expected[1])


def test_an_operator_without_a_row_is_traced() -> None:
    def f(a: torch.Tensor) -> torch.Tensor:
        return torch.linalg.eigvals(a).abs().sum() + torch.special.bessel_y0(a.abs() + 1).sum()

    a = torch.randn(4, 4)
    g = compiled(f)
    for number in range(5):
        close(g((a + number).to(xla)), f(a + number))


# ---- life and errors ----


def test_weights_are_held_weakly() -> None:
    gc.collect()
    model = torch.nn.Linear(64, 64).to(xla)
    weight = weakref.ref(model.weight)

    @torch.compile(backend=BACKEND)
    def f(model: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
        return model(x)

    x = torch.ones(2, 64, device=xla)
    f(model, x).sum().backward()
    xla_go.sync(wait=True)
    before = debug.live_counts()["storages"]
    del model
    gc.collect()
    assert weight() is None
    assert debug.live_counts()["storages"] <= before - 4  # weight, bias and their gradients


def test_reset_frees_recordings() -> None:
    gc.collect()
    xla_go.sync(wait=True)
    before = debug.live_counts()
    f = compiled(lambda a: a + torch.arange(100.0).to(a.device) + torch.tensor([1.0]).to(a.device))
    result = f(torch.ones(100, device=xla))
    result.cpu()
    assert debug.live_counts()["recordings"] > before["recordings"]
    torch._dynamo.reset()
    del f, result
    gc.collect()
    xla_go.sync(wait=True)
    after = debug.live_counts()
    assert after["recordings"] == 0
    assert all(after[name] <= before[name] for name in ("buffers", "storages", "nodes")), (before, after)


def test_a_lost_argument_raises_and_the_function_lives_on() -> None:
    f = compiled(lambda a, table: table[a])
    table = torch.arange(4.0).to(xla)
    good, bad = torch.tensor([1, 2]).to(xla), torch.tensor([1, 9]).to(xla)
    assert f(good, table).cpu().tolist() == [1, 2]
    with pytest.raises(IndexError, match=r"out of (range|bounds)"):
        f(bad, table).cpu()
        xla_go.sync(wait=True)
    assert f(good, table).cpu().tolist() == [1, 2]


def test_threads_call_one_function() -> None:
    f = compiled(lambda a: (a * 2).relu() + 1)
    f(torch.ones(4, device=xla)).cpu()
    wrong: list[str] = []

    def work(number: int) -> None:
        for i in range(40):
            value = f(torch.full((4,), float(number * 100 + i)).to(xla))
            if value.cpu().tolist() != [2.0 * (number * 100 + i) + 1] * 4:
                wrong.append(f"thread {number}, call {i}: {value}")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert wrong == []


def test_a_program_that_does_not_import_the_package(child: Child) -> None:
    child(
        """
        import sys
        import torch

        assert "xla_go" in torch._dynamo.list_backends(), torch._dynamo.list_backends()
        f = torch.compile(lambda a: a + 1, backend="xla_go")
        f(torch.ones(2))
        assert "xla_go" in sys.modules
        """
    )


def test_importing_the_package_does_not_import_dynamo(child: Child) -> None:
    child("import torch, sys; known = set(sys.modules); import xla_go; assert not any(n.startswith('torch._dynamo') for n in set(sys.modules) - known)")
