"""XLA_GO_CHECK=cpu: each operator is compared with the CPU, and the first that differs is named."""

from __future__ import annotations

import pytest

from support import Child

pytestmark = pytest.mark.once

CHECKED = {"XLA_GO_CHECK": "cpu"}

# Operators of the device that are wrong on purpose: they give cosh where sinh is asked for, and so on.
WRONG = """
    import json
    import torch, xla_go

    wrong = torch.library.Library("aten", "IMPL")

    def replace(name, function):
        wrong.impl(name, function, "XLA", allow_override=True) if REPLACES else wrong.impl(name, function, "XLA")

    import inspect
    REPLACES = "allow_override" in inspect.signature(wrong.impl).parameters

    def differs(call):
        try:
            call()
        except xla_go.errors.AccuracyError as error:
            return str(error)
        raise AssertionError("expected a difference")
"""


def test_a_training_agrees_with_the_cpu(child: Child) -> None:
    child(
        """
        import torch, xla_go
        from torch import nn
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.GELU(), nn.Dropout(0.5), nn.Linear(8, 3)).to("xla")
        optimizer = torch.optim.AdamW(model.parameters())
        before = xla_go.metrics.counter_value("ComparedOperator") or 0
        for step in range(3):
            target = torch.tensor([0, 2, 1, -100]).to("xla")
            loss = nn.functional.cross_entropy(model(torch.randn(4, 4).to("xla")), target)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            xla_go.sync()
        assert xla_go.metrics.counter_value("ComparedOperator") - before > 100
        assert not xla_go.metrics.counter_value("IncomparableOperator")
        assert loss.isfinite().item()
        x = torch.arange(12.0, device="xla").reshape(3, 4)
        x[1:, ::2] *= 2
        x.t()[0] = -1
        x.resize_(2, 6).fill_(3)
        y = torch.empty(3, device="xla")
        torch.sum(x.reshape(3, 4), 1, out=y)
        z = torch.cat([y, y.to(torch.int32), torch.full((2,), 7, device="xla")]).sort(descending=True).values
        assert z.tolist() == [12.0] * 6 + [7.0] * 2
        assert torch.rand(3, device="xla").shape == torch.empty_like(y).shape
        """,
        env=CHECKED,
        timeout=300,
    )


def test_the_first_wrong_operator_is_named(child: Child) -> None:
    child(
        WRONG
        + """
    replace("sinh", lambda x: torch.cosh(x))

    def model(x):
        y = x.exp() - 1
        return y.sinh() * 2

    text = differs(lambda: model(torch.zeros(2, 3, device="xla")))
    assert text.startswith("aten.sinh.default(float32[2, 3]): result differs from the CPU's:"), text
    assert "Greatest absolute difference: 1.0 at index (0, 0)" in text and "in model" in text, text
    """,
        env=CHECKED,
    )


def test_variants_in_place_and_with_out_are_compared(child: Child) -> None:
    child(
        WRONG
        + """
    replace("sinh_", lambda x: x.add_(5))
    replace("sinh.out", lambda x, *, out: out.copy_(x))

    x = torch.ones(4, device="xla")
    text = differs(lambda: x[::2].sinh_())
    assert text.startswith("aten.sinh_.default(float32[2]): result differs"), text
    text = differs(lambda: torch.sinh(x, out=torch.empty(4, device="xla")))
    assert text.startswith("aten.sinh.out(float32[4], out=float32[4]): result differs"), text
    """,
        env=CHECKED,
    )


def test_gradients_are_compared(child: Child) -> None:
    child(
        WRONG
        + """
    replace("gelu_backward", lambda grad, x, approximate="none": grad * 0)

    x = torch.ones(3, device="xla", requires_grad=True)
    y = torch.nn.functional.gelu(x).sum()
    text = differs(y.backward)
    assert text.startswith("aten.gelu_backward.default(float32[3], float32[3]): result differs"), text
    assert "in GeluBackward0" in text, text
    """,
        env=CHECKED,
    )


def test_dtypes_sizes_and_one_of_several_results_are_compared(child: Child) -> None:
    child(
        WRONG
        + """
    replace("sinh", lambda x: torch.exp(x).to(torch.float64))
    replace("expm1", lambda x: torch.exp(x)[:1])
    replace("frexp.Tensor", lambda x: (torch.neg(x), torch.zeros_like(x, dtype=torch.int32)))

    x = torch.full((3,), 0.5, device="xla")
    assert "dtype" in differs(x.sinh)
    assert "shape" in differs(x.expm1)
    assert "result 0 differs" in differs(x.frexp)
    """,
        env=CHECKED,
    )


def test_without_the_variable_nothing_is_compared(child: Child) -> None:
    child(
        WRONG
        + """
    replace("sinh", lambda x: torch.cosh(x))
    assert torch.zeros(2, device="xla").sinh().tolist() == [1, 1]
    assert not xla_go.metrics.counter_value("ComparedOperator")
    """,
        env={"XLA_GO_CHECK": ""},
    )


def test_another_value_is_refused(child: Child) -> None:
    done = child("import xla_go", env={"XLA_GO_CHECK": "gpu"}, check=False)
    assert done.returncode != 0 and "XLA_GO_CHECK: expected 'cpu' or nothing, got 'gpu'" in done.stderr


@pytest.mark.parametrize("bad", [5, -1])
def test_a_position_out_of_range_raises_at_the_call(child: Child, bad: int) -> None:
    child(
        f"""
        import torch, xla_go
        x, i = torch.arange(12.0).reshape(3, 4).to("xla"), torch.tensor([0, {bad}]).to("xla")
        try:
            torch.nn.functional.embedding(i, x)
        except IndexError as error:
            assert "index out of range in self" in str(error), error
        else:
            raise AssertionError("expected an error")
        """,
        env=CHECKED,
    )
