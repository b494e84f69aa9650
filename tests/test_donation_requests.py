"""`set_buffer_donation` gives the memory of what is dropped to the step that reads it last, and of nothing else."""

from __future__ import annotations

import random

import pytest
import torch

import xla_go
from support import Child
from xla_go import _adapter, errors, metrics, runtime

pytestmark = pytest.mark.once


def pointer(t: torch.Tensor) -> int:
    xla_go.sync(wait=True)
    return _adapter.load().buffer_pointer(t.untyped_storage()._cdata)


def compiles() -> int:
    return metrics.counter_value("UncachedCompile") or 0


def on_device(size: int, value: float = 1.0) -> torch.Tensor:
    """A value whose memory is the device's own, so that it can be reused."""
    x = torch.full((size,), value).to("xla")
    x = x * 1
    xla_go.sync(wait=True)
    return x


def test_memory_of_a_dropped_value_is_reused() -> None:
    for asked in (False, True):
        x = on_device(40961, 3.0)
        home = pointer(x)
        assert not runtime.get_buffer_donation(x)
        if asked:
            assert runtime.set_buffer_donation(x)
            assert runtime.get_buffer_donation(x)
        y = x * 7 + (2 if asked else 1)
        del x
        assert (pointer(y) == home) == asked
        assert y[0].item() == (23 if asked else 22)


@pytest.mark.parametrize("holder", ["tensor", "view", "detached", "pending", "later"])
def test_what_can_be_reached_is_kept(holder: str) -> None:
    x = on_device(40973, 5.0)
    home = pointer(x)
    assert runtime.set_buffer_donation(x)
    held: object = {
        "tensor": lambda v: v,
        "view": lambda v: v[3:9],
        "detached": lambda v: torch.nn.Parameter(v).detach(),
        "pending": lambda v: v + 1,  # of the same step: read before the memory is written
        "later": lambda v: torch.nn.Parameter(v),
    }[holder](x)
    y = x * 11
    del x
    reused = pointer(y) == home
    assert y[0].item() == 55
    assert isinstance(held, torch.Tensor)
    assert held[0].item() == (6 if holder == "pending" else 5)
    assert holder == "pending" or not reused


def test_a_request_is_for_one_value() -> None:
    x = on_device(40993)
    assert runtime.set_buffer_donation(x)
    x.add_(1)
    assert not runtime.get_buffer_donation(x)  # a pending one
    assert not runtime.set_buffer_donation(x)
    xla_go.sync()
    assert not runtime.get_buffer_donation(x)
    assert runtime.set_buffer_donation(x)
    assert runtime.set_buffer_donation(x, False) and not runtime.get_buffer_donation(x)
    assert not runtime.set_buffer_donation(torch.empty(3, device="xla"))
    with pytest.raises(ValueError, match="storage on device xla"):
        runtime.set_buffer_donation(torch.zeros(3))


def test_a_known_program_is_compiled_once_more() -> None:
    def step(asked: bool) -> bool:
        x = on_device(41011, 2.0)
        home = pointer(x)
        before = compiles()
        if asked:
            runtime.set_buffer_donation(x)
        y = x * 13 - 1
        del x
        reused = pointer(y) == home
        assert y[5].item() == 25
        made.append(compiles() - before)
        return reused

    made: list[int] = []
    assert not step(asked=False)
    assert [step(asked=True) for _ in range(3)] == [True] * 3
    # The program that reuses the memory of its input serves those that do not ask: nobody can reach the value.
    assert [step(asked) for asked in (False, True, False)][1]
    assert made == [1, 1, 0, 0, 0, 0, 0]


def test_strict_mode_does_without() -> None:
    x, y = on_device(41017), on_device(41017)
    z = x * 17
    xla_go.sync()
    runtime.set_buffer_donation(y)
    with xla_go.strict():
        z = y * 17
        del y
        xla_go.sync()
    assert z[0].item() == 17


