"""What the benchmarks time, for any device that torch has: each takes a Device and gives a figure.

A figure of a training step is over many steps, none of which is read; one of the host's time leaves waiting out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import models
import torch
import torch.nn.functional as F


class Device:
    """A device, how to end a step on it and how to wait for it.

    `compiled` runs models through torch.compile, `jit` whole steps through a function that ends them itself.
    """

    def __init__(self, name: str, sync: Callable[[], None], wait: Callable[[], None], compiled: bool = False, jit: Any = None) -> None:
        self.name, self.sync, self.wait, self.compiled, self.jit = name, sync, wait, compiled, jit


Workload = Callable[[Device], float]


def least(repeats: int, count: int, run: Callable[[], Any], after: Callable[[], None]) -> float:
    """Microseconds of a call of run, the least over repeats of count calls; after comes between them, untimed."""
    best = float("inf")
    for _ in range(repeats):
        started = time.perf_counter()
        for _ in range(count):
            run()
        best = min(best, time.perf_counter() - started)
        after()
    return best / count * 1e6


def trace(operator: Callable[..., Any], shapes: list[tuple[int, ...]], grad: bool = False, count: int = 1000) -> Workload:
    """An operator's call, without its run: graphs are thrown away, or end with nothing that lives."""

    def run(device: Device) -> float:
        operands = [torch.ones(shape).to(device.name).requires_grad_(grad) for shape in shapes]
        device.wait()
        with torch.set_grad_enabled(grad):
            return least(20, count, lambda: operator(*operands), device.sync)

    return run


