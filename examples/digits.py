"""Trains a small convolutional net on scikit-learn's digits, on device "xla" and on the CPU.

Real images (1,797 of 8x8 pixels, inside the scikit-learn package), the same seed, the same order
of batches: the losses of both runs are compared, a loss curve is drawn, and the metrics say how
many programs were compiled. Exits with status 1 where a promise is not kept.
"""

import argparse
import copy
import sys
import time

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from tqdm import tqdm

import xla_go


class DigitsNet(nn.Module):
    """Two convolutions with batch normalisation and pooling, then two linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.norm1 = nn.BatchNorm2d(16)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.norm2 = nn.BatchNorm2d(32)
        self.hidden = nn.Linear(32 * 2 * 2, 64)
        self.output = nn.Linear(64, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = F.max_pool2d(F.relu(self.norm1(self.conv1(images))), 2)
        x = F.max_pool2d(F.relu(self.norm2(self.conv2(x))), 2)
        return self.output(F.relu(self.hidden(x.flatten(1))))


def digits() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Train images, train labels, test images, test labels; images are [n, 1, 8, 8] in 0..1."""
    data = load_digits()
    images = torch.tensor(data.images, dtype=torch.float32).unsqueeze(1) / 16
    labels = torch.tensor(data.target)
    train, test = train_test_split(range(len(labels)), test_size=0.2, random_state=0, stratify=data.target)
    return images[train], labels[train], images[test], labels[test]


def train(model: nn.Module, device: str, epochs: int, batch_size: int) -> tuple[list[float], float, float]:
    """Trains model on device. Returns the loss of each step, the test accuracy, and the seconds."""
    train_images, train_labels, test_images, test_labels = digits()
    model = model.to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    order = torch.Generator().manual_seed(1)
    losses: list[float] = []
    started = time.perf_counter()
    steps = len(train_labels) // batch_size
    with tqdm(total=epochs * steps, desc=f"{device:>3}", unit="step") as progress:
        for _ in range(epochs):
            shuffled = torch.randperm(len(train_labels), generator=order)
            for batch in shuffled[: steps * batch_size].split(batch_size):
                images, labels = train_images[batch].to(device), train_labels[batch].to(device)
                optimizer.zero_grad()
                loss = F.cross_entropy(model(images), labels)
                loss.backward()
                optimizer.step()
                xla_go.sync()
                losses.append(loss.item())
                progress.update()
                progress.set_postfix(loss=f"{losses[-1]:.4f}", refresh=False)
    model.eval()
    with torch.no_grad():
        guesses = model(test_images.to(device)).argmax(1).cpu()
    accuracy = (guesses == test_labels).float().mean().item()
    return losses, accuracy, time.perf_counter() - started


def draw(path: str, runs: dict[str, list[float]]) -> None:
    """One curve per device."""
    figure, axes = plt.subplots(figsize=(7, 4))
    for (name, losses), style in zip(runs.items(), ("-", "--"), strict=True):
        axes.plot(losses, style, label=name, linewidth=1.2)
    axes.set(xlabel="step", ylabel="cross-entropy", yscale="log", title="digits: the same training on both devices")
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--picture", default="digits-loss.png")
    arguments = parser.parse_args()

    torch.manual_seed(0)
    model = DigitsNet()
    cpu_model = copy.deepcopy(model)
    xla_go.metrics.clear_all()
    xla_losses, xla_accuracy, xla_seconds = train(model, "xla", arguments.epochs, arguments.batch_size)
    programs = xla_go.debug.compiles()
    fallbacks = [name for name in xla_go.metrics.counter_names() if name.startswith("aten::")]
    cpu_losses, cpu_accuracy, cpu_seconds = train(cpu_model, "cpu", arguments.epochs, arguments.batch_size)
    draw(arguments.picture, {"xla": xla_losses, "cpu": cpu_losses})

    first = min(50, len(xla_losses))
    difference = max(abs(a - b) for a, b in zip(xla_losses[:first], cpu_losses[:first], strict=True))
    print()
    print(f"{'device':8}{'test accuracy':>15}{'last loss':>12}{'seconds':>10}")
    print(f"{'xla':8}{xla_accuracy:15.4f}{xla_losses[-1]:12.4f}{xla_seconds:10.1f}")
    print(f"{'cpu':8}{cpu_accuracy:15.4f}{cpu_losses[-1]:12.4f}{cpu_seconds:10.1f}")
    print(f"\nlargest difference of the first {first} losses: {difference:.2e}")
    from_disk = sum(program["from_disk"] for program in programs)
    print(f"programs on xla: {len(programs)}, {from_disk} of them compiled by an earlier run")
    print(f"operators that fell back to the CPU: {', '.join(fallbacks) or 'none'}")
    print(f"loss curve: {arguments.picture}\n")
    print(xla_go.metrics.short_metrics_report())

    promises = {
        "test accuracy on xla is at least 0.97": xla_accuracy >= 0.97,
        "the first 50 losses equal the CPU's to 1e-3": difference <= 1e-3,
        "at most 3 programs were needed": 0 < len(programs) <= 3,
        "no operator fell back to the CPU": not fallbacks,
    }
    for promise, kept in promises.items():
        print(f"{'ok  ' if kept else 'FAIL'} {promise}")
    return 0 if all(promises.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
