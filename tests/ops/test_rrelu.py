"""The leaky relu with a random slope on device xla."""

from __future__ import annotations

import pytest
import torch
from oracle import check, check_error

import xla_go

F = torch.nn.functional


def test_evaluation():
    x = torch.tensor([-2.0, -0.0, 0.0, float("nan"), 3.0], requires_grad=True)
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
        check(lambda x: F.rrelu(x, 0.1, 0.4), x.detach().to(dtype).requires_grad_())
    check(lambda x: F.rrelu_(x.clone(), 0.1, 0.4), x.detach())
    check(F.rrelu, torch.tensor(-1.5))
    check(F.rrelu, torch.empty(0, 2))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_training(dtype):
    """Slopes are uniform below zero, one above, and the gradient goes through the same slopes."""
    xla_go.metrics.clear_all()
    torch.manual_seed(5)
    x = torch.linspace(-3, 3, 4000, dtype=dtype, device="xla").requires_grad_()
    y = F.rrelu(x, 0.2, 0.6, training=True)
    y.sum().backward()
    below = x.detach().cpu() <= 0
    slope, gradient = (y / x).detach().cpu(), x.grad.cpu()
    assert (slope[~below] == 1).all()
    assert (gradient[~below] == 1).all()
    assert ((gradient[below] >= 0.2 - 1e-3) & (gradient[below] <= 0.6 + 3e-3)).all()
    torch.testing.assert_close(slope[below], gradient[below], rtol=2e-2, atol=2e-2)
    assert abs(gradient[below].double().mean().item() - 0.4) < 0.02
    assert gradient[below].unique().numel() > (1500 if dtype != torch.bfloat16 else 50)
    assert not xla_go.metrics.executed_fallback_ops()


def test_noise():
    """The slopes come in the argument, also for the variant in place, and another draw has others."""
    torch.manual_seed(5)
    x, noise = torch.full((64,), -1.0, device="xla"), torch.zeros(64, device="xla")
    y = torch.ops.aten.rrelu_with_noise(x, noise, 0.1, 0.3, True)
    assert torch.equal(y.cpu(), -noise.cpu())
    first = noise.cpu()
    assert ((first >= 0.1) & (first <= 0.3)).all()
    torch.ops.aten.rrelu_with_noise_(x, noise, 0.1, 0.3, True)
    assert torch.equal(x.cpu(), -noise.cpu())
    assert not torch.equal(first, noise.cpu())


def test_errors():
    function, x = torch.ops.aten.rrelu_with_noise, torch.ones(4)
    check_error(lambda x, n: function(x, n, 0.1, 0.3, True), x, x[:3])
    check_error(lambda x, n: function(x, n, 0.1, 0.3, True), x, x.double())
    check_error(lambda x, n: function(x, n, 0.1, 0.3, True), x.half(), x.half())
    check_error(lambda x, n: function(x, n, 0.1, 0.3, False), x.long(), x.long())
