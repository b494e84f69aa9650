"""Batch, layer, group, instance and RMS normalisation on device xla, compared with torch's CPU kernels."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from oracle import assert_same, check, check_error, moved

FLOATS = [torch.float32, torch.float64, torch.bfloat16]
# One rounding of a statistic is seen in all that it goes into.
LOOSE = {torch.float32: (1e-4, 2e-5), torch.float64: (1e-9, 1e-10), torch.bfloat16: (5e-2, 5e-2)}


def normal(*size, seed=1):
    return torch.randn(size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * 2 + 0.5


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("affine", [True, False], ids=["affine", "plain"])
@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluation"])
@pytest.mark.parametrize("size", [(6, 3), (4, 3, 5), (2, 3, 4, 5), (2, 3, 2, 3, 2)], ids=str)
def test_batch_norm(size, training, affine, dtype):
    def run(x, mean, variance, weight, bias):
        mean, variance = mean.clone(), variance.clone()
        y = F.batch_norm(x, mean, variance, weight, bias, training=training, momentum=0.3, eps=1e-3)
        return y, mean, variance

    parameters = [normal(3, seed=s).to(dtype).requires_grad_() if affine else None for s in (4, 5)]
    check(
        run,
        normal(*size).to(dtype).requires_grad_(),
        normal(3, seed=2).to(dtype),
        normal(3, seed=3).abs().to(dtype),
        *parameters,
        tolerance=LOOSE[dtype],
    )


def test_batch_norm_without_statistics():
    check(lambda x: F.batch_norm(x, None, None, training=True), normal(4, 3, 5).requires_grad_())
    check(lambda x: F.instance_norm(x), normal(4, 3, 5).requires_grad_())
    check(
        lambda x, m, v: F.instance_norm(x, m.clone(), v.clone(), use_input_stats=False),
        normal(4, 3, 5).requires_grad_(),
        normal(3),
        normal(3).abs(),
    )


def test_batch_norm_of_narrow_input_with_float_parameters():
    def run(x, weight, bias, mean, variance):
        return F.batch_norm(x, mean.clone(), variance.clone(), weight, bias, training=True)

    arguments = [normal(3, seed=s).float().abs() for s in (2, 3, 4, 5)]
    check(
        run,
        normal(4, 3, 5).bfloat16().requires_grad_(),
        *[a.requires_grad_(i < 2) for i, a in enumerate(arguments)],
        tolerance=LOOSE[torch.bfloat16],
    )


@pytest.mark.parametrize("momentum", [0.1, None])
def test_batch_norm_module(momentum):
    """Running statistics and their counter over several steps, then evaluation with them."""
    torch.manual_seed(0)
    ours, theirs = torch.nn.BatchNorm2d(3, momentum=momentum), torch.nn.BatchNorm2d(3, momentum=momentum)
    theirs.load_state_dict(ours.state_dict())
    theirs.to("xla")
    for step in range(3):
        x = normal(2, 3, 4, 4, seed=step).float()
        assert_same(theirs(moved(x)), ours(x), f"step {step}", LOOSE[torch.float32])
    for (name, want), got in zip(ours.state_dict().items(), theirs.state_dict().values(), strict=True):
        assert_same(got, want, name, LOOSE[torch.float32])
    x = normal(2, 3, 4, 4, seed=9).float()
    assert_same(theirs.eval()(moved(x)), ours.eval()(x), "evaluation", LOOSE[torch.float32])


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("parameters", ["both", "weight", "none"])
@pytest.mark.parametrize(
    ("size", "shape"),
    [((4, 6), (6,)), ((2, 3, 5), (5,)), ((2, 3, 5), (3, 5)), ((3, 4), (3, 4)), ((0, 4), (4,))],
    ids=str,
)
def test_layer_norm(size, shape, parameters, dtype):
    weight = normal(*shape, seed=2).to(dtype).requires_grad_() if parameters != "none" else None
    bias = normal(*shape, seed=3).to(dtype).requires_grad_() if parameters == "both" else None
    check(
        lambda x, w, b: F.layer_norm(x, shape, w, b),
        normal(*size).to(dtype).requires_grad_(),
        weight,
        bias,
        tolerance=LOOSE[dtype],
    )


def test_layer_norm_statistics():
    x = normal(2, 3, 5).float()
    check(lambda x: torch.native_layer_norm(x, (5,), None, None, 1e-5), x, tolerance=LOOSE[torch.float32])
    check(
        lambda x, w: torch.native_layer_norm(x.bfloat16(), (5,), w, None, 1e-5),
        x,
        normal(5).float(),
        tolerance=LOOSE[torch.bfloat16],
    )
    check(lambda x: F.layer_norm(x.mT, (3,)), x.requires_grad_(), tolerance=LOOSE[torch.float32])
    far = torch.full((2, 64), 3e4) + torch.arange(64)
    check(lambda x: F.layer_norm(x, (64,)), far, tolerance=(1e-3, 1e-3))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("affine", [True, False], ids=["affine", "plain"])
@pytest.mark.parametrize(
    ("size", "groups"), [((3, 4), 2), ((2, 6, 5), 3), ((2, 4, 3, 2), 1), ((2, 4, 3, 2), 4), ((0, 4, 3), 2)], ids=str
)
def test_group_norm(size, groups, affine, dtype):
    parameters = [normal(size[1], seed=s).to(dtype).requires_grad_() if affine else None for s in (4, 5)]
    check(
        lambda x, w, b: F.group_norm(x, groups, w, b),
        normal(*size).to(dtype).requires_grad_(),
        *parameters,
        tolerance=LOOSE[dtype],
    )


def test_rms_norm():
    for x in (normal(3, 5), normal(2, 3, 5).float()):
        check(lambda x, w: F.rms_norm(x, (5,), w), x.requires_grad_(), normal(5, seed=2).to(x.dtype).requires_grad_())


VARIANTS = {
    "legit": lambda x, w, m, v: torch.ops.aten._native_batch_norm_legit(
        x, w, None, m.clone(), v.clone(), True, 0.2, 1e-5
    ),
    "no statistics": lambda x, w, m, v: torch.ops.aten._native_batch_norm_legit.no_stats(x, w, None, True, 0.2, 1e-5),
    "no training": lambda x, w, m, v: torch.ops.aten._native_batch_norm_legit_no_training(x, w, None, m, v, 0.2, 1e-5),
    "with update": lambda x, w, m, v: torch.ops.aten._batch_norm_with_update(
        x, w, None, m.clone(), v.clone(), 0.2, 1e-5
    ),
    "no update": lambda x, w, m, v: torch.ops.aten._batch_norm_no_update(x, w, None, m, v, 0.2, 1e-5),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_batch_norm_variants(name):
    check(VARIANTS[name], normal(4, 3, 5), *[normal(3, seed=s).abs() for s in (2, 3, 4)])


ERRORS = {
    "layer norm of another shape": lambda x: F.layer_norm(x, (4,)),
    "layer norm weight": lambda x: F.layer_norm(x, (3,), x[0, :2]),
    "layer norm of no dimensions": lambda x: F.layer_norm(x, ()),
    "layer norm of integers": lambda x: F.layer_norm(x.long(), (3,)),
    "group norm groups": lambda x: F.group_norm(x, 2),
    "group norm weight": lambda x: F.group_norm(x, 3, x[0, :2]),
    "batch norm without statistics": lambda x: F.batch_norm(x, None, None),
    "batch norm statistics": lambda x: F.batch_norm(x, x[0, :2], x[0]),
    "batch norm of one value": lambda x: F.batch_norm(x[:1], None, None, training=True),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name):
    check_error(ERRORS[name], torch.ones(2, 3))
