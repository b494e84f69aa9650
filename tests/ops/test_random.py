"""Random numbers: their moments and ranges, that they repeat from a seed, and that drawing compiles once."""

from __future__ import annotations

import math

import pytest
import torch

import xla_go

FLOATS = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
N = 100_001


def draw(fill, dtype=torch.float32, size=N):
    torch.manual_seed(11)
    xla_go.metrics.clear_all()
    result = fill(torch.empty(size, dtype=dtype, device="xla"))
    assert result.device.type == "xla"
    assert result.dtype == dtype
    assert not xla_go.metrics.executed_fallback_ops()
    return result.cpu()


def check_moments(x, mean, variance, coarse=0.0):
    """The sample's mean within five standard errors, its variance within 5 %; coarse is added for types of few digits."""
    x = x.double()
    assert abs(x.mean().item() - mean) < 5 * math.sqrt(variance / len(x)) + coarse
    assert abs(x.var().item() - variance) < 0.05 * variance + coarse


@pytest.mark.parametrize("dtype", FLOATS)
def test_uniform(dtype):
    x = draw(lambda x: x.uniform_(), dtype)
    check_moments(x, 0.5, 1 / 12, 0.004)
    assert x.min() >= 0
    assert x.max() < 1
    check_moments(draw(lambda x: x.uniform_(-2, 3), dtype), 0.5, 25 / 12, 0.03)


@pytest.mark.parametrize("dtype", FLOATS)
def test_normal(dtype):
    x = draw(lambda x: x.normal_(), dtype)
    check_moments(x, 0, 1, 0.004)
    # Tails and shape: what share lies inside one, two and three deviations, and no correlation of neighbours.
    for deviations, share in ((1, 0.6827), (2, 0.9545), (3, 0.9973)):
        assert abs((x.abs() < deviations).double().mean().item() - share) < 0.006
    assert abs((x[1:].double() * x[:-1].double()).mean().item()) < 5 / math.sqrt(N)
    assert x.abs().max() < 7
    check_moments(draw(lambda x: x.normal_(2, 3), dtype), 2, 9, 0.03)


@pytest.mark.parametrize("dtype", FLOATS)
def test_other_distributions(dtype):
    check_moments(draw(lambda x: x.exponential_(2), dtype), 0.5, 0.25, 0.01)
    assert draw(lambda x: x.exponential_(), torch.float32).min() > 0
    check_moments(draw(lambda x: x.log_normal_(0, 0.5), dtype), math.exp(0.125), (math.exp(0.25) - 1) * math.exp(0.25), 0.01)
    x = draw(lambda x: x.geometric_(0.3), dtype)
    check_moments(x, 1 / 0.3, 0.7 / 0.09, 0.02)
    assert x.min() == 1
    x = draw(lambda x: x.cauchy_(1, 2), dtype).float()
    assert abs(x.median().item() - 1) < 0.1
    assert abs((x - 1).abs().median().item() - 2) < 0.1


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int64, torch.uint8, torch.bool])
def test_bernoulli(dtype):
    x = draw(lambda x: x.bernoulli_(0.3), dtype)
    check_moments(x, 0.3, 0.21)
    assert set(x.double().unique().tolist()) == {0.0, 1.0}
    assert not draw(lambda x: x.bernoulli_(0.0), dtype).any()
    assert draw(lambda x: x.bernoulli_(1.0), dtype).all()
    p = torch.linspace(0, 1, 7)
    x = draw(lambda x: x.bernoulli_(p.to("xla")), dtype, (20_000, 7)).double().mean(0)
    torch.testing.assert_close(x, p.double(), rtol=0, atol=0.02)
    assert draw(lambda x: torch.bernoulli(torch.full_like(x, 0.25))).mean().item() == pytest.approx(0.25, abs=0.01)


@pytest.mark.parametrize(
    ("dtype", "arguments", "low", "high"),
    [
        (torch.int64, (10,), 0, 9),
        (torch.int64, (-5, 5), -5, 4),
        (torch.int32, (0, 7), 0, 6),
        (torch.float32, (0, 100), 0, 99),
        (torch.bfloat16, (-3, 3), -3, 2),
        (torch.uint8, (), 0, 255),
        (torch.int8, (), 0, 127),
        (torch.int8, (-128, None), -128, 127),
        (torch.bool, (), 0, 1),
        (torch.uint8, (250, None), 250, 255),
    ],
)
def test_random_integers(dtype, arguments, low, high):
    x = draw(lambda x: x.random_(*arguments), dtype)
    assert sorted(x.double().unique().tolist()) == list(range(low, high + 1))
    check_moments(x, (low + high) / 2, ((high - low + 1) ** 2 - 1) / 12)


@pytest.mark.parametrize(
    ("arguments", "low", "high"),
    [((), 0, 2**63), ((-(2**63), None), -(2**63), 2**63), ((0, 10**12), 0, 10**12), ((-(2**40), 2**41), -(2**40), 2**41)],
)
def test_random_integers_of_64_bits(arguments, low, high):
    x = draw(lambda x: x.random_(*arguments), torch.int64)
    assert x.unique().numel() > 0.999 * N
    check_moments((x.double() - float(low)) / float(high - low), 0.5, 1 / 12)


