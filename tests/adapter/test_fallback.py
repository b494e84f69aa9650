"""Operators without a row: composites, the counted CPU fallback, and what it refuses."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

import xla_go
from xla_go import _adapter


@pytest.fixture
def without_fallback() -> Iterator[None]:
    _adapter.loaded().set_fallback_mode("error")
    yield
    _adapter.loaded().set_fallback_mode("cpu")


def unregistered() -> str:
    """An operator that has a CPU kernel and no row."""
    for name in ("linalg_eig", "linalg_ldl_factor_ex"):
        if not torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", "XLA"):
            return name
    pytest.skip("every operator of the list has a row")


def test_it_is_counted_and_right() -> None:
    name = unregistered()
    x = torch.randn(3, 3)
    before = xla_go.metrics.counter_value(f"aten::{name}") or 0
    function = getattr(torch, name, None) or getattr(torch.linalg, name.removeprefix("linalg_"))
    result, expected = function(x.to("xla")), function(x)
    assert xla_go.metrics.counter_value(f"aten::{name}") == before + 1
    for got, want in zip(result, expected, strict=True):
        assert got.device.type == "xla"
        torch.testing.assert_close(got.cpu(), want)


def test_it_can_be_forbidden(without_fallback: None) -> None:
    name = unregistered()
    function = getattr(torch, name, None) or getattr(torch.linalg, name.removeprefix("linalg_"))
    with pytest.raises(
        NotImplementedError, match=rf"aten::{name}.*not implemented on device xla.*XLA_GO_FALLBACK=error"
    ):
        function(torch.randn(3, 3, device="xla"))


def test_the_mode_is_checked() -> None:
    with pytest.raises(ValueError, match="expected 'cpu' or 'error', got 'maybe'"):
        _adapter.loaded().set_fallback_mode("maybe")


def test_results_whose_shape_depends_on_values() -> None:
    x = torch.tensor([0.0, 1.0, 0.0, 2.0])
    d = x.to("xla")
    assert torch.equal(d.nonzero().cpu(), x.nonzero())
    assert torch.equal(d[d > 0].cpu(), x[x > 0])
    assert torch.equal(torch.unique(d).cpu(), torch.unique(x))
    assert torch.equal(torch.masked_select(d, d > 0).cpu(), x[x > 0])


def test_index_tensors_may_be_on_the_cpu() -> None:
    x = torch.arange(12.0).reshape(4, 3)
    d = x.to("xla")
    rows = torch.tensor([2, 0])
    assert torch.equal(d[rows].cpu(), x[rows])
    d[rows] = 5.0
    x[rows] = 5.0
    assert torch.equal(d.cpu(), x)
    mask = x > 6
    assert torch.equal(d[mask].cpu(), x[mask])
