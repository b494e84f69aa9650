"""A step reuses the memory of what it overwrites, and of nothing that anybody can still reach."""

from __future__ import annotations

import gc
import json

import pytest
import torch

import xla_go
from xla_go import _adapter, debug, metrics

pytestmark = pytest.mark.once


def pointer(t: torch.Tensor) -> int:
    """The device address of a tensor's storage, once its value is there."""
    xla_go.sync(wait=True)
    return _adapter.load().buffer_pointer(t.untyped_storage()._cdata)


def compiles() -> int:
    return metrics.counter_value("UncachedCompile") or 0


def test_an_update_in_place_keeps_its_memory() -> None:
    x = torch.zeros(1 << 16).to("xla")
    x.add_(1)  # the first value is memory of the upload
    home = pointer(x)
    for _ in range(5):
        x.add_(1)
        assert pointer(x) == home
    assert x[0].item() == 6


def test_a_write_to_a_view_keeps_the_storages_memory() -> None:
    x = torch.zeros(16, 4096).to("xla")
    x.add_(1)
    home = pointer(x)
    x.view(16, 64, 64)[3].fill_(7)
    assert pointer(x) == home
    assert x[3].eq(7).all().item() and x[4].eq(1).all().item()


def test_training_reuses_every_parameter() -> None:
    model = torch.nn.Linear(64, 64).to("xla")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    x = torch.randn(8, 64).to("xla")

    def step() -> None:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
        xla_go.sync(wait=True)

    for _ in range(3):
        step()
    homes = {name: pointer(p) for name, p in model.named_parameters()}
    step()
    assert {name: pointer(p) for name, p in model.named_parameters()} == homes
    donated = metrics.metric_data("InputOutputAliasCount")
    assert donated is not None and donated[2][-1][1] >= 4, "two parameters and their momenta"


def test_an_old_value_that_is_held_stays() -> None:
    x = torch.arange(1000.0).to("xla")
    x.add_(1)
    xla_go.sync()
    before = compiles()
    held: list[torch.Tensor] = []
    for i in range(4):
        held.append(x.clone())
        x.add_(1)
        xla_go.sync()
        assert held[-1][0].item() == 1 + i
    assert [h[0].item() for h in held] == [1, 2, 3, 4]
    assert x[0].item() == 5
    # Whether the old value is held changes what may be donated, and not the program.
    assert compiles() - before <= 1


def test_holding_or_dropping_an_old_loss_never_compiles() -> None:
    w = torch.ones(32).to("xla").requires_grad_()
    optimizer = torch.optim.SGD([w], lr=0.1)
    kept: list[torch.Tensor] = []

    def step(keep: bool) -> None:
        optimizer.zero_grad()
        loss = (w * w).sum()
        loss.backward()
        optimizer.step()
        xla_go.sync()
        if keep:
            kept.append(loss.detach())

    for _ in range(3):
        step(keep=False)
    before = compiles()
    for keep in (True, False, True, True, False):
        step(keep)
    kept.clear()
    step(keep=False)
    assert compiles() == before


def test_views_and_pending_readers_see_the_right_value() -> None:
    x = torch.arange(6.0).to("xla")
    xla_go.sync()
    reader, view = x * 10, x.view(2, 3)
    x.add_(1)
    late = view.sum()
    x.mul_(2)
    xla_go.sync()
    assert reader.tolist() == [0, 10, 20, 30, 40, 50]
    assert late.item() == 21
    assert view.tolist() == [[2, 4, 6], [8, 10, 12]]


def test_donation_can_be_turned_off(child) -> None:  # type: ignore[no-untyped-def]
    result = child(
        """
        import torch, xla_go
        from xla_go import metrics
        x = torch.zeros(4096).to("xla")
        for _ in range(3):
            x.add_(1)
            xla_go.sync(wait=True)
        data = metrics.metric_data("InputOutputAliasCount")
        print([int(v) for _, v in data[2]], x[0].item())
        """,
        env={"XLA_ENABLE_PARAM_ALIASING": "0"},
    )
    assert result.stdout.split("\n")[0] == "[0, 0, 0] 3.0", result.stderr


def test_memory_is_flat_over_many_steps() -> None:
    x, y = torch.zeros(1 << 18).to("xla"), torch.ones(1 << 18).to("xla")
    live = []
    for i in range(60):
        x.add_(y)
        z = x * 2
        xla_go.sync()
        if i % 20 == 19:
            assert z[0].item() == 2 * (i + 1)
            del z
            gc.collect()
            xla_go.sync(wait=True)
            live.append(debug.live_counts()["buffers"])
    assert live[0] == live[1] == live[2]


def test_a_pending_graph_that_nobody_wants_is_freed_at_once() -> None:
    x = torch.ones(1 << 18).to("xla")
    xla_go.sync(wait=True)
    before = debug.live_counts()["buffers"]
    y = x + 1
    del x
    assert debug.live_counts()["buffers"] == before
    del y
    torch.zeros(1, device="xla").add_(1)
    xla_go.sync(wait=True)
    assert debug.live_counts()["buffers"] <= before


MANY = """
    import json, torch, xla_go
    pointer = xla_go._adapter.load().buffer_pointer
    for count in json.loads({counts!r}):
        tensors = [torch.full((3,), float(i)).to("xla") for i in range(count)]
        addresses = []
        for step in range(3):
            for tensor in tensors:
                tensor.add_(1)
            xla_go.sync()
            xla_go.runtime.wait_device_ops()
            addresses.append([pointer(tensor.untyped_storage()._cdata) for tensor in tensors])
            assert all(addresses[-1])
        aliased = xla_go.metrics.metric_data("InputOutputAliasCount")[2][-1][1]
        right = all(tensor.tolist() == [i + 3.0] * 3 for i, tensor in enumerate(tensors))
        print(json.dumps([count, right, aliased, addresses[0] == addresses[-1]]))
"""


def many_parameters(child, counts: list[int], **environment: str) -> None:  # type: ignore[no-untyped-def]
    done = child(MANY.format(counts=str(counts)), env={"PJRT_DEVICE": "CPU", "XLA_GO_NODE_LIMIT": "0", **environment}, timeout=1800)
    assert [json.loads(line) for line in done.stdout.splitlines()] == [[count, True, count, True] for count in counts]


def test_parameters_in_a_tuple_are_donated(child) -> None:  # type: ignore[no-untyped-def]
    many_parameters(child, [19, 20, 60], XLA_PARAMETER_WRAPPING_THREADSHOLD="20")


@pytest.mark.slow
def test_thousands_of_parameters_are_donated(child) -> None:  # type: ignore[no-untyped-def]
    many_parameters(child, [3199, 3200, 10000])
