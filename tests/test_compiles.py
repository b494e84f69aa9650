"""Every compile has a reason and a place, and strict mode refuses what was not planned."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

import pytest
import torch

import xla_go
from support import Child

xla = torch.device("xla")


def compiles() -> list[dict]:
    return xla_go.debug.compiles()


@contextlib.contextmanager
def new_compiles() -> Iterator[list[dict]]:
    """The compiles of the block, once it has ended."""
    known = max((one["number"] for one in compiles()), default=0)
    found: list[dict] = []
    yield found
    found += [one for one in compiles() if one["number"] > known]


def test_another_shape_is_the_reason() -> None:
    a, b = torch.randn(7, 11).to(xla), torch.randn(13, 11).to(xla)
    (a * 3 + 1).exp2().cpu()
    with new_compiles() as found:
        (b * 3 + 1).exp2().cpu()
    (one,) = found
    assert one["reason"].startswith("input 0: f32[7,11] → f32[13,11], beside the program")
    assert re.fullmatch(r"(.*/)?test_compiles\.py:\d+ in test_another_shape_is_the_reason", one["site"]), one["site"]
    assert one["parameters"] == 1 and one["results"] == 1 and one["seconds"] > 0 and not one["error"]


def test_other_operators_are_the_reason() -> None:
    a = torch.randn(7, 17).to(xla)
    (a * 3).sinh().cpu()
    with new_compiles() as found:
        (a * 3).cosh().cpu()
    assert "aten::sinh → aten::cosh" in found[0]["reason"], found


def test_another_attribute_is_the_reason() -> None:
    a = torch.randn(6, 6, 19).to(xla)
    a.cumsum(0).cpu()
    with new_compiles() as found:
        a.cumsum(1).cpu()
    assert "aten::cumsum (node 1): attributes [1] → [2]" in found[0]["reason"], found


def test_kept_values_are_the_reason() -> None:
    a = torch.randn(23).to(xla)
    b = a + 1
    c = b * 2
    xla_go.sync()
    del b, c
    with new_compiles() as found:
        b = a + 1
        c = b * 2
        del b
        xla_go.sync()
    assert "other values are kept" in found[0]["reason"], found
    del c


def test_offsets_become_parameters_with_a_reason() -> None:
    a = torch.randn(29, 3).to(xla)
    with new_compiles() as found:
        for start in range(4):
            (a[start : start + 2] * 2).cpu()
    assert len(found) == 2
    assert "numbers that move" in found[1]["reason"]


def test_optimizer_step_has_the_users_line() -> None:
    parameter = torch.nn.Parameter(torch.randn(31).to(xla))
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    parameter.square().sum().backward()
    with new_compiles() as found:
        optimizer.step()
    assert len(found) == 1 and "test_compiles.py" in found[0]["site"], found


LOOP = """
    import torch, xla_go
    for n in range(1, 10):
        (torch.ones(n, device="xla") + 1).cpu()
    xla_go.debug.compiles()
"""


def test_log_of_compiles(child: Child) -> None:
    done = child(LOOP, env={"PJRT_DEVICE": "CPU", "XLA_GO_LOG": "compiles"})
    lines = [line for line in done.stderr.splitlines() if line.startswith("xla_go: compile ")]
    assert len(lines) == 9, done.stderr
    assert re.match(r"xla_go: compile 2: <string>:\d+ in <module>: .*\[1\] → .*\[2\].*compiled in \d+\.\d\d s\)", sorted(lines)[1]), lines


def test_noisy_line_is_told_once(child: Child) -> None:
    done = child(LOOP.replace("xla_go.debug", "import time; time.sleep(0.5); xla_go.debug"), env={"PJRT_DEVICE": "CPU", "XLA_GO_LOG": ""})
    lines = done.stderr.splitlines()
    assert len(lines) == 1 and "8 programs were compiled for one line" in lines[0] and "XLA_GO_LOG=compiles" in lines[0], lines


def test_strict_refuses_a_compile_and_loses_nothing() -> None:
    a = torch.arange(37.0).to(xla)
    b = a * 5
    with xla_go.strict(), pytest.raises(xla_go.errors.FailedPreconditionError, match=r"would compile a program: .*outside of strict"):
        xla_go.sync()
    with new_compiles() as found:
        xla_go.sync()
    assert len(found) == 1
    assert torch.equal(b.cpu(), torch.arange(37.0) * 5)
    with xla_go.strict(), new_compiles() as found:
        c = a * 5
        xla_go.sync()
        assert torch.equal(c.cpu(), b.cpu())
    assert not found


def test_strict_refuses_a_read_that_ends_the_graph() -> None:
    a = torch.ones(41).to(xla)
    (a + 2).cpu()
    with xla_go.strict():
        b = a + 2
        with pytest.raises(xla_go.errors.FailedPreconditionError, match=r"call xla_go\.sync\(\)"):
            b.cpu()
        xla_go.sync()
        assert b.cpu()[0] == 3
    assert (a + 2).cpu()[0] == 3


def test_strict_refuses_the_cpu() -> None:
    a = torch.eye(3, device=xla)
    with xla_go.strict(), pytest.raises(NotImplementedError, match="strict"):
        torch.linalg.eig(a)
    assert torch.linalg.eig(a)[0].shape == (3,)


def test_strict_nests() -> None:
    a = torch.ones(43).to(xla)
    with xla_go.strict():
        with xla_go.strict():
            pass
        b = a / 7
        with pytest.raises(xla_go.errors.FailedPreconditionError):
            xla_go.sync()
    xla_go.sync()
    assert b.cpu()[0] == torch.tensor(1 / 7)


@pytest.mark.parametrize("device", ["cpu", "xla"])
def test_padding_to_buckets(device: str) -> None:
    x = torch.arange(10.0, device=device).reshape(5, 2)
    padded, valid = xla_go.pad_to_bucket(x)
    assert padded.shape == (8, 2) and valid.tolist() == [True] * 5 + [False] * 3
    assert torch.equal(padded[:5], x) and not padded[5:].any()
    padded, valid = xla_go.pad_to_bucket(x, [16, 3], dim=1, value=7)
    assert padded.shape == (5, 3) and padded[:, 2].tolist() == [7] * 5 and valid.tolist() == [True, True, False]
    same, valid = xla_go.pad_to_bucket(x, [5])
    assert same is x and valid.all()
    with pytest.raises(ValueError, match="a bucket of at least 5"):
        xla_go.pad_to_bucket(x, [4, 2])


def test_ragged_last_batch_compiles_once() -> None:
    weight = torch.randn(3, 5).to(xla)

    def epoch() -> None:
        for batch in torch.arange(30.0).reshape(10, 3).split(4):
            padded, valid = xla_go.pad_to_bucket(batch, [4])
            each = (padded.to(xla) @ weight).square().sum(1)
            loss = (each * valid.to(xla)).sum() / valid.sum()
            want = (batch @ weight.cpu()).square().sum(1).mean()
            torch.testing.assert_close(loss.cpu(), want)

    with new_compiles() as found:
        epoch()
    assert len([one for one in found if one["nodes"] > 3]) == 1, found