def test_complex():
    x = draw(lambda x: x.normal_(), torch.complex64)
    check_moments(x.real, 0, 0.5)
    check_moments(x.imag, 0, 0.5)
    x = draw(lambda x: x.uniform_(), torch.complex128)
    check_moments(x.real, 0.5, 1 / 12)
    check_moments(x.imag, 0.5, 1 / 12)
    assert not x.real.equal(x.imag)


def test_normal_of_tensors():
    mean, deviation = torch.full((N,), 1.0, device="xla"), torch.full((N,), 2.0, device="xla")
    for x in (torch.normal(mean, deviation), torch.normal(mean, 2.0), torch.normal(1.0, deviation), torch.normal(1.0, 2.0, (N,), device="xla")):
        check_moments(x.cpu(), 1, 4)
    assert torch.normal(mean.double(), deviation).dtype == torch.float64


@pytest.mark.parametrize("n", [0, 1, 2, 1000])
def test_permutation(n):
    torch.manual_seed(2)
    p = torch.randperm(n, device="xla")
    assert p.dtype == torch.int64
    assert sorted(p.tolist()) == list(range(n))
    if n > 2:
        assert p.tolist() != list(range(n))
        assert torch.randperm(n, device="xla").tolist() != p.tolist()


def test_every_permutation_is_as_likely():
    torch.manual_seed(3)
    seen = torch.stack([torch.randperm(3, device="xla").cpu() for _ in range(600)])
    code = seen @ torch.tensor([9, 3, 1])
    counts = code.unique(return_counts=True)[1]
    assert len(counts) == 6
    assert ((counts - 100).abs() < 50).all()


@pytest.mark.parametrize("replacement", [False, True])
@pytest.mark.parametrize("samples", [1, 4])
def test_multinomial(samples, replacement):
    torch.manual_seed(4)
    weights = torch.tensor([0.0, 1, 2, 0, 3, 4])
    x = torch.multinomial(weights.to("xla").expand(20_000, 6), samples, replacement)
    assert x.dtype == torch.int64
    x = x.cpu()
    assert x.shape == (20_000, samples)
    share = torch.stack([(x[:, 0] == k).double().mean() for k in range(6)])
    torch.testing.assert_close(share, weights.double() / 10, rtol=0, atol=0.015)
    assert not ((x == 0) | (x == 3)).any()
    if samples == 4 and not replacement:
        assert (x.sort(1).values == torch.tensor([1, 2, 4, 5])).all()


def test_multinomial_of_many_categories():
    weights = torch.zeros(5000)
    weights[::50] = torch.arange(1.0, 101.0)
    x = torch.multinomial(weights.to("xla"), N, True).cpu()
    assert (weights[x] > 0).all()
    assert (x.double() / 50).mean().item() == pytest.approx((weights[::50] * torch.arange(100)).sum().item() / weights.sum().item(), rel=0.01)


@pytest.mark.parametrize("dtype", FLOATS)
def test_dropout(dtype):
    torch.manual_seed(5)
    x = torch.ones(N, dtype=dtype, device="xla", requires_grad=True)
    y = torch.nn.functional.dropout(x, 0.25)
    (gradient,) = torch.autograd.grad(y, x, torch.ones_like(y))
    y = y.detach().cpu()
    assert gradient.cpu().equal(y)
    assert y.unique().tolist() == [0.0, torch.tensor(1 / 0.75, dtype=dtype).item()]
    assert (y == 0).double().mean().item() == pytest.approx(0.25, abs=0.01)
    z, mask = torch.native_dropout(x, 0.25, True)
    assert mask.dtype == torch.bool
    assert (z.detach().cpu() != 0).equal(mask.cpu())
    assert mask.cpu().double().mean().item() == pytest.approx(0.75, abs=0.01)
    z, mask = torch.native_dropout(x, 0.25, False)
    assert z.detach().cpu().equal(x.detach().cpu())
    assert mask.cpu().all()


DRAWS = {
    "rand": lambda: torch.rand(7, device="xla"),
    "randn": lambda: torch.randn(7, device="xla"),
    "randint": lambda: torch.randint(1000, (7,), device="xla"),
    "randperm": lambda: torch.randperm(50, device="xla"),
    "exponential": lambda: torch.empty(7, device="xla").exponential_(),
    "multinomial": lambda: torch.multinomial(torch.ones(500, device="xla"), 7),
    "dropout": lambda: torch.nn.functional.dropout(torch.ones(100, device="xla")),
}


@pytest.mark.parametrize("name", DRAWS)
def test_a_seed_repeats(name):
    torch.manual_seed(6)
    first, second = DRAWS[name]().cpu(), DRAWS[name]().cpu()
    torch.manual_seed(6)
    assert DRAWS[name]().cpu().equal(first)
    assert DRAWS[name]().cpu().equal(second)
    assert not first.equal(second)
    torch.manual_seed(7)
    assert not DRAWS[name]().cpu().equal(first)


