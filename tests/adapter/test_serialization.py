"""Copying, pickling, saving and exporting tensors."""

from __future__ import annotations

import copy
import io
import pickle

import numpy
import pytest
import torch

from support import Child


def saved(value: object, **how: object) -> object:
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return torch.load(file, **how)  # type: ignore[arg-type]


def test_deepcopy_keeps_sharing_and_device() -> None:
    x = torch.arange(6.0).to("xla")
    pair = copy.deepcopy({"a": x, "b": x[2:].view(2, 2).t(), "c": x.clone()})
    a, b, c = pair["a"], pair["b"], pair["c"]
    assert a.device == b.device == x.device
    a[3] = 100
    assert b.cpu().tolist() == [[2, 4], [100, 5]] and x[3].item() == 3 and c[3].item() == 3


def test_deepcopy_of_gradients_and_modules() -> None:
    x = torch.arange(3.0).to("xla").requires_grad_()
    (x * x).sum().backward()
    y = copy.deepcopy(x)
    assert y.requires_grad and torch.equal(y.grad.cpu(), x.grad.cpu()) and y.grad is not x.grad
    with pytest.raises(RuntimeError, match="graph leaves"):
        copy.deepcopy(x * 2)
    module = torch.nn.Linear(3, 2).to("xla")
    other = copy.deepcopy(module)
    with torch.no_grad():
        other.weight.zero_()
    assert module.weight.abs().sum().item() > 0 and other.weight.device.type == "xla"


def test_copy_shares() -> None:
    x = torch.arange(3.0).to("xla")
    y = copy.copy(x)
    y[0] = 7
    assert y.device == x.device and x[0].item() == 7
    parameter = copy.copy(torch.nn.Parameter(x, requires_grad=False))
    assert isinstance(parameter, torch.nn.Parameter) and not parameter.requires_grad and parameter.device.type == "xla"
    host = torch.arange(3.0)
    assert copy.copy(host).data_ptr() == host.data_ptr()


def test_a_saved_file_holds_cpu_tensors(child: Child, tmp_path) -> None:  # type: ignore[no-untyped-def]
    model = torch.nn.Linear(3, 2).to("xla")
    torch.save(model.state_dict(), tmp_path / "model.pt")
    done = child(
        """
        import sys, torch
        state = torch.load("model.pt", weights_only=True)
        assert "xla_go" not in sys.modules
        print(sorted((k, str(v.device), tuple(v.shape)) for k, v in state.items()))
        """
    )
    assert done.stdout.strip() == "[('bias', 'cpu', (2,)), ('weight', 'cpu', (2, 3))]"
    state = torch.load(tmp_path / "model.pt", weights_only=True)
    assert torch.equal(state["weight"], model.weight.detach().cpu())
    model.load_state_dict({name: value + 1 for name, value in state.items()})
    assert torch.equal(model.bias.detach().cpu(), state["bias"] + 1)


def test_saving_keeps_sharing_and_flags() -> None:
    x = torch.arange(6.0).to("xla")
    loaded = saved({"a": x, "b": x[2:], "p": torch.nn.Parameter(x * 2), "r": x.clone().requires_grad_(), "h": x.half()})
    assert all(value.device.type == "cpu" for value in loaded.values())
    loaded["a"][2] = 50
    assert loaded["b"][0].item() == 50
    assert (
        isinstance(loaded["p"], torch.nn.Parameter) and loaded["r"].requires_grad and loaded["h"].dtype == torch.float16
    )
    z = torch.tensor([1 + 2j]).to("xla")
    assert torch.equal(saved(z.conj()).resolve_conj(), torch.tensor([1 - 2j]))


def test_loading_to_the_device() -> None:
    x = torch.arange(6.0)
    loaded = saved({"a": x, "b": x[2:], "i": torch.arange(3)}, map_location="xla")
    assert all(value.device.type == "xla" for value in loaded.values())
    assert (
        torch.equal(loaded["a"].cpu(), x)
        and torch.equal(loaded["b"].cpu(), x[2:])
        and loaded["i"].cpu().tolist() == [0, 1, 2]
    )
    assert torch.equal((loaded["a"] + 1).cpu(), x + 1)
    assert torch.equal(saved(x.to("xla"), map_location=torch.device("xla", 0)).cpu(), x)


def test_pickle() -> None:
    x = torch.arange(6.0).to("xla").requires_grad_()
    y = pickle.loads(pickle.dumps(x))
    assert y.device.type == "cpu" and y.requires_grad and torch.equal(y, x.cpu())


def test_optimizer_state_survives() -> None:
    model = torch.nn.Linear(3, 2).to("xla")
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    for _ in range(2):
        model(torch.ones(4, 3, device="xla")).sum().backward()
        optimizer.step()
    other = torch.optim.AdamW(model.parameters(), lr=0.1)
    other.load_state_dict(saved(optimizer.state_dict()))
    for a, b in zip(optimizer.state.values(), other.state.values(), strict=True):
        assert b["exp_avg"].device.type == "xla" and torch.equal(a["exp_avg"].cpu(), b["exp_avg"].cpu())


def test_dlpack_and_numpy() -> None:
    x = torch.arange(3.0).to("xla")
    assert numpy.from_dlpack(x).tolist() == [0.0, 1.0, 2.0]
    with pytest.raises(TypeError, match="can't convert xla:0 device type tensor to numpy"):
        x.numpy()
    assert numpy.from_dlpack(torch.arange(3.0)).tolist() == [0.0, 1.0, 2.0]


def test_python_values() -> None:
    x = torch.arange(3.0).to("xla")
    assert x.tolist() == [0.0, 1.0, 2.0] and float(x[1]) == 1.0 and int(x[2]) == 2 and bool(x[1])
    assert "device='xla:0'" in repr(x) and f"{x[1]:.2f}" == "1.00"
    assert [float(value) for value in x] == [0.0, 1.0, 2.0] and len(x) == 3
    assert torch.tensor([1, 2], device="xla").dtype == torch.int64
    assert torch.as_tensor(numpy.ones(2), device="xla").dtype == torch.float64
