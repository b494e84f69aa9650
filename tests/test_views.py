"""Views and in-place writes mean on the device what they mean on the CPU: a storage, seen through strides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import xla_go

Result = torch.Tensor | list[torch.Tensor] | tuple[torch.Tensor, ...]


def grid(device: str, *sizes: int) -> torch.Tensor:
    count = 1
    for size in sizes:
        count *= size
    return torch.arange(float(count)).view(sizes).to(device)


def transpose_add(d: str) -> Result:
    x = grid(d, 3, 4)
    x.t().add_(grid(d, 4, 3))
    return x


def slice_assign(d: str) -> Result:
    x = grid(d, 5, 6)
    x[1:4, ::2] = grid(d, 3, 3) * 10
    return x


def steps_that_do_not_divide(d: str) -> Result:
    x = grid(d, 5, 7)
    x[::2, 1::3] += 100
    return [x, x[::2], x[1::3, ::4], x.t()[::3]]


def diagonal(d: str) -> Result:
    x = grid(d, 4, 4)
    x.diagonal().mul_(-1)
    x.diagonal(1)[0] = 50
    return [x, x.diagonal(-1)]


def expanded_follows_its_base(d: str) -> Result:
    x = grid(d, 3, 1)
    wide = x.expand(3, 4)
    x[1] = 9
    return [wide, wide.sum(1)]


def windows_overlap(d: str) -> Result:
    x = grid(d, 7)
    windows = x.unfold(0, 3, 2)
    x[2] = 100
    return [windows, x.as_strided((3, 3), (1, 1)), x.as_strided((2, 2), (3, 2), 1)]


def siblings(d: str) -> Result:
    x = grid(d, 2, 6)
    a, b = x.chunk(2, 1)
    a.zero_()
    b.t()[1].fill_(7)
    return [x, a, b]


def view_of_view(d: str) -> Result:
    x = grid(d, 2, 3, 4)
    y = x.permute(2, 0, 1)[1:3].transpose(1, 2)
    y.mul_(2)
    return [x, y, y.reshape(-1), x.view(6, 4)[:, 2]]


def data_rebinds(d: str) -> Result:
    x = grid(d, 6)
    view = x.view(2, 3)
    x.data = x.data * 10
    view.add_(1)
    return [x, view]


def set_and_resize(d: str) -> Result:
    x, y = grid(d, 6), torch.zeros(2, device=d)
    y.set_(x.untyped_storage(), 2, (2, 2), (2, 1))
    y.add_(10)
    return [x, y]


def out_is_a_view(d: str) -> Result:
    x = torch.zeros(2, 6, device=d)
    torch.add(grid(d, 2, 3), 1, out=x[:, 1:6:2])
    torch.index_select(grid(d, 4, 3), 0, torch.tensor([3, 1]).to(d), out=x.view(4, 3)[:2])
    return x


def other_dtypes(d: str) -> Result:
    x = torch.tensor([1.0, -2.0, 0.5, 3.0]).to(d)
    bits = x.view(torch.int32)
    bits[0] = 0x40400000
    small = x.view(torch.uint8)[4:8].clone()
    return [x, bits, small, x.view(torch.int16).view(torch.float32)]


def complex_parts(d: str) -> Result:
    z = torch.tensor([1 + 2j, 3 - 4j]).to(d)
    parts = torch.view_as_real(z)
    parts[0, 1] = 8
    z.real[1] = -1
    return [parts, torch.view_as_real(z * 1), torch.view_as_real(z.conj() * 1), z.imag * 1]


def scalar_views(d: str) -> Result:
    x = grid(d, 3)
    x[1].mul_(5)
    x.squeeze()[2].copy_(torch.tensor(-1.0))
    y = torch.tensor(4.0).to(d)
    y.view(1, 1).add_(1)
    return [x, y]


def copies_between_views(d: str) -> Result:
    x = grid(d, 4, 4)
    x[:, 0].copy_(x[0])
    x[1:3, 1:3].copy_(x[2:4, 2:4].t().clone())
    return x


def empty_views(d: str) -> Result:
    x = grid(d, 4, 3)
    x[2:2].add_(1)
    x[:, 3:] = 5
    return [x, x[4:], x.new_empty(0, 3)[:, 1:]]


def written_before_and_after(d: str) -> Result:
    x = grid(d, 4)
    before = x * 1
    head = x[:2]
    x += 1
    middle = head * 1
    head.sub_(5)
    return [before, middle, x]


def boolean_views(d: str) -> Result:
    x = torch.zeros(2, 3, dtype=torch.bool).to(d)
    x[1] = True
    x[:, 2].logical_not_()
    return [x, x.view(torch.uint8)]


def gradients_through_views(d: str) -> Result:
    x = grid(d, 3, 4).requires_grad_()
    y = x * 2
    y[:, 1] = 0
    y.t()[2].mul_(3)
    y[1:].diagonal().add_(x[0, :2])
    y.pow(2).sum().backward()
    assert x.grad is not None
    return [y.detach(), x.grad]


CASES: dict[str, Callable[[str], Result]] = {
    f.__name__: f
    for f in (
        transpose_add, slice_assign, steps_that_do_not_divide, diagonal, expanded_follows_its_base, windows_overlap, siblings,
        view_of_view, data_rebinds, set_and_resize, out_is_a_view, other_dtypes, complex_parts, scalar_views,
        copies_between_views, empty_views, written_before_and_after, boolean_views, gradients_through_views,
    )
}  # fmt: skip


def listed(value: Result) -> list[torch.Tensor]:
    return [value] if isinstance(value, torch.Tensor) else list(value)


@pytest.mark.parametrize("cut", [False, True], ids=["one graph", "cut between"])
@pytest.mark.parametrize("name", CASES)
def test_as_on_the_cpu(name: str, cut: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    want = [t.clone() for t in listed(CASES[name]("cpu"))]
    if cut:  # every write is followed by a step, so that views meet values that are ready
        for method in ("add_", "mul_", "zero_", "fill_", "copy_", "__setitem__", "__iadd__"):
            monkeypatch.setattr(torch.Tensor, method, followed_by_sync(getattr(torch.Tensor, method)))
    before = xla_go.metrics.executed_fallback_ops()
    got = listed(CASES[name]("xla"))
    assert xla_go.metrics.executed_fallback_ops() == before
    for i, (g, w) in enumerate(zip(got, want, strict=True)):
        assert g.dtype == w.dtype and g.shape == w.shape, i
        torch.testing.assert_close(g.cpu(), w, rtol=0, atol=0, msg=lambda m, i=i: f"result {i}: {m}")


def followed_by_sync(method: Callable[..., Any]) -> Callable[..., Any]:
    def wrapped(self: torch.Tensor, *arguments: Any, **keywords: Any) -> Any:
        result = method(self, *arguments, **keywords)
        xla_go.sync()
        return result

    return wrapped


def test_reads_of_views_of_a_ready_value_compile_nothing() -> None:
    x = grid("xla", 8, 8)
    xla_go.sync(wait=True)
    before = xla_go.metrics.metric_data("CompileTime")
    assert [x[i, i].item() for i in range(8)] == [9.0 * i for i in range(8)]
    assert x[2:5, ::3].cpu().tolist() == [[16.0, 19.0, 22.0], [24.0, 27.0, 30.0], [32.0, 35.0, 38.0]]
    assert x.t()[1].tolist() == [8.0 * i + 1 for i in range(8)]
    assert x.as_strided((3, 3), (1, 1)).tolist() == [[0, 1, 2], [1, 2, 3], [2, 3, 4]]
    assert xla_go.metrics.metric_data("CompileTime") == before


def test_a_write_to_shared_elements_raises_as_on_the_cpu() -> None:
    def write(device: str) -> None:
        grid(device, 4).expand(3, 4)[:, 2:].add_(1)

    with pytest.raises(RuntimeError) as expected:
        write("cpu")
    with pytest.raises(RuntimeError, match="refers to a single memory location"):
        write("xla")
    assert "single memory location" in str(expected.value)
