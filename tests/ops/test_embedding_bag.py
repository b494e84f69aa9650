"""Bags of embeddings on device xla, compared with torch's CPU kernels."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from oracle import NEWEST, check, check_error

WEIGHT = torch.randn(6, 3, generator=torch.Generator().manual_seed(0))
INDICES = torch.tensor([0, 1, 5, 3, 3, 2, 1])


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("offsets", [[0, 2, 2, 6], [0], [0, 0, 7], [0, 7]], ids=str)
def test_bags(offsets, mode):
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        weight = WEIGHT.to(dtype).clone().requires_grad_()
        at = torch.tensor(offsets)
        check(lambda w, i, o: F.embedding_bag(i, w, o, mode=mode), weight, INDICES, at)
        check(lambda w, i, o: F.embedding_bag(i, w, o, mode=mode, padding_idx=3), weight, INDICES, at)
    weight = WEIGHT.clone().requires_grad_()
    check(lambda w, i, o: F.embedding_bag(i, w, o, mode=mode), weight, INDICES.int(), torch.tensor(offsets).int())
    if mode != "max" and NEWEST:  # torch 2.9's CPU kernel divides by how often other indices occur
        check(lambda w, i, o: F.embedding_bag(i, w, o, mode=mode, scale_grad_by_freq=True), weight, INDICES, torch.tensor(offsets))


def test_last_offset_weights_and_matrices_of_indices():
    weight = WEIGHT.clone().requires_grad_()
    check(lambda w, i, o: F.embedding_bag(i, w, o, include_last_offset=True), weight, INDICES, torch.tensor([0, 3, 3, 7]))
    each = torch.randn(7, generator=torch.Generator().manual_seed(1), requires_grad=True)
    for padding in (None, 3):
        check(
            lambda w, i, o, e, padding=padding: F.embedding_bag(i, w, o, mode="sum", per_sample_weights=e, padding_idx=padding),
            weight, INDICES, torch.tensor([0, 2, 2]), each,
        )  # fmt: skip
    for mode in ("sum", "mean", "max"):
        check(lambda w, i, mode=mode: F.embedding_bag(i, w, mode=mode), weight, INDICES[:6].reshape(3, 2))


def test_nothing_in_the_bags():
    empty = torch.zeros(0, dtype=torch.int64)
    for mode in ("sum", "mean", "max"):
        check(lambda w, i, o, mode=mode: F.embedding_bag(i, w, o, mode=mode), WEIGHT.clone(), empty, torch.tensor([0, 0]))
        # Of that torch's own gradient ends the process (2.15), as does indices without a bag.
        weight = WEIGHT.to("xla").requires_grad_()
        F.embedding_bag(empty.to("xla"), weight, torch.tensor([0, 0], device="xla"), mode=mode).sum().backward()
        assert torch.equal(weight.grad.cpu(), torch.zeros_like(WEIGHT))
        assert F.embedding_bag(INDICES.to("xla"), WEIGHT.to("xla"), empty.to("xla"), mode=mode).cpu().shape == (0, 3)


def test_equal_greatest_rows_give_their_gradient_to_the_first():
    weight = torch.tensor([[1.0, 2], [1, 3], [0, 3]], requires_grad=True)
    check(lambda w, i, o: F.embedding_bag(i, w, o, mode="max"), weight, torch.tensor([2, 0, 1, 1]), torch.tensor([0, 1]))


def test_the_layer_trains():
    cpu = torch.nn.EmbeddingBag(6, 3, mode="mean")
    xla = torch.nn.EmbeddingBag(6, 3, mode="mean", _weight=cpu.weight.detach().clone()).to("xla")
    for layer, device in ((cpu, "cpu"), (xla, "xla")):
        optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            layer(INDICES.to(device), torch.tensor([0, 3], device=device)).square().sum().backward()
            optimizer.step()
    assert torch.allclose(xla.weight.cpu(), cpu.weight, rtol=1e-5)


def test_rows_are_kept_to_a_norm():
    for norm in (1.0, 2.0, 3.0, float("inf")):
        check(lambda w, i, norm=norm: torch.embedding_renorm_(w, i, 0.5, norm), WEIGHT.clone(), torch.tensor([[0, 5], [0, -2]]))
    check(lambda w, i: F.embedding(i, w * 1, max_norm=1.0), WEIGHT, INDICES)
    check(lambda w, i, o: F.embedding_bag(i, w * 1, o, max_norm=1.0), WEIGHT.bfloat16(), INDICES, torch.tensor([0, 2]))
    check_error(lambda w, i: torch.embedding_renorm_(w, i, 1.0, 2.0).cpu(), WEIGHT.clone(), torch.tensor([6]))
    check_error(lambda w, i: torch.embedding_renorm_(w, i, 1.0, 2.0), WEIGHT[0].clone(), INDICES)
    check_error(lambda w, i: torch.embedding_renorm_(w, i, 1.0, 2.0), WEIGHT.int(), INDICES)


def test_arguments_that_do_not_fit():
    def bag(*arguments, **keywords):
        return lambda w, i, o: torch.ops.aten._embedding_bag(w, i, o, *arguments, **keywords)[0].cpu()

    offsets = torch.tensor([0, 2])
    check_error(bag(), WEIGHT, INDICES, torch.tensor([1, 2]))
    check_error(bag(), WEIGHT, INDICES, torch.tensor([0, 8]))
    check_error(bag(), WEIGHT, INDICES.float(), offsets)
    check_error(bag(), WEIGHT.int(), INDICES, offsets)
    check_error(bag(), WEIGHT[0], INDICES, offsets)
    if NEWEST:  # an unknown mode ends the process of torch 2.9
        check_error(bag(False, 3), WEIGHT, INDICES, offsets)

    def weighted(mode):
        return lambda w, i, o, e: torch.ops.aten._embedding_bag(w, i, o, False, mode, False, e)[0].cpu()

    check_error(weighted(1), WEIGHT, INDICES, offsets, torch.ones(7))
    check_error(weighted(0), WEIGHT, INDICES, offsets, torch.ones(7).double())
    with pytest.raises(RuntimeError, match=r"takes value 6 which is not in the valid range \[0, 6\)"):
        F.embedding_bag(torch.tensor([0, 6], device="xla"), WEIGHT.to("xla"), torch.tensor([0], device="xla")).cpu()
