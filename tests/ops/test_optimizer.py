"""Fused optimizers: parameters and states on device xla equal those of the CPU's fused kernels, step by step."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from oracle import TOLERANCE

import xla_go
from xla_go import metrics

OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "adam": lambda p: torch.optim.Adam(p, lr=0.02, fused=True),
    "adam, decay and amsgrad": lambda p: torch.optim.Adam(p, lr=0.02, weight_decay=0.1, amsgrad=True, fused=True),
    "adam, maximize": lambda p: torch.optim.Adam(p, lr=0.02, betas=(0.5, 0.99999), maximize=True, fused=True),
    "adam without memory": lambda p: torch.optim.Adam(p, lr=0.02, betas=(0.0, 0.9), fused=True),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.02, weight_decay=0.1, eps=1e-6, fused=True),
    "adamw, amsgrad": lambda p: torch.optim.AdamW(p, lr=0.02, amsgrad=True, fused=True),
    "sgd": lambda p: torch.optim.SGD(p, lr=0.02, weight_decay=0.1, fused=True),
    "sgd, momentum": lambda p: torch.optim.SGD(p, lr=0.02, momentum=0.9, dampening=0.3, maximize=True, fused=True),
    "sgd, nesterov": lambda p: torch.optim.SGD(p, lr=0.02, momentum=0.9, nesterov=True, fused=True),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.02, lr_decay=0.1, weight_decay=0.1, fused=True),
}
BOTH = ("cpu", "xla")


def parameters(dtype: torch.dtype) -> dict[str, list[torch.nn.Parameter]]:
    generator = torch.Generator().manual_seed(0)
    values = [torch.randn(size, generator=generator, dtype=torch.float64).to(dtype) for size in ((3, 5), (7,), ())]
    return {device: [torch.nn.Parameter(v.to(device, copy=True)) for v in values] for device in BOTH}


def gradients(step: int, dtype: torch.dtype, like: list[torch.nn.Parameter]) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(step + 1)
    return [torch.randn(p.shape, generator=generator, dtype=torch.float64).to(dtype) for p in like]


def compare(optimizers: dict[str, torch.optim.Optimizer], dtype: torch.dtype) -> None:
    rtol, atol = TOLERANCE[dtype]
    theirs, ours = (optimizers[device].state_dict()["state"] for device in BOTH)
    assert theirs.keys() == ours.keys()
    for p, q in zip(*(optimizers[device].param_groups[0]["params"] for device in BOTH), strict=True):
        assert q.device.type == "xla"
        torch.testing.assert_close(q.detach().cpu(), p.detach(), rtol=rtol, atol=atol)
        torch.testing.assert_close(q.grad.cpu(), p.grad, rtol=rtol, atol=atol)
    for number, state in theirs.items():
        assert state.keys() == ours[number].keys()
        for name, value in state.items():
            if value is not None:
                torch.testing.assert_close(ours[number][name].cpu(), value, rtol=rtol, atol=atol, msg=lambda m, n=name: f"{n}: {m}")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_equal_cpu(name: str, dtype: torch.dtype) -> None:
    metrics.clear_all()
    leaves = parameters(dtype)
    optimizers = {device: OPTIMIZERS[name](leaves[device]) for device in BOTH}
    compiled = 0
    for step in range(5):
        for device, optimizer in optimizers.items():
            for group in optimizer.param_groups:
                group["lr"] *= 0.9  # as a schedule does
            for p, g in zip(leaves[device], gradients(step, dtype, leaves["cpu"]), strict=True):
                p.grad = g.to(device)
            optimizer.step()
        xla_go.sync()
        if step == 2:
            compiled = metrics.counter_value("UncachedCompile") or 0
    assert (metrics.counter_value("UncachedCompile") or 0) == compiled, "a schedule of the learning rate compiles nothing"
    compare(optimizers, dtype)
    assert not metrics.executed_fallback_ops()


@pytest.mark.parametrize("name", ["adamw", "sgd, momentum", "adagrad"])
def test_gradient_scaling_leaves_out_steps_and_unscales(name: str) -> None:
    """Infinite gradients come in the first step, where SGD has no momentum yet, and in a later one."""
    leaves = parameters(torch.float32)
    optimizers = {device: OPTIMIZERS[name](leaves[device]) for device in BOTH}
    skipped: dict[str, list[bool]] = {device: [] for device in BOTH}
    for device, optimizer in optimizers.items():
        for step in range(4):
            before = [p.detach().clone() for p in leaves[device]]
            for p, g in zip(leaves[device], gradients(step, torch.float32, leaves["cpu"]), strict=True):
                p.grad = g.to(device) * 8
            optimizer.grad_scale = torch.full((), 8.0, device=device)
            optimizer.found_inf = torch.full((), float(step in (0, 2)), device=device)
            optimizer.step()
            if name == "sgd, momentum" and step == 0:  # torch leaves what the memory of the momentum held before
                for state in optimizer.state.values():
                    state["momentum_buffer"].zero_()
            skipped[device].append(all(torch.equal(p.detach(), b) for p, b in zip(leaves[device], before, strict=True)))
    assert skipped == {device: [True, False, True, False] for device in BOTH}
    compare(optimizers, torch.float32)


def test_a_scaler_trains_without_reading() -> None:
    model = torch.nn.Linear(4, 1).to("xla")
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    scaler = torch.amp.GradScaler("xla", init_scale=1024.0)
    x = torch.randn(8, 4).to("xla")

    def step() -> None:
        optimizer.zero_grad()
        scaler.scale(model(x).square().mean()).backward()
        scaler.step(optimizer)
        scaler.update()

    for _ in range(3):
        step()
    with xla_go.strict():
        for _ in range(3):
            step()


STATEFUL: dict[str, Callable[[list[torch.Tensor]], torch.optim.Optimizer]] = {
    "sgd": lambda leaves: torch.optim.SGD(leaves, lr=0.1),
    "sgd, momentum": lambda leaves: torch.optim.SGD(leaves, lr=0.1, momentum=0.9),
    "adamw, steps on the device": lambda leaves: torch.optim.AdamW(leaves, lr=0.1, capturable=leaves[0].device.type == "xla"),
}


@pytest.mark.parametrize("name", STATEFUL)
def test_a_scaler_leaves_steps_out_without_reading(name: str) -> None:
    """Also with gradients that are clipped between, for which optimizers that scale by themselves are refused by some trainers."""
    losses = {}
    for device in BOTH:
        torch.manual_seed(0)
        model = torch.nn.Linear(4, 3).to(device)
        optimizer = STATEFUL[name](list(model.parameters()))
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 20)
        scaler = torch.amp.GradScaler(device, init_scale=64.0, growth_interval=3)
        x = torch.randn(8, 4)
        kept = []
        for step in range(12):
            spoilt = torch.full((), float("inf") if step in (0, 4, 7, 8) else 1.0).to(device)
            inputs = x.to(device)
            with xla_go.strict() if device == "xla" and step > 5 else contextlib.nullcontext():
                optimizer.zero_grad()
                loss = model(inputs).square().mean()
                scaler.scale(loss * spoilt).backward()
                scaler.unscale_(optimizer)
                torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
                scaler.step(optimizer)
                scaler.update()
                schedule.step()
                kept.append(loss.detach())
        losses[device] = [*torch.stack(kept).tolist(), scaler.get_scale(), *(p.sum().item() for p in model.parameters())]
    assert losses["xla"] == pytest.approx(losses["cpu"], rel=1e-4, abs=1e-6)
    assert losses["xla"][8] == losses["xla"][7] != losses["xla"][6], "steps were left out"


def test_a_scaler_reads_where_a_step_cannot_be_set_back() -> None:
    """torch counts the steps of AdamW on the host, unless it is told otherwise."""
    model = torch.nn.Linear(4, 1).to("xla")
    optimizer = torch.optim.AdamW(model.parameters())
    scaler = torch.amp.GradScaler("xla", init_scale=4.0)
    for step in range(5):
        optimizer.zero_grad()
        factor = float("nan") if step == 3 else 1.0
        scaler.scale(model(torch.ones(2, 4, device="xla")).square().mean() * factor).backward()
        scaler.step(optimizer)
        scaler.update()
    assert {state["step"].item() for state in optimizer.state.values()} == {4.0}
    assert all(p.isfinite().all().item() for p in model.parameters())


def test_tensor_learning_rates_and_saved_states() -> None:
    leaves = parameters(torch.float32)
    optimizers: dict[str, torch.optim.Optimizer] = {
        device: torch.optim.AdamW(leaves[device], lr=torch.tensor(0.1, device=device), fused=True) for device in BOTH
    }
    for step in range(4):
        for device, optimizer in optimizers.items():
            for p, g in zip(leaves[device], gradients(step, torch.float32, leaves["cpu"]), strict=True):
                p.grad = g.to(device)
            optimizer.step()
            if step == 1:  # as after a checkpoint
                saved = copy.deepcopy(optimizer.state_dict())
                optimizers[device] = torch.optim.AdamW(leaves[device], lr=torch.tensor(0.5, device=device), fused=True)
                optimizers[device].load_state_dict(saved)
    compare(optimizers, torch.float32)


def test_compiled_step_equals_cpu() -> None:
    leaves = parameters(torch.float32)
    optimizers = {device: torch.optim.AdamW(leaves[device], lr=0.02, fused=True) for device in BOTH}
    torch._dynamo.reset()
    compiled = torch.compile(optimizers["xla"].step, backend="xla_go")
    for step in range(3):
        for device in BOTH:
            for p, g in zip(leaves[device], gradients(step, torch.float32, leaves["cpu"]), strict=True):
                p.grad = g.to(device)
            compiled() if device == "xla" else optimizers[device].step()
    compare(optimizers, torch.float32)
    torch._dynamo.reset()


def test_lists_of_other_lengths_are_refused() -> None:
    p = [torch.zeros(2, device="xla") for _ in range(2)]
    steps = [torch.ones((), device="xla") for _ in range(2)]
    with pytest.raises(RuntimeError, match="expected lists of 2 tensors, got 1"):
        torch._fused_adam_(p, p[:1], p, p, [], steps, lr=0.1, beta1=0.9, beta2=0.99, weight_decay=0.0, eps=1e-8, amsgrad=False, maximize=False)
