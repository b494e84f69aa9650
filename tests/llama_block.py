"""A Llama-style block trained on device xla, with its weights laid over the devices in several ways.

    python llama_block.py one|fsdp|tensor|both DIRECTORY

prints the losses of 20 steps and what XLA's programs hold, as JSON: the opcodes that the last program of the training
step has after XLA's passes (written to DIRECTORY), and how many programs were compiled after step 3.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

os.environ["XLA_GO_DUMP_DIRECTORY"] = sys.argv[2]

import torch
from torch import nn

import xla_go
from xla_go import metrics, runtime, spmd

WIDTH, HEADS, HIDDEN, TOKENS, BATCH, VOCABULARY = 32, 8, 64, 8, 16, 64


class Block(nn.Module):
    """Attention and a gated feed-forward layer, each behind an RMS norm, between an embedding and its head."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.norms = nn.ModuleList(nn.RMSNorm(WIDTH) for _ in range(3))
        self.query, self.key, self.value, self.output = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
        self.gate, self.up = (nn.Linear(WIDTH, HIDDEN, bias=False) for _ in range(2))
        self.down = nn.Linear(HIDDEN, WIDTH, bias=False)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def attention(self, x: torch.Tensor) -> torch.Tensor:
        shape = (x.shape[0], TOKENS, HEADS, WIDTH // HEADS)
        query, key, value = (layer(x).view(shape).transpose(1, 2) for layer in (self.query, self.key, self.value))
        position = torch.arange(TOKENS, device=x.device, dtype=x.dtype)[:, None]
        half = shape[-1] // 2
        angle = position * (0.1 ** torch.arange(half, device=x.device, dtype=x.dtype))
        cos, sin = torch.cos(angle), torch.sin(angle)

        def rotate(t: torch.Tensor) -> torch.Tensor:
            a, b = t[..., :half], t[..., half:]
            return torch.cat((a * cos - b * sin, a * sin + b * cos), -1)

        scores = rotate(query) @ rotate(key).transpose(-1, -2) / shape[-1] ** 0.5
        mask = torch.ones(TOKENS, TOKENS, dtype=torch.bool, device=x.device).triu(1)
        mixed = scores.masked_fill(mask, float("-inf")).softmax(-1) @ value
        return self.output(mixed.transpose(1, 2).reshape(x.shape))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        x = x + self.attention(self.norms[0](x))
        y = self.norms[1](x)
        x = x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        return self.head(self.norms[2](x))


def lay_out(model: Block, way: str) -> spmd.ShardingSpec | None:
    """Marks the weights; gives how batches are to lie."""
    if way == "one":
        return None
    devices = runtime.global_runtime_device_count()
    model_axis = {"fsdp": 1, "tensor": devices, "both": 2}[way]
    mesh = spmd.Mesh(range(devices), (devices // model_axis, model_axis), ("fsdp", "model"))
    split_out = [model.query, model.key, model.value, model.gate, model.up, model.embedding, model.head]
    for layer in split_out:
        spmd.mark_sharding(layer.weight, mesh, {"fsdp": ("fsdp", None), "tensor": ("model", None), "both": ("model", "fsdp")}[way])
    for layer in (model.output, model.down):
        spmd.mark_sharding(layer.weight, mesh, {"fsdp": ("fsdp", None), "tensor": (None, "model"), "both": ("fsdp", "model")}[way])
    return spmd.ShardingSpec(mesh, ("fsdp", None) if way != "tensor" else (None, None))


def main() -> None:
    way, directory = sys.argv[1], Path(sys.argv[2])
    if way != "one":
        runtime.use_spmd()
    torch.manual_seed(0)
    model = Block().to("xla")
    batches = lay_out(model, way)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    generator = torch.Generator().manual_seed(1)
    texts = torch.randint(VOCABULARY, (3, BATCH, TOKENS + 1), generator=generator)
    losses, early = [], 0
    for step in range(20):
        host = texts[step % len(texts)]
        tokens, targets = host[:, :-1].contiguous().to("xla"), host[:, 1:].contiguous().to("xla")
        if batches is not None:
            batches.apply(tokens)
            batches.apply(targets)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())
        loss.backward()
        optimizer.step()
        xla_go.sync()
        losses.append(loss.item())
        if step == 2:
            early = metrics.counter_value("UncachedCompile")
    weights = [model.query.weight, model.down.weight, optimizer.state[model.query.weight]["exp_avg"]]
    programs = sorted(directory.glob("step_*.opcodes.json"))
    print(
        json.dumps(
            {
                "losses": losses, "late_compiles": metrics.counter_value("UncachedCompile") - early,
                "opcodes": json.loads(programs[-1].read_text()), "replicated": metrics.counter_value("ExecuteReplicated") or 0,
                "shardings": [spmd.XLAShardedTensor(weight.detach()).sharding_spec for weight in weights],
            }
        )
    )  # fmt: skip


main()
