"""HLO modules that something else has lowered, and functions of JAX, as operators of a step."""

from __future__ import annotations

import pytest
import torch

import xla_go
from xla_go import debug, errors, metrics, stablehlo
from xla_go.hlo_module import HloModule


def scaled(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return x * 2 + y, y.sort().indices, torch.where(x > 1, x, 0.5)


@pytest.fixture(scope="module")
def module() -> HloModule:
    """What an export of the function has: its numbers are in it."""
    return HloModule(stablehlo.export(scaled, (torch.zeros(3), torch.zeros(3))).module)


def test_a_call_is_part_of_the_step(module: HloModule) -> None:
    assert module.parameters == [(torch.float32, (3,))] * 2
    assert module.results == [(torch.float32, (3,)), (torch.int64, (3,)), (torch.float32, (3,))]
    x, y = torch.tensor([1.0, 2, 3]), torch.tensor([3.0, 1, 2])
    a, b = x.to("xla"), y.to("xla")
    xla_go.sync()
    before = metrics.counter_value("UncachedCompile") or 0
    once = module(a + 1, b.flip(0))
    twice = module(once[0], b)
    for found, wanted in zip((*once, *twice), (*scaled(x + 1, y.flip(0)), *scaled(once[0].cpu(), y)), strict=True):
        torch.testing.assert_close(found.cpu(), wanted)
    assert (metrics.counter_value("UncachedCompile") or 0) > before
    graph = debug.graph(module(a, b)[0])
    assert "xla_go::call_module" in graph.ir and graph.hlo.count(" call(") == 1 and "func.call" in graph.stablehlo


def test_the_module_is_part_of_the_program() -> None:
    x = torch.ones(2, device="xla")
    doubled, tripled = (HloModule(stablehlo.export(lambda x, n=n: x * n, (torch.ones(2),)).module) for n in (2, 3))
    assert (doubled(x)[0].tolist(), tripled(x)[0].tolist()) == ([2, 2], [3, 3])
    pending = tripled(x)[0]
    del tripled  # what was traced stays
    assert pending.tolist() == [3, 3]


def test_what_does_not_fit(module: HloModule) -> None:
    x = torch.ones(3, device="xla")
    for inputs, words in (((x, x.cpu()), "device xla"), ((x,), "expected 2 tensors"), ((x, x[:2]), r"f32\[3\] as input 1 of the module, got f32\[2\]")):
        with pytest.raises(ValueError, match=words):
            module(*inputs)
    for serialized in (b"", b"no module", module.serialized[:-20]):
        with pytest.raises(errors.InvalidArgumentError, match="module"):
            HloModule(serialized)
    with pytest.raises(ValueError, match="open module"):
        torch.ops.xla_go.call_module([x], [x], 12345)


def test_a_function_of_jax() -> None:
    pytest.importorskip("jax", reason="JAX is not installed")
    import jax.numpy as jnp

    from xla_go.jax_function import JaxFunction

    traced = 0

    def function(tree: dict[str, object], power: int) -> dict[str, object]:
        nonlocal traced
        traced += 1
        return {"y": jnp.sin(tree["a"]) * tree["b"].sum() ** power, "order": jnp.argsort(tree["a"])}  # type: ignore[attr-defined]

    called = JaxFunction(function)
    a, b = (torch.randn(3, device="xla", requires_grad=True) for _ in range(2))
    for _ in range(2):
        a.grad = b.grad = None
        result = called({"a": a, "b": b}, power=2)
        result["y"].sum().backward()
    x, y = (one.detach().cpu().requires_grad_() for one in (a, b))
    wanted = torch.sin(x) * y.sum() ** 2
    wanted.sum().backward()
    torch.testing.assert_close(result["y"].detach().cpu(), wanted.detach())
    for one, other in ((a, x), (b, y)):
        torch.testing.assert_close(one.grad.cpu(), other.grad)
    assert result["order"].tolist() == x.argsort().tolist() and not result["order"].requires_grad
    assert (traced, len(called.programs)) == (1, 2)
    with torch.no_grad():
        torch.testing.assert_close(called({"a": a, "b": b}, power=3)["y"].cpu(), torch.sin(x.detach()) * y.detach().sum() ** 3)
    assert (traced, len(called.programs)) == (2, 3)
    with pytest.raises(ValueError, match="device xla"):
        called({"a": x, "b": b}, power=2)


def test_64_bit_types_become_those_of_jax() -> None:
    pytest.importorskip("jax", reason="JAX is not installed")
    from xla_go.jax_function import JaxFunction

    result = JaxFunction(lambda n: n + 1)(torch.arange(3, device="xla"))
    assert result.dtype == torch.int32 and result.tolist() == [1, 2, 3]
