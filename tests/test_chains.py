"""Random chains of views, in-place writes and pointwise operators, on device xla and on the CPU at once.

XLA_GO_CHAINS_SEED chooses other chains, those of a number or, with `random`, ever new ones; XLA_GO_CHAINS says how many.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Any

import hypothesis
import pytest
import torch
from hypothesis import strategies as st
from oracle import NEWEST

import xla_go

CHAINS = int(os.environ.get("XLA_GO_CHAINS", "2000"))
CHOSEN = os.environ.get("XLA_GO_CHAINS_SEED", "20261130")
SEED = random.SystemRandom().randrange(1, 1 << 31) if CHOSEN == "random" else int(CHOSEN)
GROUPS = 8

# Values stay small integers, which every one of these types holds exactly, so equal means equal.
DTYPES = [torch.float32, torch.float64, torch.int64, torch.int32, torch.uint8, torch.bool, torch.complex64]
SMALL = st.integers(-3, 3)


class Pair:
    """One tensor in two places, and the words that made it."""

    def __init__(self, cpu: torch.Tensor, xla: torch.Tensor, made: str) -> None:
        self.cpu, self.xla, self.made = cpu, xla, made

    def compare(self) -> None:
        for what in ("size", "storage_offset", "is_contiguous", "is_conj", "is_neg"):
            if what != "storage_offset" or self.cpu.numel():
                assert getattr(self.xla, what)() == getattr(self.cpu, what)(), f"{what} of {self.made}"
        strides = [[stride for stride, size in zip(t.stride(), t.size(), strict=True) if size > 1] for t in (self.xla, self.cpu)]
        assert not self.cpu.numel() or strides[0] == strides[1], f"strides of {self.made}: {self.xla.stride()}, expected {self.cpu.stride()}"
        assert self.xla.dtype == self.cpu.dtype, f"dtype of {self.made}"
        got = self.xla.cpu()
        assert torch.equal(got, self.cpu), f"{self.made}: {got.tolist()}, expected {self.cpu.tolist()}"


def classes(error: Exception) -> type[Exception] | tuple[type[Exception], ...]:
    """What is raised here where the CPU raises that: errors have the classes of the newest torch."""
    if not NEWEST:
        return RuntimeError, IndexError, ValueError, TypeError
    # Where several things are wrong, either may be told first.
    return RuntimeError if isinstance(error, RuntimeError) else type(error)


class Chain:
    """The tensors of a chain, and what is done to them next."""

    def __init__(self, data: st.DataObject) -> None:
        self.data = data
        self.pairs: list[Pair] = []

    def draw(self, strategy: st.SearchStrategy[Any]) -> Any:
        return self.data.draw(strategy)

    def pick(self) -> Pair:
        return self.draw(st.sampled_from(self.pairs))

    def dim(self, tensor: torch.Tensor) -> int:
        hypothesis.assume(tensor.ndim > 0)
        return self.draw(st.integers(-tensor.ndim, tensor.ndim - 1))

    def new(self) -> None:
        sizes = self.draw(st.lists(st.integers(0, 4), max_size=3))
        dtype = self.draw(st.sampled_from(DTYPES))
        count = 1
        for size in sizes:
            count *= size
        values = torch.tensor(self.draw(st.lists(SMALL, min_size=count, max_size=count)), dtype=torch.int64).to(dtype).reshape(sizes)
        self.pairs.append(Pair(values, values.to("xla"), f"t{len(self.pairs)} = {dtype} {sizes}"))

    def apply(self, words: str, act: Callable[..., Any], *inputs: Pair) -> None:
        """Does the same in both places. What raises there raises here, and changes nothing."""
        names = [f"t{self.pairs.index(p)}" for p in inputs]
        words = words.format(*names)
        try:
            want = act(*(p.cpu for p in inputs))
        except (RuntimeError, IndexError, ValueError, TypeError) as error:
            with pytest.raises(classes(error)):
                act(*(p.xla for p in inputs))
            hypothesis.note(f"{words} raises {type(error).__name__}")
            return
        got = act(*(p.xla for p in inputs))
        hypothesis.note(f"t{len(self.pairs)} = {words}")
        if isinstance(want, torch.Tensor) and not any(want is p.cpu for p in self.pairs):
            self.pairs.append(Pair(want, got, f"t{len(self.pairs)} = {words}"))


def transpose(chain: Chain) -> None:
    p = chain.pick()
    a, b = chain.dim(p.cpu), chain.dim(p.cpu)
    chain.apply(f"{{}}.transpose({a}, {b})", lambda t: t.transpose(a, b), p)


def permute(chain: Chain) -> None:
    p = chain.pick()
    order = chain.draw(st.permutations(range(p.cpu.ndim)))
    chain.apply(f"{{}}.permute({order})", lambda t: t.permute(order), p)


def select(chain: Chain) -> None:
    p = chain.pick()
    d = chain.dim(p.cpu)
    i = chain.draw(st.integers(-p.cpu.size(d) - 1, p.cpu.size(d)))
    chain.apply(f"{{}}.select({d}, {i})", lambda t: t.select(d, i), p)


def step_slice(chain: Chain) -> None:
    p = chain.pick()
    hypothesis.assume(p.cpu.ndim > 0)
    index = tuple(slice(*chain.draw(st.tuples(st.none() | st.integers(-4, 4), st.none() | st.integers(-4, 5), st.integers(1, 3)))) for _ in range(p.cpu.ndim))
    chain.apply(f"{{}}[{index}]", lambda t: t[index], p)


def expand(chain: Chain) -> None:
    p = chain.pick()
    front = chain.draw(st.lists(st.integers(1, 3), max_size=1))
    sizes = front + [chain.draw(st.sampled_from([-1, n, 2 if n == 1 else n])) for n in p.cpu.shape]
    chain.apply(f"{{}}.expand({sizes})", lambda t: t.expand(sizes), p)


def reshape(chain: Chain) -> None:
    p = chain.pick()
    count = p.cpu.numel()
    divisors = [n for n in range(1, count + 1) if count % n == 0] or [1]
    a = chain.draw(st.sampled_from(divisors))
    sizes = chain.draw(st.sampled_from([[a, -1], [-1], [1, a, count // a], [count]]))
    how = chain.draw(st.sampled_from(["view", "reshape"]))
    chain.apply(f"{{}}.{how}({sizes})", lambda t: getattr(t, how)(sizes), p)


def as_strided(chain: Chain) -> None:
    p = chain.pick()
    sizes = chain.draw(st.lists(st.integers(0, 3), max_size=3))
    strides = [chain.draw(st.integers(0, 4)) for _ in sizes]
    offset = chain.draw(st.integers(0, 4))
    chain.apply(f"{{}}.as_strided({sizes}, {strides}, {offset})", lambda t: t.as_strided(sizes, strides, offset), p)


def plain_view(chain: Chain) -> None:
    p = chain.pick()
    how = chain.draw(st.sampled_from(["squeeze", "flatten", "diagonal", "conj", "detach", "view_as", "ravel", "mT", "unsqueeze", "adjoint"]))
    act: Callable[[torch.Tensor], torch.Tensor] = {
        "unsqueeze": lambda t: t.unsqueeze(-1),
        "view_as": lambda t: t.view_as(t),
        "mT": lambda t: t.mT,
    }.get(how, lambda t: getattr(t, how)())
    chain.apply(f"{{}}.{how}()", act, p)


def window(chain: Chain) -> None:
    p = chain.pick()
    d, size, step = chain.dim(p.cpu), chain.draw(st.integers(1, 3)), chain.draw(st.integers(1, 2))
    chain.apply(f"{{}}.unfold({d}, {size}, {step})", lambda t: t.unfold(d, size, step), p)


def part(chain: Chain) -> None:
    p = chain.pick()
    d, n = chain.dim(p.cpu), chain.draw(st.integers(1, 3))
    how = chain.draw(st.sampled_from(["chunk", "split", "tensor_split", "unbind"]))
    chain.apply(f"{{}}.{how}({n}, {d})[-1]", lambda t: (t.unbind(d) if how == "unbind" else getattr(t, how)(n, d))[-1], p)


def reinterpret(chain: Chain) -> None:
    p = chain.pick()
    how = chain.draw(st.sampled_from(["int32", "uint8", "float32", "int64", "view_as_real", "view_as_complex", "imag", "real"]))
    if hasattr(torch, how) and isinstance(getattr(torch, how), torch.dtype):
        # Only types whose bits mean small integers in the other, so that no value becomes NaN or huge.
        hypothesis.assume({p.cpu.dtype, getattr(torch, how)} <= {torch.int32, torch.int64, torch.uint8} or p.cpu.dtype == getattr(torch, how))
        chain.apply(f"{{}}.view({how})", lambda t: t.view(getattr(torch, how)), p)
    elif how.startswith("view"):
        chain.apply(f"{how}({{}})", lambda t: getattr(torch, how)(t), p)
    else:
        chain.apply(f"{{}}.{how}", lambda t: getattr(t, how), p)


def unary(chain: Chain) -> None:
    p = chain.pick()
    how = chain.draw(st.sampled_from(["neg", "abs", "sign", "clone", "contiguous", "logical_not", "square", "isnan", "positive", "resolve_conj"]))
    chain.apply(f"{{}}.{how}()", lambda t: getattr(t, how)(), small(chain, p))


def small(chain: Chain, p: Pair) -> Pair:
    """Leaves values alone that a product could take out of the exact range."""
    hypothesis.assume(p.cpu.numel() == 0 or p.cpu.dtype == torch.bool or float(p.cpu.abs().max()) < 1024)
    return p


def written(p: Pair) -> Pair:
    """Leaves tensors alone whose elements overlap in a way that torch does not notice: what a write leaves there is undefined."""
    t = p.cpu
    if t.numel() and 0 not in t.stride():
        places = torch.zeros(t.shape, dtype=torch.int64)
        for d, (size, stride) in enumerate(zip(t.size(), t.stride(), strict=True)):
            places += (torch.arange(size) * stride).reshape([-1 if i == d else 1 for i in range(t.ndim)])
        hypothesis.assume(places.unique().numel() == t.numel())
    return p


def told_apart(target: Pair, *inputs: Pair) -> None:
    """Leaves writes alone whose inputs lie in the target's memory in a way that torch does not look into: it reads what it wrote, or not."""
    for p in inputs:
        same_storage = p.cpu.untyped_storage().data_ptr() == target.cpu.untyped_storage().data_ptr()
        same_view = p.cpu.storage_offset() == target.cpu.storage_offset() and p.cpu.size() == target.cpu.size() and p.cpu.stride() == target.cpu.stride()
        dense = all(torch.ops.aten.is_non_overlapping_and_dense(t) for t in (p.cpu, target.cpu))
        hypothesis.assume(not same_storage or same_view or dense)


