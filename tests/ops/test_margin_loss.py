"""Losses with a margin, and distances between pairs of rows, on device xla."""

from __future__ import annotations

import pytest
import torch
from oracle import check, check_error, moved

F = torch.nn.functional
REDUCTIONS = ["none", "mean", "sum"]


def scores(*sizes: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(*sizes, dtype=dtype, generator=torch.Generator().manual_seed(4))


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("p", [1, 2])
def test_multi_margin(reduction, p):
    x, target, weight = scores(5, 4).requires_grad_(), torch.tensor([0, 3, 1, 1, 2]), scores(4).abs()
    for margin in (1.0, 0.3, -0.5):
        check(lambda x, t, margin=margin: F.multi_margin_loss(x, t, p=p, margin=margin, reduction=reduction), x, target)
        check(
            lambda x, t, w, margin=margin: F.multi_margin_loss(x, t, p=p, margin=margin, weight=w, reduction=reduction),
            x,
            target,
            weight,
        )
    one = scores(4, dtype=torch.float32).requires_grad_()
    check(lambda x, t: F.multi_margin_loss(x, t, p=p, reduction=reduction), one, torch.tensor(2))
    check(lambda x, t: F.multi_margin_loss(x, t, p=p, reduction=reduction), one, torch.tensor([1]))
    check(lambda x, t: F.multi_margin_loss(x, t, p=p, reduction=reduction), torch.tensor(0.7), torch.tensor(0))
    if reduction == "none":  # torch leaves the others undefined
        check(
            lambda x, t: F.multi_margin_loss(x, t, p=p, reduction=reduction),
            torch.empty(0, 4),
            torch.empty(0, dtype=torch.long),
        )


def test_multi_margin_errors():
    loss, x, t = torch.ops.aten.multi_margin_loss, scores(3, 4), torch.tensor([0, 1, 2])
    check_error(lambda x, t: loss(x, t, 3), x, t)
    check_error(lambda x, t, w: loss(x, t, 1, 1, w), x, t, scores(3))
    check_error(lambda x, t, w: loss(x, t, 1, 1, w), x, t, scores(4).float())
    check_error(loss, x, t[:2])
    check_error(loss, x, t.int())
    check_error(loss, x.half(), t)
    check_error(loss, x[None], t)
    check_error(loss, torch.empty(3, 0), t)


def test_no_class():
    """A target that is no class raises, and its sample's loss and gradient are NaN, as for the other losses."""
    x = moved(scores(3, 4).requires_grad_())
    loss = F.multi_margin_loss(x, moved(torch.tensor([0, 4, 2])), reduction="none")
    loss.sum().backward()
    with pytest.raises(RuntimeError, match="target out of range"):
        loss.cpu()
    assert loss.isnan().cpu().tolist() == [False, True, False]
    assert x.grad.isnan().any(1).cpu().tolist() == [False, True, False]
    x = moved(scores(2, 4).requires_grad_())
    loss = F.multilabel_margin_loss(x, moved(torch.tensor([[0, 9, -1, -1], [1, -1, 9, 9]])), reduction="none")
    loss.sum().backward()
    with pytest.raises(RuntimeError, match="argument #2 'target' is out of range"):
        loss.cpu()
    assert loss.isnan().cpu().tolist() == [True, False]
    assert x.grad.isnan().any(1).cpu().tolist() == [True, False]


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_multilabel_margin(reduction):
    target = torch.tensor([[0, 1, -1, 0], [3, -1, 0, 0], [-1, 0, 0, 0], [2, 0, 1, 3], [1, 1, 2, -1]])

    def loss(x, t):
        return F.multilabel_margin_loss(x, t, reduction=reduction)

    check(loss, scores(5, 4).requires_grad_(), target)
    check(loss, scores(4, dtype=torch.float32).requires_grad_(), target[1])
    check(loss, torch.tensor(0.7), torch.tensor(0))
    check(lambda x, t: torch.ops.aten.multilabel_margin_loss_forward(x, t, 0), scores(5, 4), target)
    if reduction == "none":
        check(loss, torch.empty(0, 4), torch.empty(0, 4, dtype=torch.long))


def test_multilabel_margin_errors():
    loss, x, t = torch.ops.aten.multilabel_margin_loss_forward, scores(3, 4), torch.zeros(3, 4, dtype=torch.long)
    check_error(lambda x, t: loss(x, t, 0), x, t[:2])
    check_error(lambda x, t: loss(x, t, 0), x, t.int())
    check_error(lambda x, t: loss(x, t, 0), x.half(), t)
    check_error(lambda x, t: loss(x, t, 0), x[None], t)


@pytest.mark.parametrize("p", [0, 0.5, 1, 1.5, 2, 3, float("inf")])
def test_pdist(p):
    for rows, columns in [(7, 3), (2, 5), (1, 4), (40, 2)]:
        check(lambda x: F.pdist(x, p), scores(rows, columns).requires_grad_())
    for rows, columns in [(0, 4), (3, 0)]:  # without a gradient: the kernel of the CPU divides by the count there
        check(lambda x: F.pdist(x, p), scores(rows, columns))
    x = scores(5, 3, dtype=torch.float32)
    x[3] = x[1]  # a distance of 0
    check(lambda x: F.pdist(x, p), x.requires_grad_())


def test_pdist_many_rows():
    check(F.pdist, scores(1500, 1, dtype=torch.float32))


def test_pdist_types():
    check_error(F.pdist, scores(3, 2).half())


def test_logsigmoid_out():
    x = scores(3, 4)
    check(lambda x: torch._C._nn.log_sigmoid(x, out=torch.empty(3, 4, dtype=x.dtype, device=x.device)), x)
