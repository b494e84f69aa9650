"""Parts of exported programs that are composites."""

from __future__ import annotations

import pytest
import torch

from xla_go import debug, errors, stablehlo
from xla_go.composite import Composite


class Attention(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        part = Composite("test.attention", {"scale": 0.25, "causal": False, "name": "a", "sizes": [1, 2]})
        q, k = part.mark_inputs(x, y)
        scores = part.mark_outputs((q @ k.mT * 0.25).softmax(-1))
        return scores @ y + 1


def test_an_export_has_a_composite_and_runs() -> None:
    x, y = torch.randn(2, 3, 4), torch.randn(2, 3, 4)
    program = stablehlo.export(Attention(), (x, y))
    readable = program.readable()
    assert readable.count('stablehlo.composite "test.attention" %arg0, %arg1 {composite_attributes = {causal = false, name = "a", scale = 2.500000e-01 : f32, sizes = dense<[1, 2]> : tensor<2xi64>}, decomposition = @test.attention.impl}') == 1
    main, decomposition = readable.split("func.func private @test.attention.impl")
    assert "stablehlo.exponential" not in main and "stablehlo.exponential" in decomposition
    assert 'composite.name="test.attention"' in program.hlo and "xla_go.mark" not in program.hlo
    torch.testing.assert_close(program(x, y), Attention()(x, y))


def test_what_is_run_has_no_marks() -> None:
    x, y = torch.randn(3, 4), torch.randn(3, 4)
    a, b = x.to("xla").requires_grad_(), y.to("xla")
    result = Attention()(a, b)
    graph = debug.graph(result)
    assert "custom-call" not in graph.hlo and " call(" not in graph.hlo and graph.stablehlo.count("stablehlo.composite") == 1
    result.sum().backward()
    theirs = x.clone().requires_grad_()
    Attention()(theirs, y).sum().backward()
    torch.testing.assert_close(a.grad.cpu(), theirs.grad)


def test_parts_that_are_none() -> None:
    class Lacking(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            part = Composite("test.two")
            return part.mark_outputs(-part.mark_inputs(x), x + 1)[1]

    with pytest.raises(errors.InvalidArgumentError, match=r"test\.two .*got no output 0"):
        stablehlo.export(Lacking(), (torch.ones(2),))
    x = torch.ones(2, device="xla")
    assert "composite" not in debug.graph(Lacking()(x)).stablehlo
    with pytest.raises(ValueError, match="with its namespace"):
        Composite("plain").mark_inputs(x)
    with pytest.raises(ValueError, match="lists of one kind"):
        Composite("test.part", {"mixed": [1, 2.0]})
    with pytest.raises(ValueError, match="expected tensors, got int"):
        Composite("test.part").mark_outputs(1)  # type: ignore[arg-type]