@pytest.mark.parametrize("name", DRAWS)
def test_drawing_again_compiles_nothing(name):
    DRAWS[name]().cpu()
    xla_go.metrics.clear_all()
    for _ in range(5):
        DRAWS[name]().cpu()
    assert xla_go.metrics.counter_value("UncachedCompile") is None
    assert xla_go.metrics.counter_value("CachedCompile") >= 5


def test_other_parameters_compile_nothing():
    def fill(i):
        x = torch.empty(9, device="xla")
        yield x.normal_(i, 1 + i)
        yield x.uniform_(-i, i)
        yield x.bernoulli_(i / 10)
        yield x.exponential_(i)
        yield torch.randint(-i, 100 + i, (9,), device="xla")

    for x in fill(1):
        x.cpu()
    xla_go.metrics.clear_all()
    for i in range(2, 7):
        for x in fill(i):
            x.cpu()
    assert xla_go.metrics.counter_value("UncachedCompile") is None


@pytest.mark.parametrize("dtype", [torch.float64, torch.int64])
def test_draws_do_not_overlap(dtype):
    """Draws of any length, one after the other, never share bits: equal 53-bit numbers would show that."""
    torch.manual_seed(8)
    fill = torch.Tensor.uniform_ if dtype.is_floating_point else torch.Tensor.random_
    numbers = torch.cat([fill(torch.empty(n, dtype=dtype, device="xla")).cpu() for n in (1, 2, 3, 4, 5, 7, 8, 9, 100, 33, 1)])
    assert numbers.unique().numel() == numbers.numel()


def threefry(key: int, counter: int) -> int:
    """Threefry-2x32 with 20 rounds (Salmon et al., 2011), its two words as one number."""
    words = 0xFFFFFFFF
    low, high = key & words, key >> 32
    schedule = [low, high, low ^ high ^ 0x1BD11BDA]
    x, y = ((counter & words) + low) & words, ((counter >> 32) + high) & words
    for i in range(20):
        rotation = (13, 15, 26, 6, 17, 29, 16, 24)[i % 8]
        x = (x + y) & words
        y = ((y << rotation | y >> (32 - rotation)) & words) ^ x
        if i % 4 == 3:
            group = i // 4 + 1
            x, y = (x + schedule[group % 3]) & words, (y + schedule[(group + 1) % 3] + group) & words
    return x | y << 32


def test_bits_are_those_of_threefry():
    # Answers that the authors published.
    assert threefry(0, 0) == 0x99BA4EFE_6B200159
    assert threefry(0x03707344_13198A2E, 0x85A308D3_243F6A88) == 0x483DF7A0_C4923A9C
    for seed in (0, 1, 2**40 + 5):
        torch.manual_seed(seed)
        drawn = [torch.empty(n, dtype=torch.int64, device="xla").random_(-(2**63), None).cpu() for n in (5, 3)]
        assert torch.cat(drawn).tolist() == [threefry(seed, i) - 2**63 for i in range(8)]


def test_generator():
    if tuple(int(v) for v in torch.__version__.split(".")[:2]) < (2, 10):
        pytest.skip("torch.Generator('xla') needs torch 2.10")
    generator = torch.Generator("xla").manual_seed(9)
    first = torch.rand(5, device="xla", generator=generator).cpu()
    assert not torch.rand(5, device="xla", generator=generator).cpu().equal(first)
    torch.rand(5, device="xla")  # the default generator is another one
    generator.manual_seed(9)
    assert torch.rand(5, device="xla", generator=generator).cpu().equal(first)


@pytest.mark.parametrize(
    "fill",
    [
        lambda x: x.uniform_(2, 1),
        lambda x: x.uniform_(0, 1e40),
        lambda x: x.normal_(0, -1),
        lambda x: x.exponential_(-1),
        lambda x: x.cauchy_(0, -1),
        lambda x: x.geometric_(2),
        lambda x: x.log_normal_(0, -1),
        lambda x: x.bernoulli_(1.5),
        lambda x: x.bernoulli_(torch.zeros(4, device=x.device)),
        lambda x: x.random_(0),
        lambda x: x.random_(5, 3),
        lambda x: x.byte().random_(300),
        lambda x: x.bool().random_(-1, 1),
        lambda x: x.long().normal_(),
        lambda x: x.long().uniform_(),
        lambda x: x.long().exponential_(),
        lambda x: x.long().cauchy_(),
        lambda x: x.long().bernoulli(),
        lambda x: torch.normal(x, -1.0),
        lambda x: torch.normal(x, torch.ones(4, device=x.device)),
        lambda x: torch.randperm(-1, device=x.device),
        lambda x: torch.randperm(300, dtype=torch.uint8, device=x.device),
        lambda x: torch.multinomial(x.long(), 1),
        lambda x: torch.multinomial(x, 0),
        lambda x: torch.multinomial(x, 4),
        lambda x: torch.multinomial(x[None, None], 1),
    ],
)
def test_errors(fill):
    with pytest.raises(Exception) as want:
        fill(torch.ones(3))
    with pytest.raises(want.type) as got:
        fill(torch.ones(3, device="xla")).cpu()
    assert str(want.value).split("\n")[0] in str(got.value)
