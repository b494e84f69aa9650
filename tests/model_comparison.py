"""What the tests of published models share: a model on the CPU and on device xla, compared number for number."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import nn

import xla_go

# A float32 result is a sum of many roundings, which two backends make in different orders. They are
# measured against the largest element of the tensor, for that is what the summands' size goes with;
# but a gradient or a mean that is zero in exact arithmetic (a bias before a normalization) is nothing
# but rounding, so no tensor counts as smaller than a small part of the largest of its kind.
TOLERANCE = 2e-4
SMALLEST = 1e-3


@dataclass
class Differences:
    """The differences of each kind of result (gradients, buffers) from those of the CPU."""

    kinds: dict[str, list[tuple[float, float, str]]] = field(default_factory=dict)

    def add(self, kind: str, name: str, actual: torch.Tensor, expected: torch.Tensor) -> None:
        """Takes in the largest |actual - expected| and the largest |expected|. Waits for `actual`."""
        assert actual.device.type == "xla", f"{kind} {name}: expected a tensor on device xla, got {actual.device}"
        a, e = actual.detach().cpu(), expected.detach()
        assert (a.dtype, a.shape) == (e.dtype, e.shape), f"{kind} {name}: expected {e.dtype}{list(e.shape)}, got {a.dtype}{list(a.shape)}"
        if not e.is_floating_point():
            assert torch.equal(a, e), f"{kind} {name}: expected {e}, got {a}"
        elif e.numel():
            assert torch.isfinite(e).all(), f"{kind} {name}: the CPU's own result is not finite"
            self.kinds.setdefault(kind, []).append(((a - e).abs().max().item(), e.abs().max().item(), name))

    def largest(self) -> dict[str, tuple[float, str]]:
        """The largest difference of each kind, as a share of the tensor's largest element, and where it was."""
        found = {}
        for kind, differences in self.kinds.items():
            smallest = max(size for _, size, _ in differences) * SMALLEST
            assert smallest > 0, f"{kind}: expected numbers, got zeros only"
            found[kind] = max(((d / max(size, smallest), name) for d, size, name in differences), key=lambda f: (math.isnan(f[0]), f[0]))
        return found

    def check(self, tolerance: float) -> None:
        largest = self.largest()
        print({kind: f"{share:.1e} {name}" for kind, (share, name) in largest.items()})
        wrong = {kind: found for kind, found in largest.items() if not found[0] <= tolerance}
        assert not wrong, f"expected differences of at most {tolerance} of the largest element, got {wrong}"


def pair(build: Callable[[], nn.Module], dtype: torch.dtype = torch.float32) -> tuple[nn.Module, nn.Module]:
    """The model with weights of seed 0, on the CPU and on device xla. Random streams differ, so nothing is dropped."""
    torch.manual_seed(0)
    cpu = build().to(dtype)
    for module in cpu.modules():
        if isinstance(getattr(module, "p", None), float):  # Dropout, torchvision's StochasticDepth
            module.p = 0.0
    return cpu, copy.deepcopy(cpu).to("xla")


def to(value: object, device: str) -> object:
    """The tensors in dictionaries, lists and tuples on another device."""
    if isinstance(value, torch.Tensor):
        return value.to(device)
    if isinstance(value, dict):
        return {key: to(item, device) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(to(item, device) for item in value)
    return value


def compiles() -> int:
    return (xla_go.metrics.metric_data("CompileTime") or (0,))[0]


def fallbacks() -> dict[str, int]:
    return {name: xla_go.metrics.counter_value(name) or 0 for name in xla_go.metrics.counter_names() if "::" in name and not name.startswith("xla::")}


@contextmanager
def on_the_device(most: int) -> Iterator[None]:
    """Fails where what happens inside compiles more than `most` programs, or an operator leaves the device."""
    before, left = compiles(), fallbacks()
    yield
    made = compiles() - before
    print(f"{made} compiles")
    fell = {name: count - left.get(name, 0) for name, count in fallbacks().items() if count != left.get(name, 0)}
    assert not fell, f"operators fell back to the CPU: {fell}"
    assert made <= most, f"expected at most {most} compiles, got {made}"


def compare_forward(cpu: nn.Module, xla: nn.Module, call: Callable[[nn.Module, str], torch.Tensor], tolerance: float = TOLERANCE, programs: int = 1) -> None:
    """Compares the outputs of `call(model, device)` in eval mode. One program, and one more for each read of its own."""
    found = Differences()
    with torch.no_grad():
        expected = call(cpu.eval(), "cpu")
        with on_the_device(programs):
            actual = call(xla.eval(), "xla")
            xla_go.sync()
    found.add("output", "", actual, expected)
    found.check(tolerance)


def compare_training(
    cpu: nn.Module, xla: nn.Module, call: Callable[[nn.Module, str], tuple[torch.Tensor, torch.Tensor]], tolerance: float = TOLERANCE, programs: int = 1
) -> None:
    """Compares outputs, losses, every gradient and buffer of `call(model, device) -> (output, loss)` in train mode, and the
    parameters after a step of SGD. The step is one program, and a second one compiles nothing."""
    found = Differences()
    results = {}
    before = {name: p.detach().clone() for name, p in cpu.named_parameters()}
    for device, model in (("cpu", cpu), ("xla", xla)):
        model.train()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

        def step(model: nn.Module = model, device: str = device, optimizer: torch.optim.Optimizer = optimizer) -> tuple[torch.Tensor, ...]:
            optimizer.zero_grad()
            output, loss = call(model, device)
            loss.backward()
            optimizer.step()
            return output.detach(), loss.detach()

        if device == "cpu":
            results[device] = step()
            continue
        with on_the_device(programs):
            results[device] = step()
            xla_go.sync()
        found.add("output", "", results["xla"][0], results["cpu"][0])
        found.add("loss", "", results["xla"][1], results["cpu"][1])
        for (name, p), q in zip(cpu.named_parameters(), xla.parameters(), strict=True):
            assert (p.grad is None) == (q.grad is None), f"gradient of {name}"
            if p.grad is not None and q.grad is not None:
                found.add("gradient", name, q.grad, p.grad)
                assert not torch.equal(q.detach().cpu(), before[name]) or not p.grad.any(), f"parameter {name} has not moved"
            found.add("parameter", name, q, p)
        for (name, p), q in zip(cpu.named_buffers(), xla.buffers(), strict=True):
            found.add("buffer", name, q, p)
        with on_the_device(0):
            step()
            xla_go.sync()
    found.check(tolerance)
