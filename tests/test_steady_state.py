"""Long runs: nothing is compiled again, nothing grows, threads do not get in each other's way."""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

import xla_go

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))
from char_gpt import CharGPT

pytestmark = pytest.mark.once

xla = torch.device("xla")


def test_a_gpt_compiles_nothing_after_its_third_step() -> None:
    """200 steps with a schedule of the learning rate, clipped and accumulated gradients, and a validation now and then."""
    torch.manual_seed(0)
    model = CharGPT(32, 16, width=32, heads=2, layers=1).to(xla)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 200)
    held_out = torch.arange(68).reshape(4, 17).remainder(32).to(xla)

    def loss_of(text: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(model(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten())

    losses = []
    compiled = 0
    for step in range(200):
        if step == 3:
            compiled = len(xla_go.debug.compiles())
        for _ in range(2):
            start = torch.randint(32, (4, 1))
            (loss_of((start + torch.arange(17)).remainder(32).to(xla)) / 2).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
        if step % 20 == 1:
            with torch.no_grad():
                losses.append(loss_of(held_out).item())
    assert xla_go.debug.compiles()[compiled:] == []
    assert len(losses) == 10 and losses[-1] < losses[0] / 2  # it counts, which is learnt soon


def test_three_elements_by_index_are_one_program() -> None:
    x = torch.randn(5, 5)
    y = x.to(xla)
    y.cpu()
    known = len(xla_go.debug.compiles())
    assert [y[i, i].item() for i in range(3)] == [x[i, i].item() for i in range(3)]
    assert xla_go.debug.compiles()[known:] == []


def work(number: int, until: float, wrong: list[str]) -> None:
    """Traces, reads and writes values of its own, of the same and of other shapes than its neighbours."""
    try:
        rounds = 0
        while time.monotonic() < until:
            n = 3 + (number + rounds) % 5
            x = torch.full((n,), float(number), device=xla)
            x += rounds
            y = x[1:] * 2 - x[:-1]
            if rounds % 7 == number % 7:
                xla_go.sync()
            got = y.cpu()
            if not torch.equal(got, torch.full((n - 1,), float(number + rounds))):
                wrong.append(f"thread {number}, round {rounds}: {got}")
                return
            rounds += 1
    except Exception as error:
        wrong.append(f"thread {number}: {error!r}")


def eight_threads(seconds: float) -> None:
    wrong: list[str] = []
    until = time.monotonic() + seconds
    threads = [threading.Thread(target=work, args=(number, until, wrong)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds + 120)
        assert not thread.is_alive(), "a thread hangs"
    assert wrong == []


def test_eight_threads() -> None:
    eight_threads(5)


@pytest.mark.slow
def test_eight_threads_for_a_minute() -> None:
    eight_threads(60)


def resident() -> int:
    """Bytes of the process that lie in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@pytest.mark.slow
def test_a_thousand_steps_are_level() -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 8)).to(xla)
    optimizer = torch.optim.Adam(model.parameters())
    counts, memory = [], []
    for step in range(1200):
        loss = model(torch.randn(32, 64).to(xla)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 99:
            xla_go.sync()
            xla_go.runtime.wait_device_ops()
            counts.append(xla_go.debug.live_counts()["buffers"])
            memory.append(resident())
    assert len(set(counts[1:])) == 1, counts
    assert memory[-1] - memory[1] < 8 << 20, memory
