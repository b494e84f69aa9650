"""Losses on device xla, compared with torch's CPU kernels."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from oracle import check, check_error, moved

NAN, INF = float("nan"), float("inf")
REDUCTIONS = ["none", "mean", "sum"]


def normal(*size, seed=1):
    return torch.randn(size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


PAIRS = {
    "mse_loss": F.mse_loss,
    "l1_loss": F.l1_loss,
    "smooth_l1_loss": F.smooth_l1_loss,
    "smooth_l1_loss beta": lambda x, y, reduction: F.smooth_l1_loss(x, y, reduction=reduction, beta=0.3),
    "smooth_l1_loss beta 0": lambda x, y, reduction: F.smooth_l1_loss(x, y, reduction=reduction, beta=0.0),
    "huber_loss": lambda x, y, reduction: F.huber_loss(x, y, reduction=reduction, delta=0.7),
    "kl_div": F.kl_div,
    "soft_margin_loss": F.soft_margin_loss,
    "poisson_nll_loss": F.poisson_nll_loss,
    "binary_cross_entropy_with_logits": lambda x, y, reduction: F.binary_cross_entropy_with_logits(
        x, y.sigmoid(), reduction=reduction
    ),
    "binary_cross_entropy": lambda x, y, reduction: F.binary_cross_entropy(
        x.sigmoid(), y.sigmoid(), reduction=reduction
    ),
}


@pytest.mark.filterwarnings("ignore:reduction. 'mean' divides the total loss")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("name", PAIRS)
def test_pair(name, reduction, dtype):
    x, y = normal(3, 5).to(dtype), normal(3, 5, seed=2).to(dtype)
    check(lambda x, y: PAIRS[name](x, y, reduction=reduction), x.requires_grad_(), y)


@pytest.mark.parametrize("name", ["mse_loss", "smooth_l1_loss", "huber_loss"])
def test_pair_gradient_of_target(name):
    check(
        lambda x, y: PAIRS[name](x, y, reduction="mean"),
        normal(3, 5).requires_grad_(),
        normal(3, 5, seed=2).requires_grad_(),
    )
    check(lambda x, y: PAIRS[name](x, y, reduction="mean"), normal(0, 5), normal(0, 5))
    check(lambda x, y: PAIRS[name](x, y, reduction="mean"), normal(2, 5).float(), normal(2, 5))


def test_edges():
    x = torch.tensor([0.0, 0.5, -0.5, 1.0, -1.0, NAN, INF, -INF], dtype=torch.float64)
    for name in ("smooth_l1_loss", "huber_loss", "mse_loss"):
        check(lambda x, name=name: PAIRS[name](x, torch.zeros_like(x), reduction="none"), x.clone().requires_grad_())


def test_binary_cross_entropy():
    x = torch.tensor([0.0, 1.0, 0.3, 1e-30, 0.9])
    y = torch.tensor([0.0, 0.0, 0.2, 1.0, 1.0])
    check(lambda x, y: F.binary_cross_entropy(x, y, reduction="none"), x.requires_grad_(), y)
    check(lambda x, y, w: F.binary_cross_entropy(x, y, w), x.detach().requires_grad_(), y, torch.rand(5))
    for bad_x, bad_y in ((1.5, 1.0), (-0.5, 0.0), (0.5, 1.5)):
        assert F.binary_cross_entropy(moved(torch.tensor([bad_x])), moved(torch.tensor([bad_y]))).isnan().item()


def test_logits_weights():
    x, y, w = normal(4, 3).float(), normal(4, 3, seed=2).sigmoid().float(), torch.tensor([0.5, 2.0, 3.0])
    check(lambda x, y, w: F.binary_cross_entropy_with_logits(x, y, pos_weight=w), x.requires_grad_(), y, w)
    check(
        lambda x, y, w: F.binary_cross_entropy_with_logits(x, y, w, reduction="sum"), x.detach().requires_grad_(), y, w
    )
    big = torch.tensor([1000.0, -1000.0, 0.0])
    check(lambda x: F.binary_cross_entropy_with_logits(x, torch.ones_like(x), reduction="none"), big.requires_grad_())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("size", [(5,), (4, 5), (2, 5, 3), (2, 5, 3, 4), (2, 5, 2, 3, 2)], ids=str)
def test_nll(size, reduction, weighted, dtype):
    x = normal(*size).to(dtype)
    target_size = size[:1] + size[2:] if len(size) > 1 else ()
    target = torch.randint(0, 5, target_size, generator=torch.Generator().manual_seed(4))
    weight = torch.tensor([0.5, 1.0, 2.0, 0.0, 3.0], dtype=dtype) if weighted else None
    check(lambda x, t, w: F.nll_loss(x, t, w, reduction=reduction), x.requires_grad_(), target, weight)
    if target.dim():
        target = target.clone()
        target.view(-1)[1] = 2
        check(
            lambda x, t, w: F.nll_loss(x, t, w, ignore_index=2, reduction=reduction),
            x.detach().requires_grad_(),
            target,
            weight,
        )


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_cross_entropy(reduction, smoothing):
    x, target = normal(6, 7).float(), torch.tensor([0, 6, -100, 3, 3, 1])
    check(
        lambda x, t: F.cross_entropy(x, t, reduction=reduction, label_smoothing=smoothing), x.requires_grad_(), target
    )
    check(
        lambda x, t: F.cross_entropy(x, t, reduction=reduction, label_smoothing=smoothing),
        x.detach().requires_grad_(),
        x.softmax(1).detach(),
    )


def test_nll_extremes():
    x = normal(3, 4).float()
    nothing = torch.full((3,), -100)
    for reduction in REDUCTIONS:
        check(lambda x, t, r=reduction: F.nll_loss(x, t, reduction=r), x.clone().requires_grad_(), nothing)
        check(lambda x, t, r=reduction: F.nll_loss(x[:0], t[:0], reduction=r), x, nothing)
    infinite = torch.tensor([[-INF, 0.0], [0.0, -INF]])
    check(
        lambda x, t: F.nll_loss(x, t, ignore_index=0, reduction="none"), infinite.requires_grad_(), torch.tensor([0, 1])
    )
    check(lambda x, t: F.nll_loss(x, t), x, torch.tensor([0, 1, 2], dtype=torch.uint8))


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("bad", [4, -1, 1 << 40])
def test_target_that_is_no_class(bad, reduction):
    """It raises, and what is there afterwards must not look like numbers."""
    x = moved(normal(3, 4).float().requires_grad_())
    loss = F.nll_loss(x, moved(torch.tensor([0, bad, 2])), reduction=reduction)
    loss.sum().backward()
    with pytest.raises(IndexError, match=f"Target {bad} is out of bounds"):
        loss.cpu()
    assert loss.cpu().isnan().any()
    assert x.grad.cpu()[1].isnan().all()
    if reduction == "none":
        assert loss.cpu().isnan().tolist() == [False, True, False]
        assert not x.grad.cpu()[::2].isnan().any()


ERRORS = {
    "classes as floats": lambda x: F.nll_loss(x, torch.zeros(2, device=x.device)),
    "weights of another size": lambda x: F.nll_loss(x, torch.zeros(2, dtype=torch.int64, device=x.device), x[0, :2]),
    "batch of another size": lambda x: F.nll_loss(x, torch.zeros(3, dtype=torch.int64, device=x.device)),
    "input of integers": lambda x: F.nll_loss(x.long(), torch.zeros(2, dtype=torch.int64, device=x.device)),
    "mse of integers": lambda x: F.mse_loss(x.long(), x.long()),
    "sizes": lambda x: torch.ops.aten.mse_loss(x, x[0, :2]),
    "beta": lambda x: F.smooth_l1_loss(x, x, beta=-1.0),
    "delta": lambda x: F.huber_loss(x, x, delta=0.0),
    "binary cross entropy of two types": lambda x: F.binary_cross_entropy(x, x.double()),
    "logits of another size": lambda x: F.binary_cross_entropy_with_logits(x, x[0]),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name):
    if name == "classes as floats" and torch.__version__ < "2.15":
        pytest.skip("this release words it differently")
    check_error(ERRORS[name], torch.ones(2, 3))
