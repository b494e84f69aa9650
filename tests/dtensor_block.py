"""A Llama-style feed-forward block trained on device xla, distributed by torch.distributed.tensor in several ways.

    python dtensor_block.py one|parallelize|sequence|fully_shard|replicate_and_shard|both DIRECTORY

prints the losses of 12 steps, the opcodes that the last program of the training step has after XLA's passes (written to
DIRECTORY), how two weights and a moment of one lie, and how many programs were compiled after step 3, as JSON.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

os.environ["XLA_GO_DUMP_DIRECTORY"] = sys.argv[2]

import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)

import xla_go
from xla_go import metrics, runtime, spmd

WIDTH, HIDDEN, TOKENS, BATCH, LAYERS = 32, 64, 8, 16, 2


class FeedForward(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate, self.up = (nn.Linear(WIDTH, HIDDEN, bias=False) for _ in range(2))
        self.down = nn.Linear(HIDDEN, WIDTH, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(nn.functional.silu(self.gate(x)) * self.up(x))


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.feed = nn.RMSNorm(WIDTH), FeedForward()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.feed(self.norm(x))


def distribute(model: nn.Sequential, way: str) -> nn.Sequential:
    devices = runtime.global_runtime_device_count()
    if way in ("parallelize", "sequence"):
        mesh = init_device_mesh("xla", (devices,))
    else:
        mesh = init_device_mesh("xla", (devices // 2, 2), mesh_dim_names=("data", "model"))
    if way in ("parallelize", "both"):
        plan = {"feed.gate": ColwiseParallel(), "feed.up": ColwiseParallel(), "feed.down": RowwiseParallel()}
        for layer in model:
            parallelize_module(layer, mesh if way == "parallelize" else mesh["model"], plan)
    elif way == "sequence":
        plan = {
            "norm": SequenceParallel(), "feed": PrepareModuleInput(input_layouts=Shard(1), desired_input_layouts=Replicate()),
            "feed.gate": ColwiseParallel(), "feed.up": ColwiseParallel(), "feed.down": RowwiseParallel(output_layouts=Shard(1)),
        }  # fmt: skip
        for layer in model:
            parallelize_module(layer, mesh, plan)
    if way in ("fully_shard", "both"):
        for layer in model:
            spmd.fully_shard(layer, mesh=mesh["data"] if way == "both" else mesh["data", "model"]._flatten("all"))
        spmd.fully_shard(model, mesh=mesh["data"] if way == "both" else mesh["all"])
    elif way == "replicate_and_shard":
        spmd.fully_shard(model, mesh=mesh)
    return model


def main() -> None:
    way, directory = sys.argv[1], Path(sys.argv[2])
    torch.manual_seed(0)
    model = nn.Sequential(*(Layer() for _ in range(LAYERS)))
    if way != "one":
        runtime.use_spmd()
    if not way.endswith("shard"):  # fully_shard moves modules
        model.to("xla")
    if way != "one":
        distribute(model, way)
    assert all(type(parameter) is nn.Parameter for parameter in model.parameters())
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    inputs, targets = torch.randn(3, BATCH, TOKENS, WIDTH), torch.randn(3, BATCH, TOKENS, WIDTH)
    batch_mesh = None if way in ("one", "parallelize", "sequence") else init_device_mesh("xla", (runtime.global_runtime_device_count(),))
    losses, early = [], 0
    for step in range(12):
        x, y = inputs[step % 3].to("xla"), targets[step % 3].to("xla")
        if batch_mesh is not None:
            x, y = (distribute_tensor(t, batch_mesh, [Shard(0)]).to_local() for t in (x, y))
        optimizer.zero_grad()
        loss = (model(x) - y).square().mean()
        loss.backward()
        optimizer.step()
        xla_go.sync()
        losses.append(loss.item())
        if step == 2:
            early = metrics.counter_value("UncachedCompile")
    feed = model[0].feed
    weights = [feed.gate.weight, feed.down.weight, optimizer.state[feed.down.weight]["exp_avg"]]
    assert all(type(parameter.grad) is torch.Tensor for parameter in model.parameters())
    programs = sorted(directory.glob("step_*.opcodes.json"))
    print(
        json.dumps(
            {
                "losses": losses, "late_compiles": metrics.counter_value("UncachedCompile") - early,
                "opcodes": json.loads(programs[-1].read_text()), "shardings": [spmd.XLAShardedTensor(weight.detach()).sharding_spec for weight in weights],
            }
        )
    )  # fmt: skip


main()