BINARY = ["add", "sub", "mul", "maximum", "minimum", "eq", "lt", "logical_and", "bitwise_xor"]


def binary(chain: Chain) -> None:
    a, b = small(chain, chain.pick()), small(chain, chain.pick())
    how = chain.draw(st.sampled_from(BINARY))
    chain.apply(f"{how}({{}}, {{}})", lambda x, y: getattr(torch, how)(x, y), a, b)


def scalar(chain: Chain) -> None:
    p = small(chain, chain.pick())
    how, number = chain.draw(st.sampled_from(["add", "sub", "mul", "eq", "lt"])), chain.draw(st.sampled_from([-1, 0, 2, True, 1.0]))
    chain.apply(f"{how}({{}}, {number})", lambda t: getattr(torch, how)(t, number), p)


def choose(chain: Chain) -> None:
    c, a, b = chain.pick(), chain.pick(), chain.pick()
    chain.apply("where({} != 0, {}, {})", lambda x, y, z: torch.where(x != 0, y, z), c, a, b)


def in_place(chain: Chain) -> None:
    p = written(small(chain, chain.pick()))
    how = chain.draw(st.sampled_from(["neg_", "abs_", "zero_", "sign_", "logical_not_", "squeeze_", "t_", "conj_physical_", "resolve_neg"]))
    chain.apply(f"{{}}.{how}()", lambda t: getattr(t, how)(), p)


