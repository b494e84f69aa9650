"""The module torch.xla."""

from __future__ import annotations

import pytest
import torch

from support import Child
from xla_go import _device_module


def test_it_is_torch_xla() -> None:
    assert torch.xla is _device_module and torch.get_device_module("xla") is _device_module
    assert torch.xla.is_available() and torch.xla.device_count() >= 1 and torch.xla.current_device() == 0
    with pytest.raises(AttributeError, match=r"module 'torch.xla' has no attribute 'nothing'"):
        torch.xla.nothing  # noqa: B018


def test_devices(child: Child) -> None:
    done = child(
        """
        import torch, xla_go
        assert torch.xla.device_count() == 3
        with torch.xla.device(2):
            assert torch.xla.current_device() == 2 and torch.ones(1, device="xla").device.index == 2
            with torch.xla.device(-1):
                assert torch.xla.current_device() == 2
        assert torch.xla.current_device() == 0
        torch.xla.set_device("xla:1")
        assert torch.ones(1, device="xla").device.index == 1 and torch.xla.get_rng_state().numel() == 16
        a, b = torch.ones(3, device="xla:1"), torch.ones(3, device="xla:2")
        try:
            a + b
        except RuntimeError as error:
            assert "at least two devices, xla:1 and xla:2" in str(error)
        assert (a.to("xla:2") + b).cpu().tolist() == [2.0] * 3
        try:
            torch.xla.set_device(3)
        except RuntimeError as error:
            print(error)
        """,
        env={"CPU_NUM_DEVICES": "3"},
    )
    assert "expected a device index from 0 to 2, got 3" in done.stdout


def test_synchronize_waits() -> None:
    x = torch.ones(100, device="xla") * 2
    torch.xla.synchronize()
    assert x.sum().item() == 200
    with pytest.raises(ValueError, match="expected an xla device, got cpu"):
        torch.xla.synchronize("cpu")


def test_memory_is_counted_or_refused() -> None:
    held = torch.ones(3, device="xla")
    torch.xla.synchronize()
    try:
        used = torch.xla.memory_allocated()
    except NotImplementedError as error:
        assert "counts no memory" in str(error)
    else:
        assert torch.xla.max_memory_allocated() >= used >= held.nbytes


def test_generic_code_works() -> None:
    with torch.device("xla"):
        layer = torch.nn.Linear(2, 2)
        assert layer.weight.device.type == "xla" and torch.zeros(2).device.type == "xla"
    assert torch.nn.Linear(2, 2, device="meta").to_empty(device="xla").weight.device.type == "xla"
    x = torch.ones(3, device="xla")
    assert x.is_xla and x.get_device() == 0 and not x.is_pinned() and x.untyped_storage().device.type == "xla"
    with torch.inference_mode():
        assert (x + 1).is_inference()
    assert torch.func.grad(lambda t: (t * t).sum())(x).cpu().tolist() == [2.0] * 3
    assert torch.vmap(lambda t: t * 2)(x).cpu().tolist() == [2.0] * 3
    assert torch.func.jvp(lambda t: t * t, (x,), (x,))[1].cpu().tolist() == [2.0] * 3
