"""Seeds and generators of device xla."""

from __future__ import annotations

import pytest
import torch

import xla_go  # noqa: F401

NEW_TORCH = tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 10)


def draw(generator: torch.Generator | None = None) -> list[float]:
    return torch.empty(4, device="xla").uniform_(generator=generator).cpu().tolist()


def test_manual_seed_repeats() -> None:
    torch.manual_seed(5)
    first, second = draw(), draw()
    assert first != second
    torch.manual_seed(5)
    assert draw() == first and draw() == second
    torch.manual_seed(6)
    assert draw() != first


def test_a_seed_set_behind_our_back_is_noticed() -> None:
    torch.manual_seed(1)
    draw()
    torch.default_generator.manual_seed(11)
    first = draw()
    torch.default_generator.manual_seed(12)
    draw()
    torch.default_generator.manual_seed(11)
    assert draw() == first


def test_the_device_seed_leaves_the_cpu_alone() -> None:
    torch.manual_seed(3)
    expected = torch.rand(3)
    torch.manual_seed(3)
    torch.xla.manual_seed(77)
    assert torch.equal(torch.rand(3), expected)
    first = draw()
    torch.xla.manual_seed_all(77)
    assert draw() == first and torch.xla.initial_seed() == 77


def test_state_is_saved_and_restored() -> None:
    torch.manual_seed(3)
    draw()
    state = torch.xla.get_rng_state()
    assert state.dtype == torch.uint8 and state.device.type == "cpu"
    first = draw()
    torch.xla.set_rng_state(state)
    assert draw() == first
    with pytest.raises(ValueError, match="expected 16 elements of uint8"):
        torch.xla.set_rng_state(state[:3])
    assert len(torch.xla.get_rng_state_all()) == torch.xla.device_count()


def test_fork_rng() -> None:
    torch.manual_seed(3)
    state = torch.xla.get_rng_state()
    with torch.random.fork_rng(devices=[0], device_type="xla"):
        torch.manual_seed(9)
        inside = draw()
    after = draw()
    torch.xla.set_rng_state(state)
    assert draw() == after != inside


def test_checkpointing_repeats_dropout() -> None:
    torch.manual_seed(3)
    for reentrant in (False, True):
        x = torch.ones(1000, device="xla", requires_grad=True)
        masks = []

        def block(t: torch.Tensor, masks: list[torch.Tensor] = masks) -> torch.Tensor:
            y = torch.nn.functional.dropout(t, 0.5, True)
            masks.append((y.detach() != 0).float())
            return y * y

        torch.utils.checkpoint.checkpoint(block, x, use_reentrant=reentrant).sum().backward()
        assert len(masks) == 2 and torch.equal(masks[0], masks[1])
        assert torch.equal(x.grad.cpu(), masks[0].cpu() * 8)


def test_a_cpu_generator_can_be_passed() -> None:
    generator = torch.Generator().manual_seed(4)
    first, second = draw(generator), draw(generator)
    assert first != second
    generator.manual_seed(4)
    assert draw(generator) == first


def test_dropout_draws_anew() -> None:
    x = torch.ones(1000, device="xla")
    a, b = torch.nn.functional.dropout(x, 0.5), torch.nn.functional.dropout(x, 0.5)
    assert not torch.equal(a, b) and 300 < (a != 0).sum().item() < 700
    assert torch.equal(a, a.clone())


@pytest.mark.skipif(not NEW_TORCH, reason="torch has no hooks for generators of device xla before 2.10")
def test_generators_of_the_device() -> None:
    generator = torch.Generator("xla").manual_seed(4)
    assert generator.device == torch.device("xla", 0) and generator.initial_seed() == 4
    first = draw(generator)
    other = torch.Generator("xla")
    other.set_state(generator.get_state())
    assert draw(other) == draw(generator)
    generator.manual_seed(4)
    assert draw(generator) == first
    clone = generator.clone_state()
    assert draw(clone) == draw(generator)
    with pytest.raises(RuntimeError, match="expected 16 bytes, got 3"):
        generator.set_state(torch.zeros(3, dtype=torch.uint8))
