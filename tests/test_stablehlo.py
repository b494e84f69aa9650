"""The StableHLO text of a traced program is the same program."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import xla_go
import xla_go.client
from support import Child

pytestmark = pytest.mark.once


def run(text: str, *inputs: torch.Tensor) -> list[torch.Tensor]:
    with xla_go.client.compile(text, "mlir") as program:
        return [torch.from_numpy(one.numpy()) for one in program(*(xla_go.client.upload(x.numpy()) for x in inputs))]


def test_a_program_as_stablehlo(tmp_path: Path) -> None:
    host = torch.randn(5, 3)
    x = host.to("xla")
    y = torch.softmax(x.exp() + x.sum(1, keepdim=True), 1)
    shown = xla_go.debug.graph(y)
    assert "module @step" in shown.stablehlo and '"stablehlo.exponential"(' in shown.stablehlo and "tensor<5x3xf32>" in shown.stablehlo
    shown.save(str(tmp_path / "program.mlir"))
    assert (tmp_path / "program.mlir").read_text() == shown.stablehlo
    (got,) = run(shown.stablehlo, host)
    assert torch.equal(got, y.cpu())


def test_inputs_that_are_returned_and_several_results() -> None:
    host = torch.arange(7.0)
    x = host.to("xla")
    lowest, where = (x.flip(0) * x).sort()
    shown = xla_go.debug.graph(lowest, x, where)
    got = run(shown.stablehlo, host)
    assert [one.tolist() for one in got] == [lowest.tolist(), host.tolist(), where.tolist()]


def test_unimplemented_is_told_to_whoever_asks() -> None:
    shown = xla_go.debug.Graph("ir", "hlo", "dot", xla_go.errors.UnimplementedError("opcode x"))
    with pytest.raises(xla_go.errors.UnimplementedError, match="opcode x"):
        _ = shown.stablehlo
    assert shown.ir == "ir"


MODELS = """
    import torch, xla_go
    from torch import nn

    def losses(model, batch, optimizer):
        model = model.to("xla")
        optimizer = optimizer(model.parameters())
        for step in range(3):
            optimizer.zero_grad()
            loss = model(*[one.to("xla") for one in batch]).float().square().mean()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            yield loss.item()

    torch.manual_seed(0)
    convolutional = nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 8, 3, groups=4),
        nn.GroupNorm(2, 8), nn.GELU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.1), nn.Linear(8, 4), nn.LogSoftmax(1))
    print([*losses(convolutional, [torch.randn(4, 3, 16, 16)], lambda p: torch.optim.Adam(p, lr=0.01))])
    transformer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    print([*losses(transformer, [torch.randn(2, 5, 16)], lambda p: torch.optim.AdamW(p, lr=0.01))])
    embedded = nn.Sequential(nn.Embedding(11, 6), nn.Linear(6, 6), nn.Tanh())
    print([*losses(embedded, [torch.randint(0, 11, (3, 4))], lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9))])
    a = torch.randn(4, 4)
    a = (a @ a.mT + 4 * torch.eye(4)).to("xla")
    print([round(v, 4) for v in (torch.linalg.cholesky(a).sum(), torch.fft.rfft(a).abs().sum())
           for v in [v.item()]])
    print(torch.topk(a, 2).values.tolist(), a.cumsum(0).tolist(), torch.multinomial(a.abs(), 2).tolist(), torch.randperm(9, device="xla").tolist())
    print(xla_go.metrics.counter_value("StableHloCompile") or 0, len(xla_go.debug.compiles()))
"""


@pytest.mark.slow
def test_models_compiled_as_stablehlo(child: Child) -> None:
    plain = child(MODELS, env={"PJRT_DEVICE": "CPU", "XLA_STABLEHLO_COMPILE": "0"}, timeout=600).stdout.splitlines()
    text = child(MODELS, env={"PJRT_DEVICE": "CPU", "XLA_STABLEHLO_COMPILE": "1"}, timeout=600).stdout.splitlines()
    assert text[:-1] == plain[:-1]
    assert plain[-1].startswith("0 ")
    as_text, compiles = map(int, text[-1].split())
    assert as_text >= compiles > 10


def test_many_parameters_as_stablehlo(child: Child) -> None:
    code = """
        import torch, xla_go
        a = [torch.full((2,), float(i)).to("xla") for i in range(60)]
        for _ in range(3):
            for x in a:
                x.add_(1)
            xla_go.sync()
        print(sum(x.sum().item() for x in a), xla_go.metrics.metric_data("InputOutputAliasCount")[1] > 0)
    """
    environment = {"PJRT_DEVICE": "CPU", "XLA_STABLEHLO_COMPILE": "1", "XLA_PARAMETER_WRAPPING_THREADSHOLD": "50"}
    assert child(code, env=environment).stdout == "3900.0 True\n"
