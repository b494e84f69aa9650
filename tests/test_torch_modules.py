"""torch's own recurrent, attention and convolutional modules on device xla equal CPU torch, in eval and in train mode."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from model_comparison import compare_forward, compare_training, pair, to

LENGTH, BATCH, WIDTH = 6, 3, 16


def randn(*sizes: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(seed))


def sequences(seed: int = 1) -> torch.Tensor:
    return randn(BATCH, LENGTH, WIDTH, seed=seed)


def padding() -> torch.Tensor:
    """True where a sequence has ended."""
    return torch.arange(LENGTH) >= torch.tensor([[6], [4], [5]])


class First(nn.Module):
    """What a module that gives several things gives first, for each time."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, *args: torch.Tensor, **kwargs: torch.Tensor) -> torch.Tensor:
        return self.module(*args, **kwargs)[0]


class LastState(nn.Module):
    """The last hidden and cell states of a recurrent module over packed sequences."""

    def __init__(self) -> None:
        super().__init__()
        self.recurrent = nn.LSTM(WIDTH, 8, batch_first=True, bidirectional=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        packed = nn.utils.rnn.pack_padded_sequence(x, torch.tensor([6, 4, 5]), batch_first=True, enforce_sorted=False)
        y, states = self.recurrent(packed)
        padded, _ = nn.utils.rnn.pad_packed_sequence(y, batch_first=True)
        return torch.cat([padded.flatten(), *(s.flatten() for s in states)])


def causal() -> torch.Tensor:
    return nn.Transformer.generate_square_subsequent_mask(LENGTH)


def encoder_layer(**options: object) -> nn.Module:
    return nn.TransformerEncoderLayer(WIDTH, 4, 24, dropout=0.0, batch_first=True, **options)


def decoder() -> nn.Module:
    return nn.TransformerDecoder(nn.TransformerDecoderLayer(WIDTH, 4, 24, dropout=0.0, batch_first=True, norm_first=True), 2)


def convolutional() -> nn.Module:
    return nn.Sequential(
        nn.Conv3d(2, 6, 3, padding=1, bias=False), nn.BatchNorm3d(6), nn.SiLU(), nn.ConvTranspose3d(6, 4, 2, stride=2), nn.GroupNorm(2, 4),
        nn.GELU(), nn.AvgPool3d(2), nn.InstanceNorm3d(4, affine=True, track_running_stats=True), nn.Upsample(scale_factor=2, mode="trilinear"), nn.Flatten(),
    )  # fmt: skip


Given = tuple[tuple[torch.Tensor, ...], dict[str, torch.Tensor]]

MODULES: dict[str, tuple[Callable[[], nn.Module], Callable[[], Given]]] = {
    "rnn": (lambda: First(nn.RNN(WIDTH, 8, num_layers=2, nonlinearity="tanh")), lambda: ((sequences(),), {})),
    "gru": (lambda: First(nn.GRU(WIDTH, 8, num_layers=2, bidirectional=True, batch_first=True)), lambda: ((sequences(),), {})),
    "lstm with projections": (lambda: First(nn.LSTM(WIDTH, 8, proj_size=5, batch_first=True)), lambda: ((sequences(),), {})),
    "packed lstm": (LastState, lambda: ((sequences(),), {})),
    "attention": (
        lambda: First(nn.MultiheadAttention(WIDTH, 4, batch_first=True, kdim=WIDTH, vdim=WIDTH, add_bias_kv=True)),
        lambda: ((sequences(), sequences(2), sequences(2)), {"key_padding_mask": padding()}),
    ),
    "encoder": (
        lambda: nn.TransformerEncoder(encoder_layer(activation="gelu"), 2, enable_nested_tensor=False),
        lambda: ((sequences(),), {"src_key_padding_mask": padding()}),
    ),
    "decoder": (decoder, lambda: ((sequences(), sequences(2)), {"tgt_mask": causal(), "memory_key_padding_mask": padding()})),
    "transformer": (
        lambda: nn.Transformer(WIDTH, 4, 1, 1, 24, dropout=0.0, batch_first=True),
        lambda: ((sequences(), sequences(2)), {"tgt_mask": causal()}),
    ),
    "convolutional": (convolutional, lambda: ((randn(2, 2, 4, 6, 8),), {})),
}

# torch itself reads from the device: the order of the sequences, to unpack them; whether a mask is the causal one.
PROGRAMS = {"packed lstm": 2, "decoder": 2, "transformer": 2}


@pytest.mark.parametrize("name", MODULES)
def test_forward_equals_cpu(name: str) -> None:
    build, data = MODULES[name]
    cpu, xla = pair(build)
    args, kwargs = data()
    compare_forward(cpu, xla, lambda model, device: model(*to(args, device), **to(kwargs, device)), programs=PROGRAMS.get(name, 1))


@pytest.mark.parametrize("name", MODULES)
def test_training_step_equals_cpu(name: str) -> None:
    build, data = MODULES[name]
    cpu, xla = pair(build)
    args, kwargs = data()

    def call(model: nn.Module, device: str) -> tuple[torch.Tensor, torch.Tensor]:
        y = model(*to(args, device), **to(kwargs, device))
        return y, (y * randn(*y.shape, seed=9).to(device)).mean() + y.pow(2).mean()

    compare_training(cpu, xla, call, programs=PROGRAMS.get(name, 1))
