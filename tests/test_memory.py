"""What values take on the device: counted, told, and not more than they need."""

from __future__ import annotations

import json

import pytest
import torch

import xla_go
from support import Child

pytestmark = pytest.mark.once


def used() -> int:
    xla_go.sync()
    xla_go.runtime.wait_device_ops()
    return xla_go.runtime.memory_info()["bytes_used"]


def test_memory_of_values() -> None:
    info = xla_go.runtime.memory_info()
    assert info["source"] == "data"  # CPU plugins do not count
    before = used()
    x = torch.ones(1024, 256).to("xla")
    assert used() - before == 1 << 20
    y = x + 1
    assert used() - before == 2 << 20
    x.add_(1)
    assert used() - before == 2 << 20
    del y
    assert used() - before == 1 << 20
    xla_go.runtime.reset_peak_memory()
    z = x * 2
    assert xla_go.runtime.memory_info()["peak_bytes_used"] - before == 1 << 20  # nothing has run
    used()
    del z
    assert used() - before == 1 << 20
    peak = xla_go.runtime.memory_info()["peak_bytes_used"] - before
    assert 2 << 20 <= peak < (2 << 20) + 1024, peak  # a program's scalars take some bytes too
    with pytest.raises(ValueError, match="device number"):
        xla_go.runtime.memory_info(99)


def test_values_that_tensors_hold() -> None:
    known = {one["storage"] for one in xla_go.debug.live_buffers()}
    x = torch.ones(5, 7).to("xla")
    y = x[1:].t()
    z = x + 1

    def new() -> list[dict]:
        return [one for one in xla_go.debug.live_buffers() if one["storage"] not in known]

    assert [(one["shape"], one["bytes"], one["device"]) for one in new()] == [("f32[5,7]", 140, 0)]
    used()
    assert [(one["shape"], one["ready"]) for one in new()] == [("f32[5,7]", True)] * 2
    del x
    assert len(new()) == 2  # y looks at it
    del y, z
    assert new() == []


TRAINING = """
    import json, torch, xla_go
    from torch import nn
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 256)).to("xla")
    optimizer = torch.optim.AdamW(model.parameters())
    batch = torch.randn(16, 256)
    for step in range(8):
        if step == 3:
            xla_go.runtime.wait_device_ops()
            xla_go.runtime.reset_peak_memory()
        optimizer.zero_grad()
        model(batch.to("xla")).square().mean().backward()
        optimizer.step()
    xla_go.runtime.wait_device_ops()
    parameters = sum(p.numel() * 4 for p in model.parameters())
    aliased = xla_go.metrics.metric_data("InputOutputAliasCount")[2][-1][1]
    tensors = sum(len(s) for s in optimizer.state.values()) + len(list(model.parameters()))
    print(json.dumps([parameters, xla_go.runtime.memory_info()["peak_bytes_used"], aliased, tensors]))
"""


def test_a_training_step_needs_little_more_than_its_state(child: Child) -> None:
    """Parameters, their gradients and two moments of each; with donation nothing of that is there twice."""
    peaks = {}
    for donation in ("1", "0"):
        done = child(TRAINING, env={"PJRT_DEVICE": "CPU", "XLA_ENABLE_PARAM_ALIASING": donation})
        parameters, peak, aliased, tensors = json.loads(done.stdout)
        peaks[donation] = peak / (4 * parameters)
        if donation == "1":
            assert aliased == tensors - 4  # the step counts are scalars of the host
    print(f"peak / (parameters + gradients + moments): {peaks['1']:.3f} with donation, {peaks['0']:.3f} without")
    assert peaks["1"] <= 1.1, peaks
    assert peaks["0"] > 1.3, peaks
