"""Compares results of the device with those of the CPU at torch's own tolerances."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.testing._comparison import default_tolerances
from torch.testing._internal.common_device_type import toleranceOverride
from torch.testing._internal.opinfo.core import DecorateInfo

# torch's test classes that compare a device's results with others; those of its compilers do not count.
CLASSES = (
    None,
    "TestBinaryUfuncs",
    "TestBinaryUfuncsDevice",
    "TestCommon",
    "TestCompositeCompliance",
    "TestMasked",
    "TestMathBits",
    "TestOperators",
    "TestReductions",
    "TestUnaryUfuncs",
)

# Results that hold whatever the memory held: sizes and dtype are compared.
UNDEFINED = frozenset({"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"})


class Mismatch(AssertionError):
    """The device's result is another than the CPU's."""


def tolerances(op: Any, dtype: torch.dtype) -> dict[torch.dtype, tuple[float, float]]:
    """(rtol, atol) by dtype, where the entry's decorators ask for more than torch.testing's defaults."""
    found: dict[torch.dtype, tuple[float, float]] = {}
    for decorator in op.decorators:
        if isinstance(decorator, DecorateInfo):
            devices = decorator.device_type if isinstance(decorator.device_type, tuple) else (decorator.device_type,)
            if decorator.cls_name not in CLASSES or devices == ("mps",):
                continue
            if decorator.dtypes is not None and dtype not in decorator.dtypes:
                continue
            overrides = decorator.decorators
        else:
            overrides = [decorator]
        for override in overrides:
            if isinstance(override, toleranceOverride):
                for d, t in override.d.items():
                    rtol, atol = found.get(d, default_tolerances(d))
                    found[d] = (max(rtol, t.rtol), max(atol, t.atol))
    return found


class Comparer:
    """Compares nested results of one case.

    `truth` gives the results computed by the CPU in float64, or to more digits for the entries that `exact` lists: a result that is
    outside of the tolerance is right where it is within the tolerance of them, or no further from them than twice the CPU's own
    result, or, with `in_norm`, no further than the tolerance's share of the largest element. With `values` False only kinds,
    dtypes and sizes are compared.
    """

    def __init__(self, tolerance: dict[torch.dtype, tuple[float, float]], truth: Callable[[], Any], values: bool, in_norm: bool = False) -> None:
        self.tolerance = tolerance
        self.truth = truth
        self.values = values
        self.in_norm = in_norm
        self.by_truth = False

    def __call__(self, got: Any, want: Any) -> None:
        self.compare(got, want, "result", ())

    def compare(self, got: Any, want: Any, what: str, path: tuple[Any, ...]) -> None:
        if isinstance(want, torch.Tensor):
            self.tensor(got, want, what, path)
        elif isinstance(want, dict):
            expect(isinstance(got, dict) and got.keys() == want.keys(), f"{what}: got {got!r}, expected {want!r}")
            for key in want:
                self.compare(got[key], want[key], f"{what}[{key!r}]", (*path, key))
        elif isinstance(want, list | tuple) and not isinstance(want, torch.Size):
            expect(isinstance(got, list | tuple) and len(got) == len(want), f"{what}: got {kind(got)}, expected {kind(want)}")
            for i, w in enumerate(want):
                self.compare(got[i], w, f"{what}[{i}]", (*path, i))
        elif isinstance(want, float | complex) and self.values:
            expect(type(got) is type(want), f"{what}: got {got!r}, expected {want!r}")
            self.tensor(torch.tensor(got), torch.tensor(want), what, path)
        elif self.values:
            expect(got == want, f"{what}: got {got!r}, expected {want!r}")

    def tensor(self, got: Any, want: torch.Tensor, what: str, path: tuple[Any, ...]) -> None:
        expect(isinstance(got, torch.Tensor), f"{what}: got {kind(got)}, expected a tensor")
        expect(got.dtype == want.dtype, f"{what}: dtype {got.dtype}, expected {want.dtype}")
        expect(got.size() == want.size(), f"{what}: size {tuple(got.size())}, expected {tuple(want.size())}")
        expect(got.layout == want.layout, f"{what}: layout {got.layout}, expected {want.layout}")
        if not self.values:
            return
        got, want = got.detach().cpu().resolve_conj().resolve_neg(), want.detach().resolve_conj().resolve_neg()
        rtol, atol = self.tolerance.get(want.dtype, default_tolerances(want.dtype))
        try:
            torch.testing.assert_close(got, want, rtol=rtol, atol=atol, equal_nan=True, check_stride=False)
        except AssertionError as error:
            if not self.near_truth(got, want, path, rtol, atol):
                raise Mismatch(f"{what}: {shorten(str(error))}") from None
            self.by_truth = True

    def near_truth(self, got: torch.Tensor, want: torch.Tensor, path: tuple[Any, ...], rtol: float, atol: float) -> bool:
        if not (want.is_floating_point() or want.is_complex()) or want.layout != torch.strided:
            return False
        try:
            truth = self.truth()
            for key in path:
                truth = truth[key]
            truth = truth.detach().resolve_conj().resolve_neg()
        except Exception:  # the operator has no float64, or takes its dtype from elsewhere
            return False
        if not isinstance(truth, torch.Tensor) or truth.size() != want.size():
            return False
        got, want, truth = (torch.view_as_real(t) if t.is_complex() else t for t in (got, want, truth))
        got, want = got.to(truth.dtype), want.to(truth.dtype)
        if torch.allclose(got, truth, rtol=rtol, atol=atol):
            return True
        finite = truth.isfinite() & want.isfinite()
        if not torch.equal(got.isfinite() | ~finite, torch.ones_like(finite)):
            return False
        if not torch.allclose(got[~finite], want[~finite], equal_nan=True):
            return False
        if not finite.any():
            return True
        furthest = (got - truth)[finite].abs().max()
        if self.in_norm and furthest <= rtol * truth[finite].abs().max():
            return True
        return bool(furthest <= 2 * (want - truth)[finite].abs().max())


def expect(condition: bool, message: str) -> None:
    if not condition:
        raise Mismatch(message)


def kind(value: Any) -> str:
    return f"{type(value).__name__} of {len(value)}" if isinstance(value, list | tuple) else type(value).__name__


def shorten(text: str) -> str:
    """A message in one line."""
    return " ".join(text.split())[:300]
