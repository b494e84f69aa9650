"""Features and models of torchaudio equal the CPU's, with nothing run there."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import nn

from xla_go import metrics

torchaudio = pytest.importorskip("torchaudio", reason="torchaudio is not installed for this torch")

from torchaudio import models, transforms  # noqa: E402

WAVE = torch.randn(2, 4000, generator=torch.Generator().manual_seed(0))

FEATURES: dict[str, Callable[[], nn.Module]] = {
    "spectrogram": lambda: transforms.Spectrogram(n_fft=256),
    "complex spectrogram and back": lambda: nn.Sequential(transforms.Spectrogram(n_fft=256, power=None), transforms.InverseSpectrogram(n_fft=256)),
    "mel in decibels": lambda: nn.Sequential(transforms.MelSpectrogram(16000, n_fft=256, n_mels=20), transforms.AmplitudeToDB()),
    "mfcc": lambda: transforms.MFCC(16000, 13, melkwargs={"n_fft": 256, "n_mels": 20}),
    "griffin-lim": lambda: nn.Sequential(transforms.Spectrogram(n_fft=256), transforms.GriffinLim(n_fft=256, n_iter=3, rand_init=False)),
    "resampled": lambda: transforms.Resample(16000, 8000),
    "mu law": lambda: nn.Sequential(transforms.MuLawEncoding(), transforms.MuLawDecoding()),
}


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.slow) if name == "griffin-lim" else name for name in FEATURES])
def test_features(name: str) -> None:
    feature = FEATURES[name]()
    expected = feature(WAVE)
    before = metrics.executed_fallback_ops()
    result = feature.to("xla")(WAVE.to("xla")).cpu()
    assert metrics.executed_fallback_ops() == before
    torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-4 * expected.abs().max().item())


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[torch.Tensor, ...]]] = {
    "DeepSpeech": (lambda: models.DeepSpeech(16, n_hidden=32, n_class=10), (torch.randn(2, 1, 20, 16),)),
    "Conformer": (lambda: models.Conformer(16, num_heads=2, ffn_dim=32, num_layers=1, depthwise_conv_kernel_size=7), (torch.randn(2, 20, 16), torch.tensor([20, 12]))),
    "Wav2Letter": (lambda: models.Wav2Letter(num_classes=10, input_type="waveform", num_features=1), (torch.randn(2, 1, 4000),)),
    "ConvTasNet": (lambda: models.ConvTasNet(2, enc_kernel_size=16, enc_num_feats=32, msk_num_feats=16, msk_num_hidden_feats=32, msk_num_layers=2, msk_num_stacks=1), (torch.randn(2, 1, 1600),)),
}  # fmt: skip


@pytest.mark.parametrize("name", ["DeepSpeech", "Conformer", *(pytest.param(name, marks=pytest.mark.slow) for name in ("Wav2Letter", "ConvTasNet"))])
def test_models(name: str) -> None:
    """Forward and every gradient, without dropout."""
    torch.manual_seed(0)
    build, inputs = MODELS[name]
    model = build().eval()
    other = copy.deepcopy(model).to("xla")
    weights: torch.Tensor | None = None
    results = []
    before = metrics.executed_fallback_ops()
    for module, device in ((model, "cpu"), (other, "xla")):
        found = module(*(value.to(device) for value in inputs))
        y = found[0] if isinstance(found, tuple) else found
        weights = torch.randn(y.shape) if weights is None else weights
        (y * weights.to(device)).sum().backward()
        results.append(y)
    assert metrics.executed_fallback_ops() == before
    torch.testing.assert_close(results[1].cpu(), results[0], rtol=1e-4, atol=1e-4)
    for (key, wanted), found in zip(model.named_parameters(), other.parameters(), strict=True):
        assert (wanted.grad is None) == (found.grad is None), key
        if wanted.grad is not None and found.grad is not None:
            torch.testing.assert_close(found.grad.cpu(), wanted.grad, rtol=1e-3, atol=1e-4 * max(1.0, wanted.grad.abs().max().item()), msg=lambda text, key=key: f"{key}: {text}")