def in_place_scalar(chain: Chain) -> None:
    p = written(small(chain, chain.pick()))
    how, number = chain.draw(st.sampled_from(["fill_", "add_", "mul_", "sub_", "eq_", "clamp_"])), chain.draw(st.sampled_from([-1, 0, 2, True, 1.0]))
    # An older torch wraps a bound that the type does not have.
    hypothesis.assume(NEWEST or how != "clamp_" or p.cpu.dtype != torch.uint8)
    chain.apply(f"{{}}.{how}({number})", lambda t: getattr(t, how)(number), p)


def in_place_binary(chain: Chain) -> None:
    a, b = written(small(chain, chain.pick())), small(chain, chain.pick())
    told_apart(a, b)
    how = chain.draw(st.sampled_from(["add_", "sub_", "mul_", "copy_", "copy_", "eq_", "logical_and_"]))
    chain.apply(f"{{}}.{how}({{}})", lambda x, y: getattr(x, how)(y), a, b)


def masked(chain: Chain) -> None:
    a, b = written(chain.pick()), chain.pick()
    told_apart(a, b)
    number = chain.draw(SMALL)
    # torch's CPU still lets an expanded tensor be written to, with a warning that this will end.
    hypothesis.assume(a.cpu.numel() == 0 or 0 not in a.cpu.stride())
    chain.apply(f"{{}}.masked_fill_({{}} != 0, {number})", lambda x, y: x.masked_fill_(y != 0, number), a, b)


