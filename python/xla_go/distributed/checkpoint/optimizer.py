"""The state of an optimizer that has not stepped yet."""

from __future__ import annotations

from typing import Any

import torch

import xla_go
from xla_go import _runtime, runtime
from xla_go.spmd import _tensor

__all__ = ["prime_optimizer"]


def _lay_alike(tensor: torch.Tensor, like: torch.Tensor) -> None:
    """Divides a tensor as another of the same shape that somebody annotated."""
    if tensor.shape != like.shape or tensor.device.type != "xla" or like.device.type != "xla" or tensor.numel() == 0:
        return
    sharding = _tensor.sharding(like)
    if sharding.text and sharding.text != "{replicated}" and _tensor.sharding(tensor).text != sharding.text:
        _runtime.call("MarkSharding", _tensor.view(tensor), sharding.op_sharding, "mark", "")


def prime_optimizer(optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
    """Gives an optimizer the state that its first step makes, so that a checkpoint can be loaded into it; gives it back.

    It steps once with gradients of zero and a learning rate of zero, and puts both back: parameters keep their values. What it
    keeps for a divided parameter is divided alike. Counters of the state have that step, until the checkpoint's replace
    them. Nothing is done where there is a state already. Ends the step where programs are partitioned; not blocking, except
    while programs are compiled.

    ValueError where a group has no learning rate, which would keep the step from changing parameters.
    """
    if optimizer.state:
        return optimizer
    if any("lr" not in group for group in optimizer.param_groups):
        raise ValueError(f"prime_optimizer(): expected parameter groups with a learning rate 'lr', got a {type(optimizer).__name__} without")
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"] if parameter.requires_grad]
    gradients = [parameter.grad for parameter in parameters]
    rates: list[Any] = [group["lr"] for group in optimizer.param_groups]
    try:
        for parameter in parameters:
            parameter.grad = torch.zeros_like(parameter)
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["lr"] = torch.zeros_like(rate) if isinstance(rate, torch.Tensor) else 0.0
        optimizer.step()
    finally:
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["lr"] = rate
    if runtime.is_spmd():
        xla_go.sync(cause="prime_optimizer()")
        for parameter in parameters:
            for value in optimizer.state.get(parameter, {}).values():
                if isinstance(value, torch.Tensor):
                    _lay_alike(value, parameter.detach())
    return optimizer
