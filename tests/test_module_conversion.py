"""Parameters of a module that is moved to device xla, or back, stay the same objects, as between the CPU and CUDA."""

from __future__ import annotations

import copy
import gc
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import torch
from torch import nn

import xla_go  # noqa: F401  registers the device


@contextmanager
def overwriting() -> Iterator[None]:
    torch.__future__.set_overwrite_module_params_on_conversion(True)
    try:
        yield
    finally:
        torch.__future__.set_overwrite_module_params_on_conversion(False)


OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.1),
    "adamw, fused": lambda p: torch.optim.AdamW(p, lr=0.1, fused=True),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimizer_made_before_the_move_trains_the_module(name: str) -> None:
    torch.manual_seed(0)
    cpu = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 1))
    xla = copy.deepcopy(cpu)
    optimizers = {model: OPTIMIZERS[name](model.parameters()) for model in (cpu, xla)}
    xla.to("xla")
    assert all(p.device.type == "xla" for group in optimizers[xla].param_groups for p in group["params"])
    x = torch.randn(8, 4)
    for _ in range(3):
        for model, value in ((cpu, x), (xla, x.to("xla"))):
            optimizers[model].zero_grad()
            model(value).square().mean().backward()
            optimizers[model].step()
    for p, q in zip(cpu.parameters(), xla.parameters(), strict=True):
        torch.testing.assert_close(q.detach().cpu(), p.detach(), rtol=1e-4, atol=1e-5)


def test_objects_attributes_gradients_and_hooks_stay() -> None:
    layer = nn.Linear(3, 2)
    layer(torch.ones(1, 3)).sum().backward()
    weight, seen = layer.weight, []
    weight.note = "mine"
    watched = weakref.ref(weight)
    weight.register_hook(lambda gradient: seen.append(gradient.device.type))
    weight.register_post_accumulate_grad_hook(lambda p: seen.append(str(float(p.grad.sum()))))
    assert weight.grad is not None
    expected = weight.grad.clone()
    layer.to("xla")
    assert layer.weight is weight is watched() and weight.note == "mine" and weight.device.type == "xla"
    assert isinstance(weight, nn.Parameter) and weight.requires_grad and weight.is_leaf
    assert weight.grad is not None and weight.grad.device.type == "xla" and torch.equal(weight.grad.cpu(), expected)
    layer(torch.ones(1, 3, device="xla")).sum().backward()
    assert seen == ["xla", "12.0"]
    layer.cpu()
    assert layer.weight is weight and weight.device.type == "cpu" and torch.equal(weight.grad, 2 * expected)
    layer(torch.ones(1, 3)).sum().backward()
    assert seen[2:] == ["cpu", "18.0"]


def test_frozen_and_tied_parameters() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False)
            self.second.weight = self.first.weight
            self.first.weight.requires_grad_(False)

    net = Tied()
    weight = net.first.weight
    net.to("xla")
    assert net.first.weight is net.second.weight is weight and not weight.requires_grad and weight.device.type == "xla"


def test_the_graph_of_an_earlier_forward_pass_is_refused() -> None:
    layer = nn.Linear(3, 2)
    weight = layer.weight
    old = layer(torch.ones(1, 3)).sum()
    layer.to("xla")
    assert layer.weight is weight
    with pytest.raises(RuntimeError, match="from before it was moved"):
        old.backward()
    layer(torch.ones(1, 3, device="xla")).sum().backward()
    assert weight.grad is not None and weight.grad.device.type == "xla"
    del old
    gc.collect()
    layer.cpu()(torch.ones(1, 3)).sum().backward()
    assert layer.weight is weight and float(weight.grad.sum()) == 12.0


def test_new_parameters_where_the_user_asks_for_them() -> None:
    layer = nn.Linear(3, 2)
    weight = layer.weight
    with overwriting():
        layer.to("xla")
    assert layer.weight is not weight and weight.device.type == "cpu" and layer.weight.device.type == "xla"
