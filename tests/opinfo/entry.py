"""Runs one entry of the database with one dtype, in all its variants."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

import xla_go
from opinfo import exact
from opinfo.comparison import UNDEFINED, Comparer, Mismatch, shorten, tolerances
from opinfo.samples import HOST_ARGUMENTS, Mover, choose, seed, tensors

DTYPES = {
    "float32": torch.float32,
    "float64": torch.float64,
    "bfloat16": torch.bfloat16,
    "int64": torch.int64,
    "bool": torch.bool,
    "complex64": torch.complex64,
}

VARIANTS = ("forward", "gradient", "inplace", "out")

# What ends the process in the CPU's kernels of a release, where the device raises an error: release, name, variant, dtype.
FATAL = {("2.9", "mvlgamma", "inplace", torch.int64)}

# A random result is not compared by value. It is one where as many seeds do not all give the same.
REPETITIONS = 8


@dataclass
class Outcome:
    """What came of one variant of one entry with one dtype. It is `skipped` where no sample ran."""

    entry: str
    dtype: str
    variant: str
    samples: int = 0
    failures: list[str] = field(default_factory=list)
    fallbacks: list[str] = field(default_factory=list)
    random: int = 0
    by_truth: int = 0

    @property
    def skipped(self) -> bool:
        return self.samples == 0 and not self.failures


@dataclass
class Case:
    """One sample in one variant: `call` runs it with arguments that a mover makes, `want` is the CPU's result.

    `truth` gives the result in more digits than `want` has.
    """

    outcome: Outcome
    call: Callable[[Mover], Any]
    truth: Callable[[], Any]
    want: Any
    values: bool
    tolerance: dict[torch.dtype, tuple[float, float]]
    in_norm: bool
    got: Any = None
    error: Exception | None = None

    def start(self) -> None:
        before = fallbacks()
        try:
            self.got = self.call(Mover("xla"))
        except Exception as error:
            self.error = error
        for name, count in fallbacks().items():
            if count != before.get(name, 0) and name not in self.outcome.fallbacks:
                self.outcome.fallbacks.append(name)

    def compare(self) -> None:
        comparer = Comparer(self.tolerance, self.truth, self.values, self.in_norm)
        if self.error is not None:
            raise self.error
        for t in tensors(self.got):
            if t.device.type != "xla":
                raise Mismatch(f"the result is on device {t.device}")
        comparer(self.got, self.want)
        self.outcome.by_truth += comparer.by_truth


def fallbacks() -> dict[str, int]:
    """How often each operator has run on the CPU."""
    return {name: xla_go.metrics.counter_value(name) or 0 for name in xla_go.metrics.executed_fallback_ops()}


def moved(op: Any, sample: Any, mover: Mover) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """The sample's input, arguments and keywords on the mover's device."""
    others = Mover("cpu", mover.widen) if op.name in HOST_ARGUMENTS else mover
    return mover(sample.input), others(sample.args), others(sample.kwargs)


# Operators that may order equal elements, or choose one of them, as they like, with the place of their dimension among the arguments, if it is there.
UNSTABLE = {"argsort": 0, "kthvalue": 1, "mode": 0, "msort": None, "sort": 0, "topk": 1}


def ordered_dimension(op: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> int | None:
    """The dimension in which the call may order equal elements as it likes."""
    if op.name not in UNSTABLE or keywords.get("stable"):
        return None
    place = UNSTABLE[op.name]
    return 0 if place is None else (*arguments[place:], keywords.get("dim", -1))[0]


# Operators whose gradients go through factors of a matrix: such algorithms are exact to a share of the largest element, not of
# each one, LAPACK's as well.
IN_NORM = {"linalg.householder_product", "linalg.lstsq"}

# Operators whose results are given up to a factor, as eigenvectors are: what the entry's own function makes of them is compared.
UP_TO_A_FACTOR = {"linalg.eigh", "linalg.svd", "pca_lowrank", "svd", "svd_lowrank"}


def resolved(op: Any, sample: Any, source: Any, arguments: tuple[Any, ...], keywords: dict[str, Any], results: Any) -> Any:
    """Results with the elements that the indices of an unstable operator point to in place of the indices."""
    if op.name in UP_TO_A_FACTOR:
        return sample.output_process_fn_grad(results)
    dim = ordered_dimension(op, arguments, keywords)
    if dim is None or op.name == "msort":  # which gives no indices
        return results
    values, indices = (None, results) if isinstance(results, torch.Tensor) else results
    if source.dim() > 0:
        source = source.gather(dim, indices.unsqueeze(dim) if indices.dim() < source.dim() else indices)
    return source if values is None else (values, source)


def forward(op: Any, sample: Any, mover: Mover) -> Any:
    argument, arguments, keywords = moved(op, sample, mover)
    return resolved(op, sample, argument, arguments, keywords, op.op(argument, *arguments, **keywords))


def cotangents(results: list[torch.Tensor], device: str) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(7)


    def numbers(t: torch.Tensor) -> torch.Tensor:  # the same in every dtype
        return torch.randn(t.shape, generator=generator).bfloat16().float()

    return [(torch.complex(numbers(t), numbers(t)) if t.is_complex() else numbers(t)).to(t.dtype).to(device) for t in results]


def gradients(results: Any, inputs: list[torch.Tensor], device: str) -> Any:
    """Gradients of the results with regard to the inputs, for seeded random gradients of the results."""
    differentiable = [t for t in tensors(results) if t.requires_grad]
    if not differentiable or not inputs:
        raise ValueError("nothing to differentiate")
    return torch.autograd.grad(differentiable, inputs, cotangents(differentiable, device), allow_unused=True)


def gradient(op: Any, sample: Any, mover: Mover) -> Any:
    arguments = moved(op, sample, mover)
    inputs = [t for t in tensors(arguments) if t.requires_grad]
    results = sample.output_process_fn_grad(op.op(arguments[0], *arguments[1], **arguments[2]))
    found = gradients(results, inputs, mover.device)
    dim = ordered_dimension(op, *arguments[1:])
    if dim is not None and len(inputs) == 1 and inputs[0].dim() > 0:
        return by_value(found[0], inputs[0].detach(), dim)
    return found


def by_value(gradient: torch.Tensor, source: torch.Tensor, dim: int) -> torch.Tensor:
    """The gradient in the order of the elements it belongs to; that of equal elements in its own order."""
    gradient, order = gradient.sort(dim, stable=True)
    order = source.gather(dim, order).argsort(dim, stable=True)
    return gradient.gather(dim, order)


def inplace(op: Any, sample: Any, mover: Mover) -> Any:
    """The input after the write, and its gradients where there are any."""
    arguments = moved(op, sample, mover)
    inputs = [t for t in tensors(arguments) if t.requires_grad]
    target = arguments[0].clone() if inputs else arguments[0]
    op.get_inplace()(target, *arguments[1], **arguments[2])
    if target.requires_grad and inputs:
        return target, gradients(target, inputs, mover.device)
    return target


def out_variant(number: int) -> Callable[[Any, Any, Mover], Any]:
    """Every other sample writes into a target with gaps between its elements."""

    def target(t: torch.Tensor) -> torch.Tensor:
        if number % 2 == 0 or t.dim() == 0:
            return torch.full_like(t, 1, memory_format=torch.contiguous_format)
        return torch.ones((*t.shape, 2), dtype=t.dtype, device=t.device)[..., 0]

    def out(op: Any, sample: Any, mover: Mover) -> Any:
        with torch.no_grad():
            state = torch.get_rng_state()
            argument, arguments, keywords = moved(op, sample, Mover("cpu", mover.widen))
            results = op.op(argument, *arguments, **keywords)
            flat = tensors(results)
            targets = [mover(target(t)) for t in flat]
            given = targets[0] if isinstance(results, torch.Tensor) else tuple(targets)
            torch.set_rng_state(state)
            argument, arguments, keywords = moved(op, sample, mover)
            op.op(argument, *arguments, **keywords, out=given)
            result = resolved(op, sample, argument, arguments, keywords, given)
            if mover.device == "cpu" and op.name not in UNDEFINED:
                # Some kernels of the CPU mind only the sizes of a target: such a sample is left out.
                Comparer({}, lambda: None, True)(targets, flat)
        return result

    return out


def variants(op: Any, dtype: torch.dtype) -> dict[str, list[tuple[Callable[..., Any], Any]]]:
    """The functions and samples to run, by variant."""
    plain = choose(op, dtype, requires_grad=False)
    found: dict[str, list[tuple[Callable[..., Any], Any]]] = {"forward": [(forward, s) for s in plain]}
    differentiable = op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
    with_grad = choose(op, dtype, requires_grad=True) if differentiable else []
    if differentiable:
        found["gradient"] = [(gradient, s) for s in with_grad]
    release = ".".join(torch.__version__.split(".")[:2])
    if op.get_inplace() is not None and (release, op.name, "inplace", dtype) not in FATAL:
        chosen = with_grad if differentiable and op.supports_inplace_autograd else plain
        found["inplace"] = [(inplace, s) for s in chosen if not s.broadcasts_input]
    if op.supports_out:
        found["out"] = [(out_variant(i), s) for i, s in enumerate(plain)]
    return found


def prepare(op: Any, dtype: torch.dtype, outcome: Outcome, function: Callable[..., Any], sample: Any) -> Case | None:
    """The case with the CPU's result; None where the CPU refuses the sample in this variant."""

    def call(mover: Mover) -> Any:
        return function(op, sample, mover)

    seed(0)
    state = torch.get_rng_state()
    try:
        want = call(Mover("cpu"))
    except Exception:
        return None
    random = not torch.equal(state, torch.get_rng_state()) and any(differs(call, want, i) for i in range(1, REPETITIONS))
    outcome.random += random
    values = not random and op.name not in UNDEFINED

    def truth() -> Any:
        return function(exact.operator(op) or op, sample, Mover("cpu", widen=True))

    return Case(outcome, call, truth, want, values, tolerances(op, dtype), op.name in IN_NORM)


