"""What the tests of replicas run in a process with eight devices: collectives beside what NumPy makes of the same values."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

import xla_go
from xla_go import distributed

Groups = list[list[int]]
Values = list[np.ndarray[Any, Any]]

LAYOUTS: tuple[Groups, ...] = (
    [list(range(8))],
    [[0, 1, 2, 3], [4, 5, 6, 7]],
    [[0, 2, 4, 6], [1, 3, 5, 7]],
    [[7, 0], [3, 1], [2, 6], [5, 4]],
    [[i] for i in range(8)],
)
DTYPES = (
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.int16, torch.int32, torch.int64,
    torch.uint8, torch.bool, torch.complex64, torch.complex128,
)  # fmt: skip
SIZE = (8, 16)


def value(ordinal: int, dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    """Small numbers, whose sums and products are exact in every type."""
    generator = torch.Generator().manual_seed(1000 * seed + ordinal)
    numbers = torch.randint(0, 2, SIZE, generator=generator)
    if dtype == torch.bool:
        return numbers.bool()
    return (numbers + (ordinal % 3 == 0)).to(dtype)


def array(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    """Exact in NumPy, which has no bfloat16."""
    return (tensor.double() if tensor.dtype in (torch.bfloat16, torch.float16) else tensor).numpy()


REDUCTIONS: dict[str, Callable[[Values], np.ndarray[Any, Any]]] = {
    "sum": lambda values: np.any(values, 0) if values[0].dtype == bool else np.sum(values, 0, dtype=values[0].dtype),
    "mul": lambda values: np.all(values, 0) if values[0].dtype == bool else np.prod(values, 0, dtype=values[0].dtype),
    "min": lambda values: np.min(values, 0),
    "max": lambda values: np.max(values, 0),
    "and": lambda values: np.bitwise_and.reduce(values),
    "or": lambda values: np.bitwise_or.reduce(values),
}


def reductions(dtype: torch.dtype) -> list[str]:
    if dtype.is_complex:
        return ["sum", "mul"]
    return ["sum", "mul", "min", "max"] + ([] if dtype.is_floating_point else ["and", "or"])


# A call is a name, what it does on the device, and what NumPy makes of the values of all replicas of a group, in its order,
# for the one at a place in it.
Call = tuple[str, Callable[[torch.Tensor, Groups], torch.Tensor], Callable[[Values, int], np.ndarray[Any, Any]]]


def calls(dtype: torch.dtype) -> list[Call]:
    def reduce_call(kind: str) -> Call:
        return (
            f"all_reduce {kind}",
            lambda x, groups: distributed.all_reduce(kind, x, groups=groups),
            lambda values, place: REDUCTIONS[kind](values),
        )

    def scatter_call(kind: str, dim: int) -> Call:
        return (
            f"reduce_scatter {kind} {dim}",
            lambda x, groups: distributed.reduce_scatter(kind, x, 1.0, dim, len(groups[0]), groups),
            lambda values, place: np.split(REDUCTIONS[kind](values), len(values), dim)[place],
        )

    def gather_call(dim: int) -> Call:
        return (
            f"all_gather {dim}",
            lambda x, groups: distributed.all_gather(x, dim, groups),
            lambda values, place: np.concatenate(values, dim),
        )

    def exchange_call(split: int, join: int) -> Call:
        return (
            f"all_to_all {split} {join}",
            lambda x, groups: distributed.all_to_all(x, split, join, len(groups[0]), groups),
            lambda values, place: np.concatenate([np.split(v, len(values), split)[place] for v in values], join),
        )

    def broadcast(x: torch.Tensor, groups: Groups) -> torch.Tensor:
        written = x.clone()
        distributed.collective_broadcast([written], len(groups[0]) - 1, groups)
        return written

    def permute(x: torch.Tensor, groups: Groups) -> torch.Tensor:
        pairs = [[group[i], group[(i + 1) % len(group)]] for group in groups for i in range(len(group))]
        return distributed.collective_permute(x, pairs)

    return [
        *(reduce_call(kind) for kind in reductions(dtype)),
        *(scatter_call(kind, dim) for kind, dim in (("sum", 0), (reductions(dtype)[-1], 1))),
        gather_call(0), gather_call(1),
        exchange_call(0, 1), exchange_call(1, 0), exchange_call(1, 1),
        ("broadcast", broadcast, lambda values, place: values[-1]),
        ("permute", permute, lambda values, place: values[place - 1]),
    ]  # fmt: skip


def check(got: torch.Tensor, want: np.ndarray[Any, Any], what: object) -> None:
    if not np.array_equal(array(got), want):
        raise AssertionError(f"{what}: got\n{array(got)}\nexpected\n{want}")


def every_collective(dtypes: Sequence[torch.dtype] = DTYPES) -> int:
    """Every collective in every type with every layout of groups; the number of comparisons."""

    def run(ordinal: int) -> list[torch.Tensor]:
        results = []
        for dtype in dtypes:
            x = value(ordinal, dtype).to("xla")
            for groups in LAYOUTS:
                results += [call(x, groups) for _, call, _ in calls(dtype)]
                xla_go.sync()
        return [result.cpu() for result in results]

    outcomes = distributed.launch(run)
    compared = 0
    cases = [(dtype, groups, call) for dtype in dtypes for groups in LAYOUTS for call in calls(dtype)]
    for i, (dtype, groups, (name, _, reference)) in enumerate(cases):
        values = [array(value(ordinal, dtype)) for ordinal in range(8)]
        for group in groups:
            for place, ordinal in enumerate(group):
                check(outcomes[ordinal][i], reference([values[member] for member in group], place), (name, dtype, groups, ordinal))
                compared += 1
    return compared


def random_collectives(count: int, seed: int) -> None:
    """Collectives in random order, each a step of its own that is read."""
    chosen = random.Random(seed)
    dtypes = (torch.float32, torch.int64)
    menu = [(dtype, groups, call) for dtype in dtypes for groups in LAYOUTS[:3] for call in calls(dtype)[::2]]
    order = [chosen.choice(menu) for _ in range(count)]
    values = [{dtype: value(ordinal, dtype) for dtype in dtypes} for ordinal in range(8)]

    def run(ordinal: int) -> None:
        x = {dtype: values[ordinal][dtype].to("xla") for dtype in dtypes}
        place = {id(groups): next((group, group.index(ordinal)) for group in groups if ordinal in group) for groups in LAYOUTS}
        for i, (dtype, groups, (name, call, reference)) in enumerate(order):
            group, at = place[id(groups)]
            got = call(x[dtype], groups).cpu()
            if i % 50 == ordinal:  # the reference takes longer than the run
                check(got, reference([array(values[member][dtype]) for member in group], at), (i, name, dtype, groups, ordinal))

    distributed.launch(run)


def training(replicas: int, steps: int = 10) -> tuple[list[float], list[float], int, int]:
    """Losses of replicas that average gradients, beside those of one device with all of their batches; compiles, donors."""
    batches = torch.randn(steps, 8, 16, generator=torch.Generator().manual_seed(1))
    targets = torch.randn(steps, 8, 4, generator=torch.Generator().manual_seed(2))

    def model() -> torch.nn.Module:
        torch.manual_seed(3)
        return torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 4))

    prepared = [model() for _ in range(replicas + 1)]

    def run(ordinal: int) -> list[float]:
        net = prepared[ordinal].to("xla")
        optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
        losses = []
        for x, y in zip(batches, targets, strict=True):
            mine, wanted = (t.chunk(replicas)[ordinal].to("xla") for t in (x, y))
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(net(mine), wanted)
            loss.backward()
            distributed.all_reduce("mean", [p.grad for p in net.parameters()])
            optimizer.step()
            losses.append(distributed.all_reduce("mean", loss.detach()))
            xla_go.sync()
        return [loss.item() for loss in losses]

    before = xla_go.metrics.counter_value("UncachedCompile") or 0
    (losses, *others) = distributed.launch(run, nprocs=replicas)
    compiles = (xla_go.metrics.counter_value("UncachedCompile") or 0) - before
    donors = int(max(sample[1] for sample in xla_go.metrics.metric_data("InputOutputAliasCount")[2]))
    if any(other != losses for other in others):
        raise AssertionError(f"the replicas disagree: {[losses, *others]}")
    alone = prepared[-1]
    optimizer = torch.optim.AdamW(alone.parameters(), lr=1e-2)
    expected = []
    for x, y in zip(batches, targets, strict=True):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(alone(x), y)
        loss.backward()
        optimizer.step()
        expected.append(loss.item())
    return losses, expected, compiles, donors


def gradients() -> None:
    """Gradients through collectives beside those of the same sum over all replicas on one device."""
    weights = torch.arange(8.0 * 16).reshape(8, 16)
    factors = [weights * (i + 1) for i in range(8)]  # of replica i's result

    def cases(x: torch.Tensor, ordinal: int) -> list[torch.Tensor]:
        f = factors[ordinal].to(x.device)
        tall = torch.cat([f] * 8)
        return [
            (distributed.all_reduce("sum", x, scale=0.5) * f).sum(),
            (distributed.all_gather(x) * tall).sum(),
            (distributed.reduce_scatter("sum", x, 2.0, 0, 8) * f[:1]).sum(),
            (distributed.all_to_all(x, 0, 1, 8) * f.reshape(1, 128)).sum(),
            (distributed.collective_permute(x, [[i, (i + 1) % 8] for i in range(8)]) * f).sum(),
        ]

    def run(ordinal: int) -> list[torch.Tensor]:
        x = value(ordinal, torch.float32).to("xla").requires_grad_()
        return [torch.autograd.grad(loss, x)[0].cpu() for loss in cases(x, ordinal)]

    inputs = [value(i, torch.float32).requires_grad_() for i in range(8)]
    total = torch.stack(list(inputs)).sum(0)
    losses = [
        sum((total * 0.5 * f).sum() for f in factors),
        sum((torch.cat(inputs) * torch.cat([f] * 8)).sum() for f in factors),
        sum((total[i : i + 1] * 2 * f[:1]).sum() for i, f in enumerate(factors)),
        sum((torch.cat([x[i : i + 1] for x in inputs], 1) * f.reshape(1, 128)).sum() for i, f in enumerate(factors)),
        sum((inputs[i - 1] * f).sum() for i, f in enumerate(factors)),
    ]
    outcomes = distributed.launch(run)
    for number, loss in enumerate(losses):
        assert isinstance(loss, torch.Tensor)
        wanted = torch.autograd.grad(loss, inputs, retain_graph=True)
        for ordinal, want in enumerate(wanted):
            torch.testing.assert_close(outcomes[ordinal][number], want, msg=lambda text, n=number: f"case {n}: {text}")


def nan_stays() -> None:
    """A NaN in one collective is not in the next, nor where the group's other members have it not."""

    def run(ordinal: int) -> list[Any]:
        x = torch.tensor([math.nan if ordinal == 3 else 1.0, 2.0], device="xla")
        spoiled = distributed.all_reduce("sum", x)
        halves = distributed.all_reduce("sum", x, groups=[[0, 1, 2, 3], [4, 5, 6, 7]])
        clean = distributed.all_reduce("sum", torch.ones(2, device="xla"))
        root = [torch.full((2,), math.nan if ordinal else 5.0, device="xla")]
        distributed.collective_broadcast(root)
        return [t.tolist() for t in (spoiled, halves, clean, root[0])]

    for ordinal, (spoiled, halves, clean, root) in enumerate(distributed.launch(run)):
        assert math.isnan(spoiled[0]) and spoiled[1] == 16, spoiled
        assert math.isnan(halves[0]) == (ordinal < 4) and halves[1] == 8, halves
        assert clean == [8, 8] and root == [5, 5], (clean, root)
