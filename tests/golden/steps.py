"""The training steps whose optimized HLO is compared with JAX's: an MLP with SGD and a GPT with AdamW.

Usage: steps.py mlp|gpt, with XLA_GO_DUMP_DIRECTORY set. The last program written is the steady step.
"""

import math
import sys

import torch
import torch.nn.functional as F
from torch import nn

import xla_go

VOCABULARY, CONTEXT, WIDTH, HEADS, LAYERS, BATCH = 64, 32, 64, 4, 2, 8


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.register_buffer("mask", torch.ones(CONTEXT, CONTEXT, dtype=torch.bool).tril(), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.norm1(x)).view(BATCH, CONTEXT, 3, HEADS, -1).permute(2, 0, 3, 1, 4).unbind(0)
        scores = (q @ k.transpose(-1, -2)) / math.sqrt(WIDTH // HEADS)
        y = scores.masked_fill(~self.mask, -math.inf).softmax(-1) @ v
        x = x + self.out(y.transpose(1, 2).reshape(x.shape))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Parameter(torch.randn(CONTEXT, WIDTH))
        self.layers, self.norm = nn.ModuleList(Layer() for _ in range(LAYERS)), nn.LayerNorm(WIDTH)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.tokens(tokens) + self.positions
        for layer in self.layers:
            x = layer(x)
        return self.norm(x) @ self.tokens.weight.t()


def main(name: str) -> None:
    torch.manual_seed(0)
    if name == "mlp":
        model: nn.Module = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)).to("xla")
        optimizer: torch.optim.Optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        x, target = torch.randn(32, 20).to("xla"), torch.randint(10, (32,)).to("xla")
    else:
        model = GPT().to("xla")
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        x, target = (torch.randint(VOCABULARY, (BATCH, CONTEXT)).to("xla") for _ in range(2))
    for _ in range(3):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x).flatten(0, -2), target.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()  # gradients are no results of the step, as in JAX
        loss = loss.detach()
        xla_go.sync(wait=True)
    assert math.isfinite(loss.item())


if __name__ == "__main__":
    main(sys.argv[1])
