"""The models of the training and decoding benchmarks, small enough for a step of some milliseconds to some hundreds on a CPU.

torch only: they run in each implementation's own environment.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import nn


class Attention(nn.Module):
    """Multi-head attention over (batch, length, width), written out, as users' own models have it."""

    def __init__(self, width: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        scores = (q @ k.transpose(-1, -2)) / math.sqrt(width // self.heads)
        if self.causal:
            mask = torch.ones(length, length, dtype=torch.bool, device=x.device).tril()
            scores = scores.masked_fill(~mask, -math.inf)
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(x.shape))


class Block(nn.Module):
    """A transformer's layer, with the norms first."""

    def __init__(self, width: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads, causal)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    """Tokens (batch, length) to logits (batch, length, vocabulary); weights are tied."""

    def __init__(self, vocabulary: int, length: int, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Parameter(torch.randn(length, width) * 0.02)
        self.blocks, self.norm = nn.ModuleList(Block(width, heads, causal=True) for _ in range(layers)), nn.LayerNorm(width)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.tokens(tokens) + self.positions
        for block in self.blocks:
            x = block(x)
        return self.norm(x) @ self.tokens.weight.t()


class ViT(nn.Module):
    """Images (batch, 3, 32, 32) to ten classes, in patches of 4 x 4."""

    def __init__(self, width: int = 96, heads: int = 4, layers: int = 4) -> None:
        super().__init__()
        self.patches, self.positions = nn.Conv2d(3, width, 4, 4), nn.Parameter(torch.randn(64, width) * 0.02)
        self.blocks = nn.Sequential(*(Block(width, heads, causal=False) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = self.patches(images).flatten(2).transpose(1, 2) + self.positions
        return self.head(self.norm(self.blocks(x)).mean(1))


class Residual(nn.Module):
    """Two 3 x 3 convolutions beside a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs),
        )  # fmt: skip
        self.shortcut = nn.Identity() if (inputs, stride) == (outputs, 1) else nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.body(x) + self.shortcut(x))


def resnet() -> nn.Module:
    """ResNet-18 with a quarter of its channels, for images of 32 x 32."""
    layers: list[nn.Module] = [nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    channels = 16
    for outputs, stride in ((16, 1), (32, 2), (64, 2), (128, 2)):
        layers += [Residual(channels, outputs, stride), Residual(outputs, outputs, 1)]
        channels = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 10))


class LSTM(nn.Module):
    """Sequences (batch, length, 32) to ten classes."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(32, 64, 2, batch_first=True), nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.lstm(x)[0][:, -1])


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


class Training(NamedTuple):
    """What a training benchmark needs: a model, its input and target on the CPU, and an optimizer."""

    model: nn.Module
    input: torch.Tensor
    target: torch.Tensor
    optimizer: Callable[[nn.Module], torch.optim.Optimizer]


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


def adamw(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=1e-3)


def gpt(layers: int, width: int, length: int, batch: int, vocabulary: int = 96) -> Training:
    tokens = torch.randint(vocabulary, (batch, length + 1))
    return Training(GPT(vocabulary, length, width, 4, layers), tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous(), adamw)


def classes(batch: int) -> torch.Tensor:
    return torch.randint(10, (batch,))


TRAININGS: dict[str, Callable[[], Training]] = {
    "MLP": lambda: Training(mlp(), torch.randn(32, 20), classes(32), lambda m: torch.optim.SGD(m.parameters(), lr=0.05)),
    "ResNet": lambda: Training(resnet(), torch.randn(16, 3, 32, 32), classes(16), sgd),
    "GPT": lambda: gpt(layers=4, width=128, length=64, batch=16),
    # The same operators on so little data that a step is what the host needs for it.
    "tiny GPT": lambda: gpt(layers=4, width=16, length=8, batch=1),
    # Those that tests/golden has in JAX as well.
    "golden MLP": lambda: TRAININGS["MLP"](),
    "golden GPT": lambda: gpt(layers=2, width=64, length=32, batch=8, vocabulary=64),
    "LSTM": lambda: Training(LSTM(), torch.randn(16, 24, 32), classes(16), adamw),
    "ViT": lambda: Training(ViT(), torch.randn(16, 3, 32, 32), classes(16), adamw),
}


class Decoder(nn.Module):
    """One step of a language model with a static cache: a token (batch, 1) and its position, to logits."""

    def __init__(self, vocabulary: int = 256, length: int = 128, width: int = 128, heads: int = 4, layers: int = 4, batch: int = 1) -> None:
        super().__init__()
        self.heads, self.width = heads, width
        self.tokens, self.norm = nn.Embedding(vocabulary, width), nn.RMSNorm(width)
        self.layers = nn.ModuleList(
            nn.ModuleDict({"norm1": nn.RMSNorm(width), "qkv": nn.Linear(width, 3 * width, False), "out": nn.Linear(width, width, False),
                           "norm2": nn.RMSNorm(width), "gate": nn.Linear(width, 4 * width, False), "up": nn.Linear(width, 4 * width, False), "down": nn.Linear(4 * width, width, False)})
            for _ in range(layers)
        )  # fmt: skip
        self.register_buffer("cache", torch.zeros(layers, 2, batch, heads, length, width // heads))
        self.register_buffer("places", torch.arange(length))

    def forward(self, token: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        x = self.tokens(token)
        seen = self.places <= position
        for number, layer in enumerate(self.layers):
            q, k, v = layer["qkv"](layer["norm1"](x)).view(x.shape[0], 1, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
            self.cache[number, 0].index_copy_(2, position, k)
            self.cache[number, 1].index_copy_(2, position, v)
            keys, values = self.cache[number].unbind(0)
            scores = (q @ keys.transpose(-1, -2)) / math.sqrt(self.width // self.heads)
            x = x + layer["out"]((scores.masked_fill(~seen, -math.inf).softmax(-1) @ values).transpose(1, 2).reshape(x.shape))
            h = layer["norm2"](x)
            x = x + layer["down"](F.silu(layer["gate"](h)) * layer["up"](h))
        return self.norm(x) @ self.tokens.weight.t()
