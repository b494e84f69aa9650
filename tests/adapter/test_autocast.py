"""torch.autocast on device xla casts as torch's own lists say."""

from __future__ import annotations

import pytest
import torch

D = torch.device("xla")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_lower_precision(dtype: torch.dtype) -> None:
    x = torch.randn(4, 4, device=D)
    with torch.autocast("xla", dtype=dtype):
        assert (x @ x).dtype == torch.mm(x, x).dtype == torch.nn.functional.linear(x, x).dtype == dtype
        assert (
            torch.nn.functional.conv2d(torch.ones(1, 1, 4, 4, device=D), torch.ones(1, 1, 3, 3, device=D)).dtype
            == dtype
        )
        assert (x.double() @ x.double()).dtype == torch.float64
        assert (x + x).dtype == torch.float32
    assert (x @ x).dtype == torch.float32


def test_float32() -> None:
    x = torch.rand(4, 4, device=D).bfloat16()
    with torch.autocast("xla", dtype=torch.bfloat16):
        assert torch.exp(x).dtype == torch.log(x).dtype == torch.float32
        assert torch.nn.functional.mse_loss(x, x).dtype == torch.float32
        assert torch.nn.functional.layer_norm(x, (4,)).dtype == torch.float32
        assert torch.softmax(x, 0).dtype == x.sum().dtype == x.cumsum(0).dtype == torch.float32
        assert torch.softmax(x, 0, dtype=torch.float64).dtype == torch.float64
        assert x.norm().dtype == x.norm(2, 0).dtype == torch.float32


def test_promotion() -> None:
    x = torch.rand(4, 4, device=D)
    with torch.autocast("xla", dtype=torch.bfloat16):
        assert torch.addcmul(x, x.bfloat16(), x).dtype == torch.float32
        assert torch.addcmul(x.bfloat16(), x.bfloat16(), x.bfloat16()).dtype == torch.bfloat16
        assert torch.dot(x[0], x[0].bfloat16()).dtype == torch.float32


def test_a_module_trains() -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1)).to(D)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, y = torch.randn(32, 8).to(D), torch.randn(32, 1).to(D)
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        with torch.autocast("xla", dtype=torch.bfloat16):
            prediction = model(x)
            loss = torch.nn.functional.mse_loss(prediction, y)
        assert prediction.dtype == torch.bfloat16 and loss.dtype == torch.float32
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert all(p.dtype == p.grad.dtype == torch.float32 for p in model.parameters())
    assert losses[-1] < losses[0]


def test_weights_are_cast_once() -> None:
    weight = torch.nn.Parameter(torch.randn(4, 4, device=D))
    x = torch.randn(4, 4, device=D)
    with torch.autocast("xla", dtype=torch.bfloat16):
        a, b = torch.mm(x, weight), torch.mm(x, weight)
    assert a.grad_fn.next_functions[1][0] is b.grad_fn.next_functions[1][0]


def test_disabled_regions() -> None:
    x = torch.randn(4, 4, device=D)
    with torch.autocast("xla", dtype=torch.bfloat16), torch.autocast("xla", enabled=False):
        assert (x @ x).dtype == torch.float32


def test_unsupported_dtype_warns() -> None:
    with pytest.warns(UserWarning, match="Disabling autocast"):
        torch.autocast("xla", dtype=torch.float64)
