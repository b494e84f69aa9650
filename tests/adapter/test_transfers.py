"""Copies between host and device, reads, storages and views at the level of the adapter."""

from __future__ import annotations

import pytest
import torch

from xla_go import _adapter

DTYPES = [
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.uint8,
    torch.bool,
    torch.complex64,
    torch.complex128,
]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_values_come_back(dtype: torch.dtype) -> None:
    x = torch.arange(24).reshape(2, 3, 4).to(dtype)
    d = x.to("xla")
    assert d.device == torch.device("xla", 0) and d.dtype == dtype
    assert torch.equal(d.cpu(), x)
    assert torch.equal(d.transpose(0, 2).cpu(), x.transpose(0, 2))
    assert torch.equal(x.transpose(0, 2).to("xla").cpu(), x.transpose(0, 2))
    assert d[1, 2, 3].item() == x[1, 2, 3].item() and type(d[1, 2, 3].item()) is type(x[1, 2, 3].item())


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,), (5, 1, 2)], ids=str)
def test_shapes_at_the_edge(shape: tuple[int, ...]) -> None:
    x = torch.full(shape, 3.0)
    assert torch.equal(x.to("xla").cpu(), x)
    assert torch.equal((x.to("xla") + 1).cpu(), x + 1)


def test_converting_copies() -> None:
    x = torch.tensor([1.7, -2.3, 0.0])
    d = x.to("xla")
    for dtype in (torch.int32, torch.float64, torch.bool, torch.bfloat16):
        assert torch.equal(d.to(dtype).cpu(), x.to(dtype))
        assert torch.equal(d.to(device="cpu", dtype=dtype), x.to(dtype))
        assert torch.equal(x.to(device="xla", dtype=dtype).cpu(), x.to(dtype))
        host = torch.empty(3, dtype=dtype)
        assert torch.equal(host.copy_(d), x.to(dtype))
        device = torch.empty(3, dtype=dtype, device="xla")
        assert torch.equal(device.copy_(x).cpu(), x.to(dtype))


def test_broadcasting_copies() -> None:
    row = torch.arange(4.0)
    d = torch.empty(3, 4, device="xla")
    assert torch.equal(d.copy_(row).cpu(), row.expand(3, 4))
    assert torch.equal(d.copy_(row.to("xla") * 2).cpu(), (row * 2).expand(3, 4))
    assert torch.equal(torch.empty(3, 4).copy_(row.to("xla")), row.expand(3, 4))
    with pytest.raises(RuntimeError, match=r"output with shape \[4\] doesn't match the broadcast shape \[3, 4\]"):
        torch.empty(4, device="xla").copy_(torch.ones(3, 4))


def test_lazy_conjugates_and_negatives() -> None:
    x = torch.tensor([1 + 2j, 3 - 4j])
    d = x.to("xla")
    assert torch.equal(d.conj().cpu().resolve_conj(), x.conj().resolve_conj())
    assert d.conj()[0].item() == 1 - 2j
    assert torch.equal(d.conj().imag.cpu(), x.conj().imag)
    target = torch.zeros(2, dtype=torch.complex64, device="xla")
    target.conj().copy_(x)
    assert torch.equal(target.cpu(), x.conj().resolve_conj())
    target.conj().copy_(d.conj())
    assert torch.equal(target.cpu(), x)
    assert torch.equal(x.conj().to("xla").cpu(), x.conj().resolve_conj())


def test_the_source_may_change_after_the_copy() -> None:
    x = torch.ones(1000)
    d = x.to("xla", non_blocking=True)
    x.zero_()
    assert d.sum().item() == 1000


def test_views_are_views() -> None:
    x = torch.arange(24.0).reshape(4, 6)
    d = x.to("xla")
    pairs = [(x.clone(), d.clone()) for _ in range(1)]
    for host, device in pairs:
        for t in (host, device):
            t[1:3, ::2].mul_(10)
            t.t()[0].fill_(-1)
            t.diagonal().zero_()
            t.unfold(1, 2, 3)[0, 0, 1] = 77
            t.view(-1)[5:9].add_(0.5)
            t.as_strided((2, 2), (7, 2), 1).sub_(1)
        assert torch.equal(host, device.cpu())


def test_reinterpreting_views() -> None:
    x = torch.arange(6.0)
    d = x.to("xla")
    assert torch.equal(d.view(torch.int32).cpu(), x.view(torch.int32))
    d.view(torch.int32)[0] = 1065353216
    assert d[0].item() == 1.0
    complex_view = torch.view_as_complex(d.view(3, 2))
    assert torch.equal(complex_view.cpu(), torch.complex(d.cpu()[::2], d.cpu()[1::2]))
    assert torch.view_as_real(complex_view)._base is not None


def test_resize_keeps_what_fits() -> None:
    x = torch.arange(6.0)
    d = x.to("xla")
    d.resize_(2, 2)
    assert torch.equal(d.cpu(), x[:4].view(2, 2))
    d.resize_(10)
    assert torch.equal(d[:6].cpu(), x) and d.untyped_storage().nbytes() == 40
    with pytest.raises(RuntimeError, match="negative dimension"):
        d.resize_(-1)


def test_set() -> None:
    d = torch.arange(6.0).to("xla")
    e = torch.empty(0, device="xla").set_(d)
    e[0] = 9
    assert d[0].item() == 9 and e.is_set_to(d)
    e.set_(d.untyped_storage(), 1, (2, 2), (2, 1))
    assert e.cpu().tolist() == [[1, 2], [3, 4]]
    e.set_(d.untyped_storage())
    assert e.shape == (6,)
    e.set_()
    assert e.shape == (0,) and d.shape == (6,)


def test_equal() -> None:
    d = torch.arange(6.0).to("xla")
    assert torch.equal(d, d.clone()) and not torch.equal(d, d + 1) and not torch.equal(d, d[:3])
    with pytest.raises(RuntimeError, match="different devices"):
        torch.equal(d, d.cpu())


def test_storage_identity() -> None:
    d = torch.arange(6.0).to("xla") + 1
    assert d.cpu() is not None
    assert _adapter.storage_id(d) == _adapter.storage_id(d[2:]) != _adapter.storage_id(d.clone())
    assert _adapter.buffer_pointer(d) != 0
    assert _adapter.buffer_pointer(d[2:]) - _adapter.buffer_pointer(d) == 8
    assert _adapter.storage_id(torch.empty(3, device="xla")) == 0


def test_out_arguments_are_resized_and_filled() -> None:
    d = torch.arange(6.0).to("xla")
    out = torch.empty(0, device="xla")
    assert torch.add(d, d, out=out) is out and torch.equal(out.cpu(), d.cpu() * 2)
    strided = torch.zeros(3, 2, device="xla").t()
    torch.mul(d.view(2, 3), 3, out=strided)
    assert torch.equal(strided.cpu(), d.cpu().view(2, 3) * 3) and not strided.is_contiguous()
    wide = torch.empty(6, dtype=torch.float64, device="xla")
    assert torch.equal(torch.add(d, 1, out=wide).cpu(), (d.cpu() + 1).double())


def test_uninitialised_tensors_cost_the_runtime_nothing() -> None:
    before = _adapter.loaded().op_call_count()
    tensors = [torch.empty(1 << 40, device="xla") for _ in range(100)]
    assert all(_adapter.storage_id(tensor) == 0 for tensor in tensors)
    assert _adapter.loaded().op_call_count() == before