def differs(call: Callable[[Mover], Any], want: Any, number: int) -> bool:
    """Whether the CPU's result is another one with another seed."""
    seed(number)
    try:
        Comparer({}, lambda: None, True)(call(Mover("cpu")), want)
    except Mismatch:
        return True
    return False


def run(op: Any, dtype_name: str) -> list[Outcome]:
    """Runs all variants: everything is traced first, then compiled at once, then read and compared."""
    dtype = DTYPES[dtype_name]
    outcomes: list[Outcome] = []
    cases: list[Case] = []
    for variant, work in variants(op, dtype).items():
        outcome = Outcome(op.full_name, dtype_name, variant)
        outcomes.append(outcome)
        for function, sample in work:
            case = prepare(op, dtype, outcome, function, sample)
            if case is not None:
                outcome.samples += 1
                cases.append(case)
    for case in cases:
        case.start()
    # What fails here fails again where its case is read.
    with contextlib.suppress(Exception):
        xla_go.sync()
    for case in cases:
        failure = settle(case, shared=len(cases) > 1)
        if failure is not None:
            case.outcome.failures.append(failure)
        case.got = None
    return outcomes


def settle(case: Case, shared: bool) -> str | None:
    """Reads and compares a case; its failure in words. A `shared` program may have failed for another case's sake."""
    try:
        case.compare()
    except Mismatch as error:
        return str(error)
    except Exception as error:
        if case.error is None and shared:
            case.start()
            return settle(case, shared=False)
        return describe(error)
    return None


def describe(error: Exception) -> str:
    text = re.sub(r"0x[0-9a-f]+", "0x…", str(error).split("\n")[0])
    return f"{type(error).__name__}: {shorten(text)}"
