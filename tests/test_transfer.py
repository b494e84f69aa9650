"""Uploads and reads of small and large arrays: what the device holds is what the source was at the call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import xla_go
from support import Child

pytestmark = pytest.mark.once

# Small arrays and large ones go different ways.
ROWS = [1, 100, 3000]
COLUMNS = 512

FORMS: dict[str, Callable[[Any], Any]] = {
    "dense": lambda array: array,
    "unaligned": lambda array: array.reshape(-1)[1:],
    "transposed": lambda array: array.T,
    "columns": lambda array: array[:, 3:-1],
    "every other": lambda array: array[:, ::2],
}


def pattern(rows: int) -> np.ndarray[Any, Any]:
    return (np.arange(rows * COLUMNS, dtype=np.int64) % 65521).astype(np.float32).reshape(rows, COLUMNS)


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("form", FORMS)
def test_a_numpy_source_may_be_overwritten(rows: int, form: str) -> None:
    memory = pattern(rows)
    source = FORMS[form](memory)
    expected = source.copy()
    with xla_go.client.upload(source) as data:
        memory[:] = -1
        np.testing.assert_array_equal(data.numpy(), expected)


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("form", FORMS)
def test_a_torch_source_may_be_overwritten(rows: int, form: str) -> None:
    memory = torch.from_numpy(pattern(rows))
    source = FORMS[form](memory)
    expected = source.clone()
    on_device = source.to("xla")
    target = torch.zeros(source.shape, device="xla").copy_(source)
    converted = source.to("xla", torch.float64)
    memory.fill_(-1)
    for got in (on_device, target, converted.float()):
        torch.testing.assert_close(got.cpu(), expected, rtol=0, atol=0)


def test_an_expanded_source_and_one_with_a_view_as_target() -> None:
    source = torch.arange(700.0).reshape(700, 1).expand(700, 900)
    on_device = source.to("xla")
    torch.testing.assert_close(on_device.cpu(), source.contiguous(), rtol=0, atol=0)
    target = torch.zeros(900, 1400, device="xla")
    target.T[::2].copy_(source)
    expected = torch.zeros(900, 1400)
    expected.T[::2].copy_(source)
    torch.testing.assert_close(target.cpu(), expected, rtol=0, atol=0)


@pytest.mark.parametrize("rows", ROWS)
def test_reads_into_memory_in_use_and_into_part_of_it(rows: int) -> None:
    on_device = torch.from_numpy(pattern(rows)).to("xla")
    memory = torch.full((rows + 2, COLUMNS), -1.0)
    memory[1:-1].copy_(on_device)
    expected = torch.full((rows + 2, COLUMNS), -1.0)
    expected[1:-1] = torch.from_numpy(pattern(rows))
    torch.testing.assert_close(memory, expected, rtol=0, atol=0)
    memory[1:-1].copy_(on_device[:, :1].expand(rows, COLUMNS))
    torch.testing.assert_close(memory[1:-1], torch.from_numpy(pattern(rows))[:, :1].expand(rows, COLUMNS), rtol=0, atol=0)


def test_conjugated_and_negated_sources() -> None:
    source = torch.complex(torch.arange(1e6), torch.arange(1e6).flip(0)).reshape(1000, 1000).T
    for form in (source.conj(), source.imag, source.conj().imag):
        torch.testing.assert_close(form.to("xla").cpu(), form.resolve_conj().resolve_neg(), rtol=0, atol=0)


@pytest.mark.parametrize("rows", ROWS)
def test_a_source_may_be_freed(rows: int) -> None:
    expected = pattern(rows)
    held = []
    for round in range(4):
        # Nobody holds the array and the tensor after the call: their memory is used again at once.
        held.append((xla_go.client.upload(pattern(rows) + round), torch.from_numpy(pattern(rows) + round).to("xla")))
        np.full((rows, COLUMNS), -1, np.float32)
    for round, (data, tensor) in enumerate(held):
        np.testing.assert_array_equal(data.numpy(), expected + round)
        np.testing.assert_array_equal(tensor.cpu().numpy(), expected + round)
        data.close()


def test_a_large_upload_is_trained_in_place() -> None:
    """The first step takes the uploaded memory for its results, the next ones theirs."""
    start = torch.from_numpy(pattern(3000))
    weight, untouched = start.to("xla"), start.to("xla")
    for _ in range(3):
        weight.add_(1).mul_(2)
        xla_go.sync()
    later = torch.zeros(3000, COLUMNS).to("xla")  # must not get memory that is in use
    torch.testing.assert_close(weight.cpu(), ((start + 1) * 2 + 1) * 4 + 2)
    torch.testing.assert_close(untouched.cpu(), start, rtol=0, atol=0)
    assert later.cpu().count_nonzero() == 0


REPEATED = """
import gc, time
import numpy as np, torch, xla_go
from xla_go import metrics

source = np.ones(64 << 20, np.uint8)
for round in range(3):
    source[:] = round
    data = xla_go.client.upload(source)
    tensor = torch.from_numpy(source).to("xla")
    source[:] = 100
    assert (data.numpy() == round).all() and (tensor.cpu() == round).all()
    data.close()
    del tensor
    gc.collect()
assert metrics.counter_value("HostPoolReused") >= 3, metrics.counter_value("HostPoolReused")
"""

RESIDENT = """
def resident():
    with open("/proc/self/status") as status:
        return int(next(line for line in status if line.startswith("VmRSS")).split()[1]) >> 10

before = resident()
for _ in range(120):
    if resident() < before - 100:
        break
    time.sleep(0.25)
print(before - resident())
"""


@pytest.mark.parametrize("ifrt", ["0", "1"])
def test_memory_is_used_again(child: Child, ifrt: str) -> None:
    child(REPEATED, env={"XLA_USE_IFRT": ifrt})


@pytest.mark.slow
def test_idle_memory_goes_back_by_itself(child: Child) -> None:
    done = child(REPEATED + RESIDENT)
    assert int(done.stdout.split()[-1]) >= 100, done.stdout
