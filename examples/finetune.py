"""Fine-tunes a small BERT with transformers' Trainer, on device "xla" and on the CPU.

Nothing is downloaded: the model has random weights, and the texts are rows of token numbers, whose class is which half of
a row holds more of the large ones. The training is the same code for both devices but for the device's name. The losses
of both runs are compared, and the metrics say how many programs were compiled. Exits with status 1 where a promise is
not kept.
"""

import argparse
import contextlib
import os
import sys
import tempfile

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
import transformers
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainerCallback, TrainingArguments

import xla_go

VOCABULARY, LENGTH = 64, 16


class Halves(torch.utils.data.Dataset):
    """Rows of LENGTH token numbers; class 1 where the first half holds more large ones than the second."""

    def __init__(self, count: int) -> None:
        self.tokens = torch.randint(3, VOCABULARY, (count, LENGTH), generator=torch.Generator().manual_seed(1))
        large = (self.tokens >= VOCABULARY // 2).long()
        first, second = large[:, : LENGTH // 2].sum(1), large[:, LENGTH // 2 :].sum(1)
        self.labels = (first > second).long()

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"input_ids": self.tokens[index], "labels": self.labels[index]}


class Watch(TrainerCallback):
    """Within the steps after `warm` nothing may compile, run on the CPU or end the graph early: it raises there."""

    def __init__(self, warm: int) -> None:
        self.warm = warm
        self.strict = contextlib.ExitStack()
        self.watched = 0

    def on_step_begin(self, args, state, control, **keywords):
        if state.global_step >= self.warm:
            self.strict.enter_context(xla_go.strict())

    def on_step_end(self, args, state, control, **keywords):
        self.watched += state.global_step > self.warm
        self.strict.close()


def train(device: str, layers: int, epochs: int, callbacks: list[TrainerCallback]) -> list[float]:
    """The losses that the trainer logs. All that depends on the device is the variable with its name."""
    os.environ["ACCELERATE_TORCH_DEVICE"] = device
    transformers.set_seed(0)
    config = BertConfig(
        vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=layers, num_attention_heads=4, intermediate_size=64,
        max_position_embeddings=LENGTH, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, num_labels=2,
    )  # fmt: skip
    model = BertForSequenceClassification(config)
    with tempfile.TemporaryDirectory() as directory:
        arguments = TrainingArguments(
            output_dir=directory, num_train_epochs=epochs, per_device_train_batch_size=32, learning_rate=3e-3,
            logging_steps=LOGGING, save_strategy="no", report_to=[], dataloader_pin_memory=False,
            logging_nan_inf_filter=False,  # it would look at the loss in every step
        )  # fmt: skip
        trainer = Trainer(model=model, args=arguments, train_dataset=Halves(512), callbacks=callbacks)
        assert trainer.model.device.type == device, trainer.model.device
        trainer.train()
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


LOGGING = 8


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=4)
    arguments = parser.parse_args()

    # Two kinds of steps: those after a log begin with the loss's sum at zero.
    watch = Watch(warm=LOGGING + 1)
    xla_losses = train("xla", arguments.layers, arguments.epochs, [watch])
    programs = [program for program in xla_go.debug.compiles() if program["nodes"] > 100]
    fallbacks = xla_go.metrics.executed_fallback_ops()
    cpu_losses = train("cpu", arguments.layers, arguments.epochs, [])

    print(f"\n{'steps':>8}{'xla':>12}{'cpu':>12}")
    for i, (x, c) in enumerate(zip(xla_losses, cpu_losses, strict=True), 1):
        print(f"{i * LOGGING:8}{x:12.6f}{c:12.6f}")
    difference = max(abs(x - c) for x, c in zip(xla_losses, cpu_losses, strict=True))
    print(f"\nlargest difference: {difference:.2e}")
    print(f"programs of a step: {len(programs)}; steps that were watched: {watch.watched}")
    promises = {
        "the loss falls": xla_losses[-1] < 0.9 * xla_losses[0],
        "the losses equal the CPU's to 2e-3": difference <= 2e-3,
        "at most 3 programs of a step": 0 < len(programs) <= 3,
        "no step after the warm-up compiled, fell back or was cut": watch.watched > LOGGING,
        "no operator fell back to the CPU": not fallbacks,
    }
    for promise, kept in promises.items():
        print(f"{'ok  ' if kept else 'FAIL'} {promise}")
    return 0 if all(promises.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
