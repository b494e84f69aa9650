"""Where a graph ends: at sync, at reads, and after an optimizer's step."""

from __future__ import annotations

import pytest
import torch

import xla_go
from xla_go import metrics


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.AdamW])
def test_a_loop_without_sync_is_one_graph_a_step(optimizer: type[torch.optim.Optimizer]) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)).to("xla")
    stepper = optimizer(model.parameters(), lr=0.01)
    x = torch.randn(16, 4).to("xla")
    xla_go.sync(wait=True)
    metrics.clear_all()
    for _ in range(20):
        stepper.zero_grad()
        model(x).square().mean().backward()
        stepper.step()
    sizes = metrics.metric_data("TensorsGraphSize")
    assert sizes is not None
    assert sizes[0] == 20, "one graph for each of 20 steps"
    # The first steps make the optimizer's state, and gradients where there were none.
    assert (metrics.counter_value("UncachedCompile") or 0) <= 3
    xla_go.sync(wait=True)


def test_a_repeated_graph_is_cached() -> None:
    x = torch.randn(700, 700).to("xla")
    y = x
    for _ in range(12):
        y = (y @ x).tanh()
    xla_go.sync(wait=True)
    before = metrics.counter_value("UncachedCompile")
    y = x
    for _ in range(12):
        y = (y @ x).tanh()
    xla_go.sync()
    assert metrics.counter_value("UncachedCompile") == before, "expected the second graph to be cached"
    assert torch.isfinite(y.cpu()).all()


def test_sync_without_work() -> None:
    xla_go.sync()
    xla_go.sync(wait=True)


def test_closures_run_once_after_the_next_sync() -> None:
    from xla_go import _step

    ran: list[int] = []
    _step.after_next_sync(lambda: ran.append(1))
    assert ran == []
    xla_go.sync()
    xla_go.sync()
    assert ran == [1]


def test_a_compile_does_not_hold_another_threads_step() -> None:
    """A step whose program is known runs while another one's is being compiled."""
    import threading
    import time

    x = torch.ones(53).to("xla")
    (x * 3).cpu()  # known from here on
    seconds: list[float] = []

    def unknown() -> None:
        y = torch.ones(59).to("xla")
        for i in range(1500):
            y = y * 1.01 if i % 2 else y + 0.5
        begin = time.perf_counter()
        y.cpu()
        seconds.append(time.perf_counter() - begin)

    def started() -> int:
        return xla_go.metrics.counter_value("UncachedCompile") or 0

    before = started()
    other = threading.Thread(target=unknown)
    other.start()
    while started() == before:  # until then a read here would take the other thread's tensors into its own program
        time.sleep(0.001)
    quick = []
    while other.is_alive():
        begin = time.perf_counter()
        assert (x * 3).cpu()[0] == 3
        quick.append(time.perf_counter() - begin)
    other.join()
    assert seconds[0] > 0.2, "the compile was too short to show anything"
    assert max(quick) < seconds[0] / 2, (max(quick), seconds)


def test_waiting_for_the_device_waits_for_queued_steps_too() -> None:
    x = torch.ones(61).to("xla")
    for i in range(300):
        x = x * 1.01 if i % 2 else x + 0.5
    xla_go.sync()  # the program is being compiled, so that the client has nothing to do yet
    xla_go.runtime.wait_device_ops()
    assert xla_go.debug.compiles()[-1]["seconds"] > 0
    with xla_go.strict():
        x.cpu()
    assert xla_go.debug.live_counts()["reads"] == 0


@pytest.mark.parametrize("cut", ["0", "1"])
def test_a_backward_ends_the_graph_where_that_is_asked_for(cut: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_GO_CUT_AFTER_BACKWARD", cut)
    x = torch.ones(63, requires_grad=True)
    y = x.detach().to("xla").requires_grad_()
    for t in (x, y):
        for _ in range(3):
            (t * t).sum().backward()
    if cut == "1":
        with xla_go.strict():  # it has been queued already
            y.grad.cpu()
    else:
        with xla_go.strict(), pytest.raises(xla_go.errors.FailedPreconditionError):
            y.grad.cpu()
    assert torch.equal(y.grad.cpu(), x.grad)