def test_what_is_released_goes_to_the_next_step_that_reads_it() -> None:
    x = on_device(41023, 5.0)
    home, view = pointer(x), x[2:4]
    assert runtime.set_buffer_donation(x, release=True) and runtime.get_buffer_donation(x)
    other = on_device(41023, 1.0) + 1
    xla_go.sync(wait=True)
    assert x[0].item() == 5  # no program took it
    y = x * 19
    assert pointer(y) == home and y[7].item() == 95 and other[0].item() == 2
    for lost in (x, view, x.detach()):
        with pytest.raises(errors.FailedPreconditionError, match="set_buffer_donation"):
            lost.sum().item()
    x.fill_(4)
    assert view.tolist() == [4, 4] and y[7].item() == 95
    assert not runtime.get_buffer_donation(x)


def test_what_is_released_comes_back_where_its_step_cannot_run() -> None:
    x, broken = on_device(41039, 5.0), on_device(41039, 3.0)
    assert runtime.set_buffer_donation(broken, release=True)
    taken = broken + 1
    xla_go.sync(wait=True)
    assert runtime.set_buffer_donation(x, release=True)
    z = x + broken  # of which one has no value any more
    with pytest.raises(errors.FailedPreconditionError):
        z.sum().item()
    assert x[3].item() == 5 and taken[3].item() == 4


@pytest.mark.parametrize("seed", range(4))
def test_random_steps_with_requests_for_everything(seed: int) -> None:
    """Every value is asked for, whoever holds it: what is held stays as the CPU has it."""
    choose = random.Random(seed)
    size = 64 + seed
    pairs: list[tuple[torch.Tensor, torch.Tensor]] = []

    def add(host: torch.Tensor, device: torch.Tensor) -> None:
        pairs.append((host, device))

    for i in range(3):
        host = torch.arange(float(size)) + i
        add(host, host.to("xla"))
    for _ in range(12):
        for _ in range(choose.randrange(1, 5)):
            (a, x), (b, y) = choose.choice(pairs), choose.choice(pairs)
            match choose.randrange(5):
                case 0:
                    add(a + b[: len(a)] if len(b) >= len(a) else a * 2, x + y[: len(x)] if len(b) >= len(a) else x * 2)
                case 1:
                    a.mul_(0.5)
                    x.mul_(0.5)
                case 2:
                    add(a[1:], x[1:]) if len(a) > 8 else add(a.clone(), x.clone())
                case 3:
                    add(a.detach(), x.detach())
                case 4 if len(pairs) > 2:
                    del a, x, b, y
                    pairs.pop(choose.randrange(len(pairs)))
        for _, x in pairs:
            runtime.set_buffer_donation(x)
        xla_go.sync()
        for _, x in pairs:
            runtime.set_buffer_donation(x)
    for a, x in pairs:
        torch.testing.assert_close(x.cpu(), a, rtol=0, atol=0)


def test_torch_xlas_names(child: Child) -> None:
    child(
        """
    import xla_go; xla_go.compat.install()
    import torch, torch_xla
    x = torch.ones(5).to("xla") * 1
    assert torch_xla._XLAC._set_buffer_donation(x, True) is False
    torch_xla.sync()
    assert torch_xla._XLAC._set_buffer_donation(x, True) is True and torch_xla._XLAC._get_buffer_donation(x) is True
    y = x + 1
    torch_xla.sync()
    assert y.tolist() == [2.] * 5 and torch_xla._XLAC._is_placecholder(x) and "Data Handle: Deleted" in torch_xla._XLAC._get_xla_tensor_debug_info(x)
    for use in (x.tolist, lambda: torch_xla._XLAC._get_tensors_handle([x])):
        try:
            use()
        except RuntimeError as error:
            assert "reused" in str(error), error
        else:
            raise AssertionError("expected an error")
    def f(x):
        torch.ops.xla.dynamo_set_buffer_donor_(x, True)
        return x * 3
    f = torch.compile(f, backend="openxla")
    import torch_xla.debug.metrics as met
    for i in range(4):
        x = torch.full((6,), float(i)).to("xla")
        assert f(x).tolist() == [3. * i] * 6 and torch_xla._XLAC._is_placecholder(x), i
    assert met.counter_value("ReplayedProgram") == 3 and met.counter_value("XlaSetBufferDonation") == 2
    try:
        torch_xla._XLAC._xla_all_reduce
    except AttributeError as error:
        assert "not provided" in str(error)
    else:
        raise AssertionError("expected an error")
    """
    )
