"""torch.xla, the module in which generic torch code looks up what it asks of a device type."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import torch

import xla_go
from support import Child
from xla_go import metrics

xla = torch.xla


def resident() -> int:
    """Bytes of the process that lie in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def test_every_public_name_is_there() -> None:
    for name in (*xla.__all__, "_is_in_bad_fork", "_lazy_init"):
        assert callable(getattr(xla, name)), name
    assert torch.get_device_module("xla") is xla
    assert torch._utils._get_device_module("xla") is xla


def test_devices(child: Child) -> None:
    code = """
    import torch, xla_go
    assert torch.xla.is_available() and not torch.xla.is_initialized()
    assert torch.xla.device_count() == 3 and torch.xla.is_initialized() and torch.xla.current_device() == 0
    with torch.xla.device(2):
        assert torch.xla.current_device() == 2
        with torch.xla.device_of(torch.ones(1)):
            assert torch.xla.current_device() == 2
        with torch.xla.device_of(torch.ones(1, device="xla:1")):
            assert torch.xla.current_device() == 1
        with torch.xla.stream(torch.xla.Stream(1)), torch.xla.stream(None):
            assert torch.xla.current_device() == 1 and torch.xla.current_stream().device == torch.device("xla:1")
        assert torch.xla.current_device() == 2
    torch.xla.set_stream(torch.xla.default_stream("xla:1"))
    assert torch.xla.current_device() == 1
    torch.xla.set_device("xla:0")
    assert torch.xla.get_device_name(2) == "CPU:2" and torch.xla.can_device_access_peer(0, 2)
    assert not torch.xla.can_device_access_peer(0, 3)
    """
    child(code, env={"CPU_NUM_DEVICES": "3"})


def test_streams_are_the_devices_order() -> None:
    x = torch.ones(3, device="xla")
    side = xla.Stream()
    assert side == xla.current_stream() == xla.default_stream("xla:0") and hash(side) == hash(xla.current_stream())
    side.wait_stream(xla.current_stream())
    with xla.stream(side):
        y = x * 2
    event = side.record_event()
    xla.current_stream().wait_event(event)
    event.wait()
    event.synchronize()
    assert event.query()
    side.synchronize()
    deadline = time.monotonic() + 30
    while not side.query():
        assert time.monotonic() < deadline
    assert y.cpu().tolist() == [2.0, 2.0, 2.0]
    assert "xla:0" in repr(side) and side.stream_id == 0 and side.device_index == 0


def test_an_event_queues_and_does_not_wait() -> None:
    event = xla.Event()
    assert event.query()
    event.synchronize()  # not recorded
    x = torch.ones(5, device="xla")
    xla_go.sync(wait=True)
    queued = metrics.counter_value("ExecuteComputation") or 0
    y = x + 1
    event.record()
    event.synchronize()
    assert (metrics.counter_value("ExecuteComputation") or 0) == queued + 1 and event.query()
    assert y.sum().item() == 10


def test_what_events_cannot_do_is_said() -> None:
    with pytest.raises(NotImplementedError, match="profiler"):
        xla.Event(enable_timing=True)
    with pytest.raises(NotImplementedError, match="one process"):
        xla.Event(interprocess=True)
    with pytest.raises(NotImplementedError, match="profiler"):
        xla.Event().elapsed_time(xla.Event())


def test_memory() -> None:
    kept = torch.ones(1 << 18, device="xla")
    xla_go.sync(wait=True)
    used = xla.memory_allocated()
    assert used >= kept.nbytes and xla.memory_reserved() == used
    assert xla.max_memory_allocated() == xla.max_memory_reserved() >= used
    more = torch.ones(1 << 20, device="xla")
    xla_go.sync(wait=True)
    peak = xla.max_memory_allocated()
    assert peak >= used + more.nbytes
    del more
    xla.empty_cache()
    assert xla.memory_allocated() < peak
    xla.reset_peak_memory_stats()
    assert xla.max_memory_allocated() < peak
    assert xla.memory_stats()["bytes_used"] == xla.memory_allocated() and "bytes_used" in xla.memory_summary()
    assert len(xla.mem_get_info()) == 2


def test_free_memory_goes_back_to_the_system() -> None:
    """Pieces that are too small for mappings of their own, of which the last one holds back what lies below it."""
    torch.ones(1, device="xla").sum().item()
    xla.empty_cache()
    pieces = [bytearray(b"x" * 100_000) for _ in range(1000)]
    last = pieces.pop()
    del pieces
    before = resident()
    xla.empty_cache()
    assert before - resident() > 80_000_000 and len(last) == 100_000


def test_random_states() -> None:
    xla.manual_seed_all(3)
    assert xla.initial_seed() == 3
    states = xla.get_rng_state_all()
    first = torch.rand(4, device="xla").cpu()
    xla.set_rng_state_all(states)
    assert torch.equal(torch.rand(4, device="xla").cpu(), first)
    with torch.random.fork_rng(device_type="xla"):
        torch.rand(4, device="xla")
        inside = xla.get_rng_state()
    assert not torch.equal(xla.get_rng_state(), inside)


@pytest.mark.parametrize("dtype", xla.get_amp_supported_dtype(), ids=str)
def test_autocast(dtype: torch.dtype) -> None:
    a = torch.randn(3, 3, device="xla")
    with torch.autocast("xla", dtype=dtype):
        assert (a @ a).dtype is dtype
    assert xla.is_bf16_supported()


def test_every_dtype_that_the_device_names_is_computed_with() -> None:
    for dtype in xla.get_device_capability()["supported_dtypes"]:
        x = torch.ones(2, dtype=dtype, device="xla")
        assert torch.equal((x + x).cpu(), torch.ones(2, dtype=dtype) * 2 if dtype is not torch.bool else torch.ones(2, dtype=dtype))