def set_item(chain: Chain) -> None:
    a, b = written(chain.pick()), chain.pick()
    hypothesis.assume(a.cpu.ndim > 0)
    i = chain.draw(st.integers(-4, 4))
    if -a.cpu.size(0) <= i < a.cpu.size(0):
        told_apart(Pair(a.cpu[i], a.xla, ""), b)
    chain.apply(f"{{}}[{i}] = {{}}", lambda x, y: x.__setitem__(i, y), a, b)


def out(chain: Chain) -> None:
    a, b, c = small(chain, chain.pick()), small(chain, chain.pick()), written(chain.pick())
    told_apart(c, a, b)
    how = chain.draw(st.sampled_from(BINARY))
    # torch resizes an `out` of another size, which is deprecated where it has elements.
    hypothesis.assume(c.cpu.shape == torch.broadcast_shapes(a.cpu.shape, b.cpu.shape) if broadcastable(a, b) else True)
    chain.apply(f"{how}({{}}, {{}}, out={{}})", lambda x, y, z: getattr(torch, how)(x, y, out=z), a, b, c)


def broadcastable(a: Pair, b: Pair) -> bool:
    return all(m == n or m == 1 or n == 1 for m, n in zip(reversed(a.cpu.shape), reversed(b.cpu.shape), strict=False))


def rebind(chain: Chain) -> None:
    a, b = chain.pick(), chain.pick()
    hypothesis.assume(a is not b)

    def act(x: torch.Tensor, y: torch.Tensor) -> None:
        x.data = y

    chain.apply("{}.data = {}", act, a, b)


def cut(chain: Chain) -> None:
    hypothesis.note("sync()")
    xla_go.sync()


def read(chain: Chain) -> None:
    chain.pick().compare()


STEPS = [
    transpose, permute, select, step_slice, expand, reshape, as_strided, plain_view, window, part, reinterpret, unary, binary, scalar,
    choose, in_place, in_place_scalar, in_place_binary, masked, set_item, out, rebind, cut, read, Chain.new,
]  # fmt: skip


@pytest.mark.parametrize("group", range(GROUPS))
@pytest.mark.filterwarnings("ignore")
def test_chains_are_as_on_the_cpu(group: int, record_property: Callable[[str, object], None]) -> None:
    print(f"XLA_GO_CHAINS_SEED={SEED}")
    record_property("seed", SEED)

    @hypothesis.seed(SEED * GROUPS + group)
    @hypothesis.settings(max_examples=CHAINS // GROUPS, deadline=None, database=None, print_blob=True, suppress_health_check=list(hypothesis.HealthCheck))
    @hypothesis.given(st.data())
    def run(data: st.DataObject) -> None:
        chain = Chain(data)
        chain.new()
        for step in data.draw(st.lists(st.sampled_from(STEPS), min_size=4, max_size=10)):
            step(chain)
        xla_go.sync()
        for pair in chain.pairs:
            pair.compare()

    run()
