"""Language, vision and speech models of transformers, small and with random weights, on device xla equal CPU torch:
forward, loss, every gradient, and greedy generation."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
import torch
from torch import nn

from model_comparison import compare_forward, compare_training, pair, to

os.environ.setdefault("HF_HUB_OFFLINE", "1")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")

Inputs = dict[str, torch.Tensor]

VOCABULARY, LENGTH, BATCH = 61, 7, 2


def tokens(length: int = LENGTH, seed: int = 1) -> torch.Tensor:
    return torch.randint(3, VOCABULARY, (BATCH, length), generator=torch.Generator().manual_seed(seed))


def text() -> Inputs:
    """Token numbers, the second text padded at its left."""
    mask = torch.ones(BATCH, LENGTH, dtype=torch.long)
    mask[1, :2] = 0
    return {"input_ids": tokens(), "attention_mask": mask}


def causal() -> Inputs:
    return {**text(), "labels": tokens()}


DECODER = {
    "vocab_size": VOCABULARY, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 64, "attention_dropout": 0.0, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip


def bert() -> nn.Module:
    config = transformers.BertConfig(
        vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, max_position_embeddings=32
    )
    return transformers.BertForMaskedLM(config)


def gpt2() -> nn.Module:
    config = transformers.GPT2Config(vocab_size=VOCABULARY, n_positions=64, n_embd=32, n_layer=2, n_head=4, bos_token_id=1, eos_token_id=2, pad_token_id=0)
    return transformers.GPT2LMHeadModel(config)


def llama() -> nn.Module:
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**DECODER))


def mistral() -> nn.Module:
    return transformers.MistralForCausalLM(transformers.MistralConfig(**DECODER, sliding_window=4))


def qwen2() -> nn.Module:
    return transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**DECODER))


def qwen3() -> nn.Module:
    return transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**DECODER, head_dim=8))


def t5() -> nn.Module:
    config = transformers.T5Config(
        vocab_size=VOCABULARY, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, dropout_rate=0.0, decoder_start_token_id=0
    )
    return transformers.T5ForConditionalGeneration(config)


def vit() -> nn.Module:
    config = transformers.ViTConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, image_size=32, patch_size=8, num_labels=5
    )
    return transformers.ViTForImageClassification(config)


def whisper() -> nn.Module:
    config = transformers.WhisperConfig(
        vocab_size=VOCABULARY, num_mel_bins=8, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
        encoder_ffn_dim=48, decoder_ffn_dim=48, max_source_positions=16, max_target_positions=32, dropout=0.0,
        pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1, suppress_tokens=None, begin_suppress_tokens=None,
    )  # fmt: skip
    return transformers.WhisperForConditionalGeneration(config)


def image() -> Inputs:
    generator = torch.Generator().manual_seed(3)
    return {"pixel_values": torch.randn(BATCH, 3, 32, 32, generator=generator), "labels": torch.tensor([1, 4])}


def sound() -> Inputs:
    return {"input_features": torch.randn(BATCH, 8, 32, generator=torch.Generator().manual_seed(4)), "labels": tokens(5)}


MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[], Inputs]]] = {
    "bert": (bert, causal),
    "gpt2": (gpt2, causal),
    "llama": (llama, causal),
    "mistral": (mistral, causal),
    "qwen2": (qwen2, causal),
    "qwen3": (qwen3, causal),
    "t5": (t5, lambda: {**text(), "labels": tokens(5, seed=2)}),
    "vit": (vit, image),
    "whisper": (whisper, sound),
}


# transformers looks at the attention mask (`mask.all()`) to leave it out where nothing is padded, and t5 and gpt2 make
# masks of two kinds: each look is a small program before that of the model.
PROGRAMS = 3


@pytest.mark.parametrize("name", MODELS)
def test_forward_equals_cpu(name: str) -> None:
    build, data = MODELS[name]
    cpu, xla = pair(build)
    compare_forward(cpu, xla, lambda model, device: model(**to(data(), device)).logits, programs=PROGRAMS)


@pytest.mark.parametrize("name", MODELS)
def test_training_step_equals_cpu(name: str) -> None:
    build, data = MODELS[name]
    cpu, xla = pair(build)

    def call(model: nn.Module, device: str) -> tuple[torch.Tensor, torch.Tensor]:
        y = model(**to(data(), device))
        return y.logits, y.loss

    compare_training(cpu, xla, call, programs=PROGRAMS)