def thirty_operators(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Five times six operators, as a user's function of tensors has them."""
    for _ in range(5):
        x = (x * 2 + y).tanh()
        x = x.view(-1).view(y.shape) - y.exp()
    return x


def training_step(name: str, device: Device) -> Callable[[], None]:
    """One step of a model's training, which ends with a sync; all is on the device."""
    torch.manual_seed(0)
    model, x, target, optimizer_of = models.TRAININGS[name]()
    model, x, target = model.to(device.name), x.to(device.name), target.to(device.name)
    optimizer = optimizer_of(model)
    forward = torch.compile(model) if device.compiled else model

    def step() -> None:
        F.cross_entropy(forward(x).flatten(0, -2), target.flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()

    if device.jit is not None:
        for group in optimizer.param_groups:  # steps are counted on the device, as in JAX
            group.update(dict.fromkeys(group.keys() & {"capturable"}, True))
        return device.jit(step)

    def synced() -> None:
        step()
        device.sync()

    return synced


def training(name: str, warm_up: int, count: int, repeats: int = 3) -> Workload:
    """A step in the middle of a training, with its share of the waiting."""

    def run(device: Device) -> float:
        step = training_step(name, device)
        for _ in range(warm_up):
            step()
        device.wait()

        def steps() -> None:
            for _ in range(count):
                step()
            device.wait()

        return least(repeats, 1, steps, lambda: None) / count

    return run


def program(name: str, count: int, repeats: int = 3) -> Workload:
    """The bare run of a training step's own program; xla_go's alone."""

    def run(device: Device) -> float:
        from bare import bare

        if name not in _programs:
            shapes = [list(p.shape) for p in models.TRAININGS[name]().model.parameters()]
            _programs[name] = bare(lambda d: training_step(name, d), shapes, repeats, count)
        return _programs[name](device)

    return run


_programs: dict[str, Workload] = {}


def host_time(name: str, warm_up: int, count: int) -> Workload:
    """What a step takes until the last call has returned, where the device has nothing else to do."""

    def run(device: Device) -> float:
        step = training_step(name, device)
        for _ in range(warm_up):
            step()
        device.wait()
        return least(count, 1, step, device.wait)

    return run


def decode(count: int) -> Workload:
    """A token of a language model with a static cache; the token is that of the step before, and nothing is read."""

    def run(device: Device) -> float:
        torch.manual_seed(0)
        model = models.Decoder().to(device.name).eval()
        forward = torch.compile(model) if device.compiled else model

        def following(token: torch.Tensor, position: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return forward(token, position).argmax(-1), position + 1

        step = device.jit(following) if device.jit is not None else following

        def tokens() -> None:
            token = torch.zeros(1, 1, dtype=torch.int64).to(device.name)
            position = torch.zeros(1, dtype=torch.int64).to(device.name)
            with torch.no_grad():
                for _ in range(count):
                    token, position = step(token, position)
                    device.sync()
            device.wait()

        tokens()
        return least(3, 1, tokens, lambda: None) / count

    return run


def read_item(device: Device) -> float:
    """`.item()` of a value that is ready."""
    x = torch.ones(()).to(device.name)
    device.wait()
    x.item()
    return least(10, 1000, x.item, lambda: None)


def small_round_trip(device: Device) -> float:
    """`(x + 1).cpu()` of four elements that are on the device."""
    x = torch.ones(4).to(device.name)
    device.wait()
    (x + 1).cpu()
    return least(10, 200, lambda: (x + 1).cpu(), lambda: None)


def transfer(mebibytes: int, back: bool) -> Workload:
    """Bringing so many MiB to the device, or reading them, without the memory's first use."""

    def run(device: Device) -> float:
        x = torch.ones(mebibytes, 1 << 18)
        y = x.to(device.name)
        device.wait()

        def there() -> None:
            x.to(device.name)
            device.wait()

        return least(10, 1, y.cpu if back else there, device.wait)

    return run


def workloads() -> Iterator[tuple[str, Workload]]:
    square = [(64, 64)] * 2
    yield "add 64x64 no grad", trace(torch.add, square)
    yield "add 64x64 grad", trace(torch.add, square, grad=True)
    yield "add 1x1 no grad", trace(torch.add, [(1, 1)] * 2)
    yield "add 1x1 grad", trace(torch.add, [(1, 1)] * 2, grad=True)
    yield "add_ 64x64", trace(lambda x, y: x.add_(y), square, count=200)
    yield "view 64x64", trace(lambda x: x.view(32, 128), square[:1])
    yield "mm 64x64", trace(torch.mm, square)
    yield "cat 64x64", trace(lambda x, y: torch.cat((x, y)), square)
    yield "index 64x64", trace(lambda x: x[3:40:2, 5], square[:1])
    yield "30 operators", trace(thirty_operators, square, count=50)
    yield "30 operators grad", trace(thirty_operators, square, grad=True, count=50)
    for name, count in (("MLP", 100), ("golden MLP", 100), ("golden GPT", 20), ("ResNet", 10), ("GPT", 5), ("LSTM", 10), ("ViT", 5)):
        yield f"{name} step", training(name, warm_up=5, count=count)
    for name, count in (("golden MLP", 100), ("golden GPT", 20), ("GPT", 5)):
        yield f"{name} program", program(name, count)
    yield "GPT host", host_time("tiny GPT", warm_up=5, count=30)
    yield "decode a token", decode(64)
    yield "item() of a ready value", read_item
    yield "(x + 1).cpu() of 4 elements", small_round_trip
    yield "64 MiB to the device", transfer(64, back=False)
    yield "64 MiB from the device", transfer(64, back=True)


WORKLOADS: dict[str, Workload] = dict(workloads())


def first_step(device: Device) -> tuple[float, float]:
    """Seconds of the first two steps of a GPT's training, from the first operator to the loss on the host."""
    torch.manual_seed(0)
    model, x, target, optimizer_of = models.TRAININGS["GPT"]()
    model, x, target = model.to(device.name), x.to(device.name), target.to(device.name)
    optimizer = optimizer_of(model)
    device.wait()
    seconds = []
    for _ in range(2):
        begun = time.perf_counter()
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x).flatten(0, -2), target.flatten())
        loss.backward()
        optimizer.step()
        device.sync()
        loss.item()
        seconds.append(time.perf_counter() - begun)
    return seconds[0], seconds[1]
