"""Compares operators on device xla with torch's CPU kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

import xla_go

# Relative and absolute tolerance per dtype, for kernels that add up in another order.
TOLERANCE = {
    torch.float64: (1e-9, 1e-11),
    torch.float32: (2e-5, 2e-6),
    torch.float16: (4e-3, 4e-3),
    torch.bfloat16: (2e-2, 2e-2),
    torch.complex64: (2e-5, 2e-6),
    torch.complex128: (1e-9, 1e-11),
}


def moved(value: Any) -> Any:
    """A copy of value with its tensors on device xla, with the same strides; leaves that require grad stay such leaves."""
    if isinstance(value, torch.Tensor):
        copy = torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device="xla")
        with torch.no_grad():
            copy.copy_(value)
        return copy.requires_grad_(value.requires_grad)
    if isinstance(value, list | tuple):
        return type(value)(moved(v) for v in value)
    return value


def tensors(value: Any) -> list[torch.Tensor | None]:
    """The tensors of a result, in order."""
    if isinstance(value, list | tuple):
        return [t for v in value for t in tensors(v)]
    return [value] if value is None or isinstance(value, torch.Tensor) else []


def assert_same(got: torch.Tensor | None, want: torch.Tensor | None, what: str, tolerance: tuple[float, float] | None = None) -> None:
    """Compares kind, dtype, sizes and values (NaN equals NaN)."""
    assert (got is None) == (want is None), what
    if got is None or want is None:
        return
    assert got.device.type == "xla", what
    assert got.dtype == want.dtype, f"{what}: dtype {got.dtype}, expected {want.dtype}"
    assert got.size() == want.size(), f"{what}: size {tuple(got.size())}, expected {tuple(want.size())}"
    rtol, atol = tolerance or TOLERANCE.get(want.dtype, (0, 0))
    torch.testing.assert_close(got.detach().cpu(), want.detach(), rtol=rtol, atol=atol, equal_nan=True, msg=lambda m: f"{what}: {m}")


def check(function: Callable[..., Any], *arguments: Any, tolerance: tuple[float, float] | None = None) -> None:
    """function(*arguments) and its gradients are the same on device xla as on the CPU, without a fallback to the CPU."""
    xla_go.metrics.clear_all()
    theirs = moved(arguments)
    want, got = tensors(function(*arguments)), tensors(function(*theirs))
    assert len(got) == len(want)
    for i, (g, w) in enumerate(zip(got, want, strict=True)):
        assert_same(g, w, f"result {i}", tolerance)
    inputs = [t for t in tensors(arguments) if t is not None and t.requires_grad]
    if inputs:
        differentiable = [i for i, w in enumerate(want) if w is not None and w.requires_grad]
        assert differentiable == [i for i, g in enumerate(got) if g is not None and g.requires_grad]
        generator = torch.Generator().manual_seed(7)
        seeds = [torch.randn(want[i].shape, generator=generator, dtype=torch.float64).to(want[i].dtype) for i in differentiable]
        expected = torch.autograd.grad([want[i] for i in differentiable], inputs, seeds, allow_unused=True)
        inputs = [t for t in tensors(theirs) if t is not None and t.requires_grad]
        actual = torch.autograd.grad([got[i] for i in differentiable], inputs, moved(seeds), allow_unused=True)
        for i, (g, w) in enumerate(zip(actual, expected, strict=True)):
            assert_same(g, w, f"gradient {i}", tolerance)
    fallbacks = xla_go.metrics.executed_fallback_ops()
    assert not fallbacks, f"ran on the CPU: {fallbacks}"


# Errors have the words of this release, whichever torch is installed.
NEWEST = tuple(int(n) for n in torch.__version__.split(".")[:2]) >= (2, 15)


def check_error(function: Callable[..., Any], *arguments: Any) -> None:
    """function(*arguments) raises the same exception as on the CPU, with the same words where torch is the newest."""
    try:
        function(*arguments)
    except Exception as error:
        want = error
    else:
        raise AssertionError("expected an error of torch's CPU kernel, got none")
    try:
        for t in tensors(function(*moved(arguments))):
            if t is not None:
                t.cpu()
    except Exception as error:
        got = error
    else:
        raise AssertionError(f"expected {want!r}, got no error")
    first = str(want).split("\n")[0]
    # Our class for an error from torch's own wording derives from torch's class.
    assert isinstance(got, type(want)), f"expected {want!r}, got {got!r}"
    assert first in str(got) or not NEWEST, f"expected {first!r}, got {str(got)!r}"
