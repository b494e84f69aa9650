"""Loops that are one instruction of the program, and values that are computed again for the gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from functorch.compile import min_cut_rematerialization_partition
from torch import nn
from torch.utils import _pytree as pytree

import xla_go
from xla_go import debug, errors, loop, metrics
from xla_go.gradient_accumulation import gradient_accumulation
from xla_go.rematerialization import checkpoint, optimization_barrier, optimization_barrier_
from xla_go.scan import scan
from xla_go.scan_layers import scan_layers


def unrolled(fn: Callable[[Any, Any], tuple[Any, Any]], carry: Any, xs: Any) -> tuple[Any, Any]:
    """What scan computes, by a loop of Python."""
    count = len(pytree.tree_leaves(xs)[0])
    ys = []
    for i in range(count):
        carry, y = fn(carry, pytree.tree_map(lambda x, i=i: x[i], xs))
        ys.append(y)
    return carry, pytree.tree_map(lambda *each: torch.stack(each), *ys)


def total(tree: Any) -> torch.Tensor:
    return sum((leaf.double() * (1 + k)).sum() for k, leaf in enumerate(pytree.tree_leaves(tree)))


def leaves_with_gradients(tree: Any) -> Any:
    return pytree.tree_map(lambda one: one.detach().to("xla").requires_grad_(one.is_floating_point()), tree)


FUNCTIONS: dict[str, tuple[Callable[[Any, Any], tuple[Any, Any]], Any, Any]] = {
    "sum": (lambda c, x: (c + x, c * x), torch.ones(2), torch.randn(5, 2)),
    "matrices": (lambda c, x: ((c @ x["w"] + x["b"]).tanh(), c.cos()), torch.randn(2, 3), {"w": torch.randn(4, 3, 3), "b": torch.randn(4, 3)}),
    "passed through": (lambda c, x: (c, x), torch.randn(3), torch.randn(4, 3)),
    "exchanged": (lambda c, x: ((c[1], c[0] * x), x.sin()), (torch.randn(2), torch.randn(2)), torch.randn(3, 2)),
    "integers": (lambda c, x: ((c[0] + 1, c[1] * x), c[0] * 2), (torch.tensor(0), torch.randn(2)), torch.randn(3, 2)),
    "two types": (lambda c, x: (c.sin(), (x[0] * c, x[1].cos())), torch.randn(2), (torch.randn(3, 2), torch.randn(3, 4, dtype=torch.float64))),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_scan_and_its_gradients_are_those_of_a_loop(name: str) -> None:
    torch.manual_seed(3)
    fn, init, xs = FUNCTIONS[name]
    found_arguments, wanted_arguments = leaves_with_gradients((init, xs)), leaves_with_gradients((init, xs))
    found, wanted = scan(fn, *found_arguments), unrolled(fn, *wanted_arguments)
    total(found).backward()
    total(wanted).backward()
    assert pytree.tree_structure(found) == pytree.tree_structure(wanted)
    for one, other in zip(pytree.tree_leaves(found), pytree.tree_leaves(wanted), strict=True):
        torch.testing.assert_close(one.detach().cpu(), other.detach().cpu())
    for one, other in zip(pytree.tree_leaves(found_arguments), pytree.tree_leaves(wanted_arguments), strict=True):
        assert (one.grad is None) == (not one.is_floating_point())
        if one.grad is not None:
            torch.testing.assert_close(one.grad.cpu(), other.grad.cpu() if other.grad is not None else torch.zeros_like(one.cpu()))


def test_scan_is_one_instruction_of_any_length_and_compiles_once() -> None:
    w = torch.randn(3, 3, device="xla")
    xla_go.sync()
    sizes = []
    for length in (4, 400):
        last, _ = scan(lambda c, x: ((c @ x).sin(), None), torch.ones(3, 3, device="xla"), w.expand(length, 3, 3))
        text = debug.graph(last)
        assert text.hlo.count(" while(") == 1 and "while" in text.stablehlo
        sizes.append(len(text.ir.splitlines()))
        del last
    assert sizes[0] == sizes[1]
    metrics.clear_all()
    for _ in range(3):
        last, _ = scan(lambda c, x: ((c @ x).sin(), None), w, w.expand(7, 3, 3))
        xla_go.sync()
    assert metrics.counter_value("UncachedCompile") == 1 and metrics.metric_data("TransferFromDeviceTime") is None
    assert torch.isfinite(last.cpu()).all()


def test_recomputation_is_the_partitioners_choice() -> None:
    def sines(**options: Any) -> int:
        x = torch.randn(4, 3, device="xla", requires_grad=True)
        _, ys = scan(lambda c, x: (c, x.sin().sin().sin()), torch.zeros(1, device="xla"), x, **options)
        ys.sum().backward()
        return debug.graph(ys, x.grad).hlo.count(" sine(")

    assert sines(partition_fn=min_cut_rematerialization_partition) > sines() == 3


def test_pure_functions_are_traced_once() -> None:
    calls = 0

    def fn(carry: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        nonlocal calls
        calls += 1
        return carry + x, x

    for _ in range(3):
        last, _ = scan(fn, torch.zeros(2, device="xla"), torch.ones(3, 2, device="xla"), is_fn_pure=True)
    once = calls
    assert last.tolist() == [3.0, 3.0]
    scan(fn, torch.zeros(2, device="xla"), torch.ones(3, 2, device="xla"), is_fn_pure=True)
    assert calls == once
    scan(fn, torch.zeros(1, device="xla"), torch.ones(3, 1, device="xla"), is_fn_pure=True)
    assert calls > once


def test_rounds_draw_numbers_of_their_own_and_later_draws_are_new() -> None:
    def draw(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
        torch.manual_seed(seed)
        _, ys = scan(lambda c, x: (c, x + torch.rand(2, device="xla")), torch.zeros(1, device="xla"), torch.zeros(5, 2, device="xla"))
        return ys.cpu(), torch.rand(10, device="xla").cpu()

    ys, after = draw(1)
    assert len(set(ys.flatten().tolist()) | set(after.tolist())) == 20
    again, _ = draw(1)
    other, _ = draw(2)
    assert torch.equal(ys, again) and not torch.equal(ys, other)


def test_loops_in_loops_and_values_of_outside() -> None:
    outside = torch.arange(3.0, device="xla") + 1

    def inner(c: list[torch.Tensor], x: list[torch.Tensor]) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        rounds, _ = loop.scan_forward(lambda d, y: ([d[0] + y[0] * x[0].sum() + outside], []), [c[0]], [x[0]], 2)
        return rounds, [rounds[0] * 2]

    xs = torch.randn(4, 2, 3, device="xla")
    (last,), (ys,) = loop.scan_forward(inner, [torch.zeros(3, device="xla")], [xs], 4)
    wanted, each = torch.zeros(3), []
    for x in xs.cpu():
        for y in x:
            wanted = wanted + y * x.sum() + outside.cpu()
        each.append(wanted * 2)
    torch.testing.assert_close(last.cpu(), wanted)
    torch.testing.assert_close(ys.cpu(), torch.stack(each))
    (first,), (back,) = loop.scan_forward(lambda c, x: ([c[0] + x[0]], [c[0] + x[0]]), [torch.zeros((), device="xla")], [outside], 3, reverse=True)
    assert first.item() == 6.0 and back.tolist() == [6.0, 5.0, 3.0]
    (same,), (none,) = loop.scan_forward(lambda c, x: ([c[0] + x[0]], [x[0]]), [outside[0]], [outside[:0]], 0)
    assert same.item() == 1.0 and none.shape == (0,)


def test_scan_refuses() -> None:
    init, xs = torch.zeros(2, device="xla"), torch.ones(3, 2, device="xla")
    with pytest.raises(ValueError, match="expected fn to be a function"):
        scan(3, init, xs)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="of one length"):
        scan(lambda c, x: (c, x), init, (xs, xs[:2]))
    with pytest.raises(ValueError, match="keep its type, got f32\\[3\\] for f32\\[2\\]"):
        scan(lambda c, x: (torch.cat([c, x])[:3], x), init, xs)
    with pytest.raises(RuntimeError, match="in-place operation"):
        scan(lambda c, x: (c.add_(x), x), init, xs)
    with pytest.raises(loop.InPlaceError, match="in-place operation on tensor 0"):
        loop.scan_forward(lambda c, x: ([c[0].add_(1)], []), [init], [xs], 3)
    with pytest.raises(errors.FailedPreconditionError, match="got a placeholder"):
        loop.scan_forward(lambda c, x: ([c[0] * c[0].sum().item()], []), [init], [xs], 3)
    assert (init + 1).tolist() == [1.0, 1.0]


def test_while_loops() -> None:
    limit = torch.tensor(100.0, device="xla")
    rounds, grown = loop.while_loop(lambda n, x: x.sum() < limit, lambda n, x: (n + 1, x * 2), (torch.tensor(0, device="xla"), torch.ones(2, device="xla")))
    assert rounds.item() == 6 and grown.tolist() == [64.0, 64.0]
    (none,) = loop.while_loop(lambda x: x < 0, lambda x: (x + 1,), (torch.tensor(5, device="xla"),))
    assert none.item() == 5
    assert loop.fori_loop(2, torch.tensor(5, device="xla"), lambda i, x: x + i, torch.zeros((), device="xla")).item() == 9.0
    assert debug.graph(loop.fori_loop(0, 9, lambda i, x: x + i, torch.zeros((), device="xla"))).hlo.count(" while(") == 1
    with pytest.raises(ValueError, match="bool tensor of one element"):
        loop.while_loop(lambda x: x, lambda x: (x,), (limit,))
    with pytest.raises(errors.UnimplementedError, match="without random numbers"):
        loop.while_loop(lambda x: x < 1, lambda x: (x + torch.rand((), device="xla"),), (torch.zeros((), device="xla"),))


def test_torchs_while_loop_is_one_instruction() -> None:
    from torch._higher_order_ops.while_loop import while_loop

    rounds, x = while_loop(lambda n, x: n > 0, lambda n, x: (n - 1, x + n), (torch.tensor(4, device="xla"), torch.tensor(0, device="xla")))
    assert rounds.item() == 0 and x.item() == 10


def test_scan_layers() -> None:
    torch.manual_seed(0)
    layers = [nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.Tanh()).to("xla") for _ in range(5)]
    x = torch.randn(3, 4, device="xla", requires_grad=True)
    parameters = [parameter for layer in layers for parameter in layer.parameters()]
    out = scan_layers(layers, x, is_layer_pure=True)
    found = [one.cpu() for one in torch.autograd.grad(out.square().sum(), [x, *parameters])]
    y = x
    for layer in layers:
        y = layer(y)
    wanted = torch.autograd.grad(y.square().sum(), [x, *parameters])
    torch.testing.assert_close(out.detach().cpu(), y.detach().cpu())
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other.cpu(), rtol=1e-4, atol=1e-5)
    assert scan_layers([], x) is x
    with pytest.raises(ValueError, match="mismatched keys"):
        scan_layers([layers[0], layers[1][0]], x)
    with pytest.raises(ValueError, match="Shape mismatch"):
        scan_layers([nn.Linear(4, 4).to("xla"), nn.Linear(4, 5).to("xla")], x)


def test_gradient_accumulation() -> None:
    torch.manual_seed(0)
    model = nn.Linear(4, 2).to("xla")
    inputs, targets = torch.randn(6, 4, device="xla"), torch.randn(6, 2, device="xla")

    def step(x: torch.Tensor, y: torch.Tensor, count: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return nn.functional.mse_loss(model(x), y), count + 1

    for passes in (1, 2):  # the second adds to the gradients of the first
        loss, count = gradient_accumulation(step, (inputs, targets), model, torch.tensor(0, device="xla"))
        wanted = nn.functional.mse_loss(model(inputs), targets)
        gradient = torch.autograd.grad(wanted, model.weight)[0] * passes
        torch.testing.assert_close(model.weight.grad.cpu(), gradient.cpu())
        torch.testing.assert_close(loss.cpu(), wanted.detach().cpu())
        assert count.item() == 6
    with pytest.raises(ValueError, match="of one length"):
        gradient_accumulation(step, [], model)
    with pytest.raises(AssertionError, match="in-place operation"):
        gradient_accumulation(lambda x, y: model(x.add_(1)).sum(), (inputs, targets), model)


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoint_computes_again(reentrant: bool) -> None:
    layer = nn.Linear(4, 4).to("xla")

    def function(x: torch.Tensor, scale: float = 1.0) -> dict[str, torch.Tensor]:
        return {"y": nn.functional.dropout(torch.sin(layer(x) * scale), 0.5)}

    x = torch.randn(3, 4, device="xla", requires_grad=True)
    found, wanted = [], []
    for run, kept in ((lambda: checkpoint(function, x, scale=2.0, use_reentrant=reentrant), found), (lambda: function(x, scale=2.0), wanted)):
        torch.manual_seed(5)
        y = run()["y"]
        y.square().sum().backward()
        kept.extend([y.detach().cpu(), x.grad.cpu(), layer.weight.grad.cpu()])
        x.grad = layer.weight.grad = layer.bias.grad = None
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other)

    def sines(x: torch.Tensor) -> torch.Tensor:
        return x.sin().sin().sin()

    def program(run: Callable[[torch.Tensor], torch.Tensor]) -> str:
        x = torch.randn(3, device="xla", requires_grad=True)
        y = run(x)
        y.sum().backward()
        return debug.graph(y, x.grad).hlo

    again, plain = program(lambda x: checkpoint(sines, x, use_reentrant=reentrant)), program(sines)
    assert "opt-barrier" in again and "opt-barrier" not in plain and again.count(" sine(") > plain.count(" sine(") == 3


def test_barriers() -> None:
    x = torch.randn(3, device="xla", requires_grad=True)
    y, z = optimization_barrier([x * 2, torch.arange(3, device="xla")])
    y.sum().backward()
    assert x.grad.tolist() == [2.0] * 3 and z.tolist() == [0, 1, 2]
    w = torch.ones(2, device="xla")
    optimization_barrier_([w])
    assert "opt-barrier" in debug.graph(w).hlo and w.tolist() == [1.0, 1.0]
    with pytest.raises(ValueError, match="on device xla"):
        optimization_barrier([torch.ones(1)])


def test_nothing_stays_behind() -> None:
    del_counts = debug.live_counts()["nodes"]
    x = torch.randn(3, 2, device="xla", requires_grad=True)
    for _ in range(3):
        last, ys = scan(lambda c, x: (c * x, c), torch.ones(2, device="xla"), x)
        (last.sum() + ys.sum()).backward()
        xla_go.sync(wait=True)
    del last, ys, x
    xla_go.sync(wait=True)
    assert debug.live_counts()["nodes"] <= del_counts + 2


def test_what_is_left_of_a_loops_function_disturbs_nothing() -> None:
    kept = []

    def keeps(carry: list[torch.Tensor], x: list[torch.Tensor]) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        kept.append(carry[0] * 2)
        return [carry[0] + x[0]], []

    xs = torch.ones(3, 2, device="xla")
    for eager in (False, True):
        xla_go.eager_mode(eager)
        try:
            (last,), _ = loop.scan_forward(keeps, [torch.zeros(2, device="xla")], [xs], 3)
            xla_go.sync(wait=True)
            assert last.tolist() == [3.0, 3.0] and (xs + 1).sum().item() == 12.0
            with pytest.raises(errors.FailedPreconditionError, match="got a placeholder"):
                kept[-1].tolist()
            with pytest.raises(errors.FailedPreconditionError, match="got a placeholder"):
                (kept[-1] + xs[0]).cpu()
        finally:
            xla_go.eager_mode(False)
