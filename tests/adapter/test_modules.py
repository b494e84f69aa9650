"""Modules on their way to the device and back."""

from __future__ import annotations

import torch
from torch import nn

import xla_go  # noqa: F401


class Tied(nn.Module):
    """A language model whose head is its embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(11, 6), nn.Sequential(nn.Linear(6, 11, bias=False))
        self.head[0].weight = self.embedding.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.embedding(tokens))


def test_a_tied_weight_stays_one_parameter_on_both_ways() -> None:
    model = Tied()
    before = model.embedding.weight.detach().clone()
    for device in ("xla", "xla", "cpu"):
        model = model.to(device)
        assert model.head[0].weight is model.embedding.weight
        assert len(list(model.parameters())) == 1
        assert model.embedding.weight.device.type == device
        assert torch.equal(model.embedding.weight.detach().cpu(), before)


def test_a_tied_weight_has_the_gradient_of_both_uses() -> None:
    gradients = {}
    torch.manual_seed(0)
    model, tokens = Tied(), torch.arange(5)
    for device in ("cpu", "xla"):
        model = model.to(device)
        model.zero_grad()
        model(tokens.to(device)).sin().sum().backward()
        gradients[device] = model.embedding.weight.grad.detach().cpu().clone()
    torch.testing.assert_close(gradients["xla"], gradients["cpu"])


def test_gradients_of_tied_weights_move_with_them() -> None:
    model = Tied()
    model(torch.arange(5)).sum().backward()
    gradient = model.embedding.weight.grad.clone()
    model.to("xla")
    assert model.head[0].weight.grad.device.type == "xla"
    assert torch.equal(model.head[0].weight.grad.cpu(), gradient)


def test_a_recurrent_module_uses_the_weight_that_it_is_tied_to() -> None:
    model = nn.ModuleDict({"a": nn.RNN(3, 3, bias=False), "b": nn.RNN(3, 3, bias=False)})
    model["b"].weight_hh_l0 = model["a"].weight_hh_l0
    model.to("xla")
    assert model["b"]._flat_weights[1] is model["a"].weight_hh_l0
    assert model["b"].weight_hh_l0 is model["a"].weight_hh_l0


def test_equal_weights_that_are_not_tied_stay_apart() -> None:
    first = nn.Linear(2, 2, bias=False)
    second = nn.Linear(2, 2, bias=False)
    second.load_state_dict(first.state_dict())
    model = nn.Sequential(first, second).to("xla")
    assert model[0].weight is not model[1].weight
    with torch.no_grad():
        model[0].weight.zero_()
    assert model[1].weight.cpu().any()


def test_other_conversions_are_those_of_torch() -> None:
    model = Tied()
    weight = model.embedding.weight
    model.to(torch.float64)
    assert model.embedding.weight is weight and model.head[0].weight is weight and weight.dtype is torch.float64
    model.to("xla").to(torch.bfloat16)
    assert model.head[0].weight is model.embedding.weight
    assert model.embedding.weight.dtype is torch.bfloat16
    with torch.device("meta"):
        empty = Tied()
    empty.head[0].weight = empty.embedding.weight
    empty.to_empty(device="xla")
    assert empty.head[0].weight is empty.embedding.weight
