"""Real models on device xla equal CPU torch: forward, every gradient, ten steps of each optimizer,
and no operator leaves the device."""

import copy
import math
from collections.abc import Callable, Iterator

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import xla_go

RTOL, ATOL = 1e-4, 2e-6
STEPS = 10


class ResidualNet(nn.Module):
    """A small ResNet: strided blocks with BatchNorm, max pooling and average pooling."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(2))
        self.conv1, self.norm1 = nn.Conv2d(8, 16, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(16)
        self.conv2, self.norm2 = nn.Conv2d(16, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16)
        self.short = nn.Sequential(nn.Conv2d(8, 16, 1, stride=2, bias=False), nn.BatchNorm2d(16))
        self.head = nn.Linear(16, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        y = self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x)))))
        x = F.relu(y + self.short(x))
        return self.head(F.adaptive_avg_pool2d(x, 1).flatten(1))


class Attention(nn.Module):
    """Causal attention through scaled_dot_product_attention."""

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.qkv, self.out, self.dropout = nn.Linear(16, 48), nn.Linear(16, 16), dropout

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).view(*x.shape[:2], 3, 4, 4).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=self.dropout if self.training else 0.0)
        return self.out(y.transpose(1, 2).reshape(x.shape))


class Recurrent(nn.Module):
    """A two-layer LSTM and a linear head on its last step."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(8, 12, num_layers=2, batch_first=True), nn.Linear(12, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y, _ = self.lstm(x)
        return self.head(y[:, -1])


