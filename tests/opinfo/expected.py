"""What is known to fail, and what is known to run on the CPU: data files beside this one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import torch

from opinfo.entry import DTYPES, VARIANTS, Outcome

HERE = Path(__file__).resolve().parent
FAILURES = HERE / "failures.tsv"
REASONS = HERE / "fallback_reasons.tsv"
FALLBACKS = HERE / "fallbacks.tsv"

# The releases that CI runs; a line of the data holds for all of them (*) or for those that it names.
RELEASES = ("2.9", "2.15")

HEADER = """\
# Variants of entries of torch's operator database that fail on device xla, with the reason.
# entry<TAB>dtypes<TAB>variants<TAB>torch releases (* for all)<TAB>reason
# `python -m opinfo --update` writes lines for what has changed, with the error as the reason.
"""

FALLBACKS_HEADER = """\
# Operators that run on the CPU, by entry of torch's operator database (newest release).
# `python -m opinfo --update` writes this file; the reasons are in fallback_reasons.tsv.
"""

Variant = tuple[str, str, str]  # entry, dtype, variant


def release() -> str:
    """The minor release of torch, as the data names it."""
    return ".".join(torch.__version__.split(".")[:2])


def lines(path: Path) -> list[list[str]]:
    """The fields of a data file's lines, without comments."""
    return [line.split("\t") for line in path.read_text().splitlines() if line and not line.startswith("#")]


def failures() -> dict[Variant, dict[str, str]]:
    """The reason by release, for each variant that is known to fail."""
    known: dict[Variant, dict[str, str]] = defaultdict(dict)
    for entry, dtypes, variants, releases, reason in lines(FAILURES):
        for dtype in dtypes.split(","):
            for variant in variants.split(","):
                for r in RELEASES if releases == "*" else releases.split(","):
                    if dtype not in DTYPES or variant not in VARIANTS or r in known[entry, dtype, variant]:
                        raise ValueError(f"{FAILURES.name}: unknown or repeated {entry} {dtype} {variant} {r}")
                    known[entry, dtype, variant][r] = reason
    return known


def check(outcomes: Iterable[Outcome]) -> list[str]:
    """What the outcomes of whole entries say against the data, in words; nothing where they agree."""
    outcomes = list(outcomes)
    entries = {o.entry for o in outcomes}
    failed = {(o.entry, o.dtype, o.variant): o.failures[0] for o in outcomes if o.failures}
    known = {v: reasons[release()] for v, reasons in failures().items() if release() in reasons and v[0] in entries}
    complaints = [f"{' '.join(v)} fails: {failed[v]}" for v in sorted(failed.keys() - known.keys())]
    complaints += [
        f"{' '.join(v)} no longer fails: remove it from {FAILURES.name} (reason was: {known[v]})" for v in sorted(known.keys() - failed.keys())
    ]
    return complaints + check_fallbacks(outcomes, entries)


def check_fallbacks(outcomes: list[Outcome], entries: set[str]) -> list[str]:
    ran = {(o.entry, name) for o in outcomes for name in o.fallbacks}
    reasons = {name for name, _ in lines(REASONS)}
    complaints = [f"{name} ran on the CPU and has no reason in {REASONS.name}" for name in sorted({n for _, n in ran} - reasons)]
    if release() == RELEASES[-1]:
        known = {(entry, name) for entry, name in lines(FALLBACKS) if entry in entries}
        complaints += [f"{entry} ran {name} on the CPU" for entry, name in sorted(ran - known)]
        complaints += [f"{entry} no longer runs {name} on the CPU: remove it from {FALLBACKS.name}" for entry, name in sorted(known - ran)]
    return complaints


def update(outcomes: Iterable[Outcome]) -> None:
    """Writes the data anew so that it agrees with the outcomes. Reasons of known failures and other releases' lines stay."""
    outcomes = list(outcomes)
    known = failures()
    for o in outcomes:
        variant = o.entry, o.dtype, o.variant
        if not o.failures:
            known[variant].pop(release(), None)
        elif release() not in known[variant]:
            others = list(known[variant].values())
            known[variant][release()] = others[0] if others else o.failures[0].replace("\t", " ")
    write(known)
    if release() == RELEASES[-1]:
        ran = {o.entry for o in outcomes}
        kept = {(entry, name) for entry, name in lines(FALLBACKS) if entry not in ran}
        kept |= {(o.entry, name) for o in outcomes for name in o.fallbacks}
        FALLBACKS.write_text(FALLBACKS_HEADER + "".join(f"{entry}\t{name}\n" for entry, name in sorted(kept)))


def write(known: dict[Variant, dict[str, str]]) -> None:
    # By entry, reason and releases; then dtypes with the same variants share a line.
    grouped: dict[tuple[str, str, str], dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for (entry, dtype, variant), reasons in known.items():
        by_reason = defaultdict(list)
        for r, reason in reasons.items():
            by_reason[reason].append(r)
        for reason, releases in by_reason.items():
            everywhere = set(releases) == set(RELEASES)
            grouped[entry, "*" if everywhere else ",".join(sorted(releases)), reason][dtype].add(variant)
    text = []
    for (entry, releases, reason), by_dtype in sorted(grouped.items()):
        dtypes_by_variants = defaultdict(list)
        for dtype in DTYPES:
            if dtype in by_dtype:
                dtypes_by_variants[tuple(v for v in VARIANTS if v in by_dtype[dtype])].append(dtype)
        for variants, dtypes in dtypes_by_variants.items():
            text.append("\t".join((entry, ",".join(dtypes), ",".join(variants), releases, reason)) + "\n")
    FAILURES.write_text(HEADER + "".join(text))
