"""Language, vision and speech models of transformers, small and with random weights, on device xla equal CPU torch:
forward, loss, every gradient, and greedy generation."""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterable
from typing import Any

import pytest
import torch
from torch import nn

from model_comparison import compare_forward, compare_training, on_the_device, pair, to

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


def mistral(window: int = 4) -> nn.Module:
    return transformers.MistralForCausalLM(transformers.MistralConfig(**DECODER, sliding_window=window))


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


def but_slow(names: Iterable[str], slow: Container[str]) -> list[Any]:
    """Parameters of a test, some of which are marked slow."""
    return [pytest.param(name, marks=pytest.mark.slow) if name in slow else name for name in names]


# Made of the layers of llama; what differs shows in the forward pass. Trained, and generated from, in `make test-full` only.
ALIKE = ("mistral", "qwen2", "qwen3")

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


@pytest.mark.parametrize("name", but_slow(MODELS, ALIKE))
def test_training_step_equals_cpu(name: str) -> None:
    build, data = MODELS[name]
    cpu, xla = pair(build)

    def call(model: nn.Module, device: str) -> tuple[torch.Tensor, torch.Tensor]:
        y = model(**to(data(), device))
        return y.logits, y.loss

    compare_training(cpu, xla, call, programs=PROGRAMS)


# ---- generation ----


GENERATING: dict[str, tuple[Callable[[], nn.Module], Callable[[], Inputs]]] = {
    "gpt2": (gpt2, text),
    "llama": (llama, text),
    "mistral": (mistral, text),
    "mistral, whose window fills up later": (lambda: mistral(11), text),
    "qwen2": (qwen2, text),
    "qwen3": (qwen3, text),
    "t5": (t5, lambda: {"input_ids": tokens()}),
    "t5, padded": (t5, text),
    "whisper": (whisper, lambda: {"input_features": sound()["input_features"], "decoder_input_ids": torch.ones(BATCH, 1, dtype=torch.long)}),
}
# The prompt and a token; and a window that becomes full. Where its inputs are padded, t5 looks at the mask of the encoder's
# before it builds masks, first with the prompt, then with a token: a small program for each look, and one for the encoder,
# which the second look of the prompt cuts off from the decoder.
MOST = {name: 5 if name == "t5, padded" else 3 for name in GENERATING}
STATIC = {"max_new_tokens": 10, "do_sample": False, "cache_implementation": "static"}


def generating(build: Callable[[], nn.Module]) -> tuple[nn.Module, nn.Module]:
    """The models with larger weights: those of a model before its training say the same word again and again."""

    def enlarged() -> nn.Module:
        model = build().eval()
        with torch.no_grad():
            for p in model.parameters():
                if p.dim() > 1:
                    p.normal_(std=0.3)
        return model

    return pair(enlarged)


@pytest.mark.parametrize("name", but_slow(GENERATING, ALIKE))
def test_generation_compiles_the_prompt_and_one_step(name: str) -> None:
    """The tokens, which become more, are kept on the CPU; `generate` moves to the model's device what the model takes."""
    build, data = GENERATING[name]
    cpu, xla = generating(build)
    if xla.config.is_encoder_decoder:  # its encoder alone is called with what the user gave
        xla.get_encoder().register_forward_pre_hook(lambda module, args, kwargs: (to(args, "xla"), to(kwargs, "xla")), with_kwargs=True)
    expected = cpu.generate(**data(), **STATIC)
    assert len(expected[:, -10:].unique()) > 3, "expected different tokens"
    with on_the_device(MOST[name]):
        actual = xla.generate(**data(), **STATIC)
    assert torch.equal(actual, expected)
    with on_the_device(0):
        again = xla.generate(**data(), **STATIC)
    assert torch.equal(again, expected)


def test_generation_from_tokens_on_the_device_equals_cpu() -> None:
    """Each length of the tokens is a program there, but only once."""
    cpu, xla = generating(llama)
    options = {**STATIC, "max_new_tokens": 3}
    expected = cpu.generate(**text(), **options)
    # Two looks at the special tokens, two at the mask, one at the logits' processors, one where the mask is made; one for
    # the prompt and one for each token.
    with on_the_device(6 + 1 + 3):
        actual = xla.generate(**to(text(), "xla"), **options)
    assert actual.device.type == "xla"
    assert torch.equal(actual.cpu(), expected)
    with on_the_device(0):
        assert torch.equal(xla.generate(**to(text(), "xla"), **options).cpu(), expected)