class Language(nn.Module):
    """Embedding, a linear layer, logits over the vocabulary."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(20, 16, padding_idx=0), nn.Linear(16, 20)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(torch.tanh(self.embedding(tokens))).flatten(0, 1)


def randn(*sizes: int) -> torch.Tensor:
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(5))


def randint(high: int, *sizes: int) -> torch.Tensor:
    return torch.randint(high, sizes, generator=torch.Generator().manual_seed(6))


Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def mean_square(y: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return (y - target).pow(2).mean()


MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[], tuple[torch.Tensor, torch.Tensor]], Loss]] = {
    "mlp": (
        lambda: nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 10)),
        lambda: (randn(32, 20), randint(10, 32)),
        F.cross_entropy,
    ),
    "resnet": (ResidualNet, lambda: (randn(8, 3, 16, 16), randint(10, 8)), F.cross_entropy),
    "transformer_encoder": (
        lambda: nn.TransformerEncoder(
            nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True, activation="gelu"), 2, enable_nested_tensor=False
        ),
        lambda: (randn(4, 7, 16), randn(4, 7, 16).flip(0)),
        mean_square,
    ),
    "causal_attention": (Attention, lambda: (randn(4, 9, 16), randn(4, 9, 16).flip(0)), mean_square),
    "lstm": (Recurrent, lambda: (randn(6, 5, 8), randint(4, 6)), F.cross_entropy),
    "embedding": (Language, lambda: (randint(20, 5, 7), randint(20, 35)), lambda y, t: F.cross_entropy(y, t, ignore_index=3)),
}

OPTIMIZERS: dict[str, Callable[[Iterator[nn.Parameter], bool], torch.optim.Optimizer]] = {
    "sgd": lambda p, foreach: torch.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=0.01, foreach=foreach),
    "adamw": lambda p, foreach: torch.optim.AdamW(p, lr=1e-3, foreach=foreach),
}


def close(actual: torch.Tensor, expected: torch.Tensor, what: str) -> None:
    torch.testing.assert_close(actual.detach().cpu(), expected.detach(), rtol=RTOL, atol=ATOL, msg=lambda m: f"{what}: {m}")


def fallbacks() -> dict[str, int | None]:
    names = [n for n in xla_go.metrics.counter_names() if n.startswith("aten::")]
    return {n: xla_go.metrics.counter_value(n) for n in names}


@pytest.fixture(autouse=True)
def no_fallback() -> Iterator[None]:
    before = fallbacks()
    yield
    assert fallbacks() == before, "an operator fell back to the CPU"


def make(name: str) -> tuple[nn.Module, nn.Module, tuple[torch.Tensor, torch.Tensor], Loss]:
    build, data, loss = MODELS[name]
    torch.manual_seed(0)
    cpu = build()
    return cpu, copy.deepcopy(cpu).to("xla"), data(), loss


@pytest.mark.parametrize("name", MODELS)
def test_forward_and_every_gradient_equal_cpu(name: str) -> None:
    cpu, xla, (x, target), loss = make(name)
    outputs = {}
    for device, model in (("cpu", cpu), ("xla", xla)):
        given = x.clone().to(device)
        if given.is_floating_point():
            given.requires_grad_()
        y = model(given)
        value = loss(y, target.to(device))
        value.backward()
        outputs[device] = (y, value, given.grad)
    close(outputs["xla"][0], outputs["cpu"][0], "output")
    close(outputs["xla"][1], outputs["cpu"][1], "loss")
    if outputs["cpu"][2] is not None:
        close(outputs["xla"][2], outputs["cpu"][2], "input gradient")
    for (parameter, p), q in zip(cpu.named_parameters(), xla.parameters(), strict=True):
        assert q.grad is not None
        close(q.grad, p.grad, f"gradient of {parameter}")
    for (buffer, p), q in zip(cpu.named_buffers(), xla.buffers(), strict=True):
        close(q, p, f"buffer {buffer}")


# The others of a model differ in the optimizer's part alone, which tests/ops/test_optimizer.py has for itself.
@pytest.mark.parametrize(
    ("optimizer", "foreach"),
    [pytest.param(name, foreach, id=f"{name}-{'foreach' if foreach else 'single'}", marks=[] if (name, foreach) == ("adamw", True) else pytest.mark.slow) for name in OPTIMIZERS for foreach in (True, False)],
)
@pytest.mark.parametrize("name", MODELS)
def test_ten_steps_equal_cpu(name: str, optimizer: str, foreach: bool) -> None:
    cpu, xla, (x, target), loss = make(name)
    losses: dict[str, list[float]] = {"cpu": [], "xla": []}
    compiled = []
    # The gradient of a key's bias is zero in exact arithmetic. What is left of it is noise, which
    # AdamW scales up to whole steps, so such elements are not compared.
    largest = {name: torch.zeros_like(p) for name, p in cpu.named_parameters()}
    for device, model in (("cpu", cpu), ("xla", xla)):
        given, wanted = x.to(device), target.to(device)
        update = OPTIMIZERS[optimizer](model.parameters(), foreach)
        for _ in range(STEPS):
            update.zero_grad()
            value = loss(model(given), wanted)
            value.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            update.step()
            if device == "cpu":
                for parameter, p in cpu.named_parameters():
                    largest[parameter] = torch.maximum(largest[parameter], p.grad.abs())
            if device == "xla":
                xla_go.sync()
                compiled.append((xla_go.metrics.metric_data("CompileTime") or (0,))[0])
            losses[device].append(value.item())
    assert losses["xla"] == pytest.approx(losses["cpu"], rel=RTOL, abs=ATOL)
    assert losses["cpu"][-1] < losses["cpu"][0]
    for (parameter, p), q in zip(cpu.named_parameters(), xla.parameters(), strict=True):
        real = largest[parameter] > 1e-7
        torch.testing.assert_close(q.detach().cpu()[real], p.detach()[real], rtol=RTOL, atol=2e-5, msg=lambda m, n=parameter: f"{n}: {m}")
    assert compiled[-1] == compiled[2], "a step that repeats was compiled again"


def test_attention_dropout_has_one_mask_for_forward_and_backward() -> None:
    torch.manual_seed(3)
    q, k = (randn(2, 4, 32, 8).to("xla") for _ in range(2))
    v = randn(2, 4, 32, 8).to("xla").requires_grad_()
    y = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=0.3)
    weights = randn(2, 4, 32, 8).flip(0).to("xla")
    (y * weights).sum().backward()
    # y is linear in v for a given mask, so the gradient must reproduce the value.
    assert (v.grad * v).sum().item() == pytest.approx((y * weights).sum().item(), rel=1e-3)
    exact = F.scaled_dot_product_attention(q.cpu(), k.cpu(), v.detach().cpu(), is_causal=True)
    assert not torch.allclose(y.detach().cpu(), exact, atol=1e-2), "nothing was dropped"
    draws = torch.stack([F.scaled_dot_product_attention(q, k, v.detach(), is_causal=True, dropout_p=0.3).cpu() for _ in range(200)])
    torch.testing.assert_close(draws.mean(0)[:, :, 8:], exact[:, :, 8:], rtol=0.0, atol=0.35)
    assert (draws.mean(0) - exact).abs().mean().item() < 0.1


def test_dropout_is_seeded_scaled_and_fresh() -> None:
    x = torch.ones(1000, device="xla")
    torch.manual_seed(7)
    first, second = F.dropout(x, 0.25), F.dropout(x, 0.25)
    torch.manual_seed(7)
    again = F.dropout(x, 0.25)
    assert torch.equal(first.cpu(), again.cpu())
    assert not torch.equal(first.cpu(), second.cpu())
    kept = first.cpu() != 0
    assert torch.allclose(first.cpu()[kept], torch.tensor(1 / 0.75))
    assert abs(kept.float().mean().item() - 0.75) < 4 * math.sqrt(0.25 * 0.75 / 1000)


def test_random_steps_do_not_recompile() -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.Linear(8, 2)).to("xla")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = randn(4, 8).to("xla")
    counts, losses = [], []
    for _ in range(5):
        optimizer.zero_grad()
        loss = model(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        xla_go.sync()
        losses.append(loss.item())
        counts.append((xla_go.metrics.metric_data("CompileTime") or (0,))[0])
    assert counts[-1] == counts[1]
    assert len(set(losses)) == 5
