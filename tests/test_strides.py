"""Results have the strides that torch's CPU gives them, so that a view() after an operator works there and here."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from oracle import NEWEST, assert_same

OPERATORS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "clone": lambda x: x.clone(),
    "empty_like": torch.zeros_like,
    "another dtype": lambda x: x.double(),
    "another memory format": lambda x: x.to(torch.float64, memory_format=torch.contiguous_format),
    "a number added": lambda x: x + 1,
    "another tensor": lambda x: x + x.abs(),
    "a row-major tensor": lambda x: x * x.contiguous(),
    "a broadcast tensor": lambda x: x[:, :1] * x,
    "a comparison": lambda x: x > 0,
    "gelu": F.gelu,
    "dropout": lambda x: F.dropout(x, 0.0),
    "where": lambda x: torch.where(x > 0, x, 0),
    "masked_fill": lambda x: x.masked_fill(x > 0, 0),
    "clamp": lambda x: x.clamp(0),
    "flip": lambda x: x.flip(0),
    "sort": lambda x: x.sort(0).values,
    "softmax": lambda x: x.softmax(-1),
    "cumsum": lambda x: x.cumsum(0),
    "cat": lambda x: torch.cat([x, x]),
    "layer_norm": lambda x: F.layer_norm(x, x.shape[-1:]),
    "matmul": lambda x: x @ x.transpose(-1, -2).contiguous(),
    "addcmul": lambda x: torch.addcmul(x, x, x, value=2),
    "every second": lambda x: x[:, ::2] * 2,
    "expanded": lambda x: x[:, :1].expand_as(x) + 1,
}


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("layout", ["transposed", "channels_last", "permuted"])
def test_strides_are_those_of_the_cpu(name: str, layout: str) -> None:
    host = torch.randn(2, 3, 4, 5, generator=torch.Generator().manual_seed(1))
    device = host.to("xla")

    def act(x: torch.Tensor) -> torch.Tensor:
        if layout == "channels_last":
            x = x.contiguous(memory_format=torch.channels_last)
        elif layout == "permuted":
            x = x.permute(2, 0, 3, 1)
        else:
            x = x.transpose(1, 2)
        return OPERATORS[name](x)

    want, got = act(host), act(device)
    assert got.stride() == want.stride()
    assert_same(got, want, name)


def weight(x: torch.Tensor) -> torch.Tensor:
    return torch.randn(5, 4, 3, 3, generator=torch.Generator().manual_seed(2)).to(x.device)


def gradient(function: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    return torch.autograd.grad(function(x.requires_grad_()).square().sum(), x)[0]


FORMATTED: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "conv2d": lambda x: F.conv2d(x, weight(x)),
    "conv_transpose2d": lambda x: F.conv_transpose2d(x, weight(x).transpose(0, 1)),
    "gradient of conv2d": lambda x: gradient(lambda v: F.conv2d(v, weight(v)), x),
    "max_pool2d": lambda x: F.max_pool2d(x, 2),
    "gradient of max_pool2d": lambda x: gradient(lambda v: F.max_pool2d(v, 2), x),
    "avg_pool2d": lambda x: F.avg_pool2d(x, 2),
    "adaptive_avg_pool2d": lambda x: F.adaptive_avg_pool2d(x, 2),
    "nearest": lambda x: F.interpolate(x, scale_factor=2),
    "bilinear": lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
    "batch_norm": lambda x: F.batch_norm(x, None, None, training=True),
    # An older torch makes the input row-major everywhere but on the CPU.
    **({"group_norm": lambda x: F.group_norm(x, 2)} if NEWEST else {}),
    "cat": lambda x: torch.cat([x, x], 1),
    "pad": lambda x: F.pad(x, (1, 1, 1, 1)),
    "reflection": lambda x: F.pad(x, (1, 1, 1, 1), mode="reflect"),
    "prelu": lambda x: F.prelu(x, torch.ones(4, device=x.device)),
    "glu": lambda x: F.glu(x, 1),
}


@pytest.mark.parametrize("name", FORMATTED)
def test_channels_last_stays(name: str) -> None:
    host = torch.randn(2, 4, 6, 6, generator=torch.Generator().manual_seed(1))
    want, got = (FORMATTED[name](x.contiguous(memory_format=torch.channels_last)) for x in (host, host.to("xla")))
    assert got.stride() == want.stride() and got.is_contiguous(memory_format=torch.channels_last)
    assert_same(got, want, name)


def test_a_view_after_an_operator_on_a_transposed_tensor() -> None:
    x = torch.randn(2, 3, 4, device="xla", requires_grad=True)
    y = F.gelu(x.transpose(1, 2)).transpose(1, 2).view(2, 12)
    y.sum().backward()
    assert y.shape == (2, 12) and x.grad is not None and x.grad.shape == x.shape


def test_a_copy_within_one_storage_that_overlaps_raises_as_on_the_cpu() -> None:
    for device in "cpu", "xla":
        x = torch.arange(12.0, device=device)
        with pytest.raises(RuntimeError, match="some elements of the input tensor and the written-to tensor refer to a single memory location"):
            x[1:].copy_(x[:-1])
        with pytest.raises(RuntimeError, match="some elements of the input tensor and the written-to tensor refer to a single memory location"):
            torch.add(x[:-1], 1, out=x[1:])
        x.copy_(x.view(12))
        assert x.tolist() == list(range(12))


def test_one_value_may_be_written_to_an_expanded_tensor() -> None:
    for device in "cpu", "xla":
        x = torch.arange(3.0, device=device)
        wide = x.expand(4, 3)
        assert wide.fill_(2) is wide and x.tolist() == [2.0] * 3 and wide.shape == (4, 3)
        wide[:, 1].zero_()
        assert x.tolist() == [2.0, 0.0, 2.0]
        x.as_strided((2, 2), (1, 1)).fill_(5)
        assert x.tolist() == [5.0] * 3
        with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
            wide.add_(1)
