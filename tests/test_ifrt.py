"""XLA_USE_IFRT: the same programs over values in IFRT's model."""

from __future__ import annotations

import json

import pytest

from support import Child

pytestmark = pytest.mark.once

TRAIN = """
    import json, torch, xla_go
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1)).to("xla")
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    x = torch.randn(32, 8)
    y = x.sum(1, keepdim=True).to("xla")
    x = x.to("xla")
    losses = []
    for step in range(20):
        optimizer.zero_grad()
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        xla_go.sync()
        losses.append(loss.item())
    print(json.dumps(losses))
"""


@pytest.mark.parametrize("devices", ["1", pytest.param("4", marks=pytest.mark.slow)])
def test_training_is_the_same(child: Child, devices: str) -> None:
    losses = [json.loads(child(TRAIN, env={"CPU_NUM_DEVICES": devices, "XLA_USE_IFRT": value}).stdout.splitlines()[-1]) for value in ("0", "1")]
    assert losses[0] == losses[1]
    assert len(losses[0]) == 20 and losses[0][-1] < losses[0][0]
