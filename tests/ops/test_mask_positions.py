"""Operators that count the true elements of a mask, and repeat_interleave of a given size, on device xla."""

from __future__ import annotations

import pytest
import torch
from oracle import NEWEST, check, check_error

DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.uint8, torch.bool, torch.complex64]


def mask(*size: int, share: float = 0.4) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(size))
    return torch.rand(size, generator=generator) < share


def numbers(*size: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1 + sum(size))
    return (torch.randn(size, generator=generator) * 4).to(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_masked_scatter(dtype):
    check(torch.masked_scatter, numbers(3, 40, dtype=dtype), mask(3, 40), numbers(120, dtype=dtype))
    check(lambda x, m, s: x.masked_scatter_(m, s), numbers(3, 40, dtype=dtype), mask(40), numbers(9, 12, dtype=dtype))


def test_masked_scatter_of_other_sizes():
    check(torch.masked_scatter, numbers(4), mask(3, 4), numbers(12))
    check(torch.masked_scatter, numbers(3, 1), mask(1, 4), numbers(2, 6))
    check(torch.masked_scatter, numbers(), mask(), numbers(1))
    check(torch.masked_scatter, numbers(0, 3), mask(0, 3), numbers(0))
    check(torch.masked_scatter, numbers(3), torch.zeros(3, dtype=torch.bool), numbers(0))
    check(torch.masked_scatter, numbers(3), torch.ones(3, dtype=torch.bool), numbers(3))


def test_masked_scatter_writes_a_view():
    def write(x, m, s):
        x = x.clone()
        x.t()[1:].masked_scatter_(m, s)
        return x

    check(write, numbers(4, 5), mask(4, 4), numbers(16))


def test_masked_scatter_gradients():
    x, source = numbers(5, 7).requires_grad_(), numbers(4, 9).requires_grad_()
    check(torch.masked_scatter, x, mask(5, 7), source)
    check(torch.masked_scatter, numbers(7).requires_grad_(), mask(5, 7), source)


@pytest.mark.parametrize("source", [0, 1])
def test_masked_scatter_of_too_few(source):
    m = torch.tensor([True, False, True])
    check_error(torch.masked_scatter, numbers(3), m, numbers(source))
    check_error(lambda x, m, s: x.masked_scatter_(m, s), numbers(3), m, numbers(source))


def test_masked_scatter_errors():
    check_error(torch.masked_scatter, numbers(3), mask(3), numbers(3, dtype=torch.float64))
    check_error(torch.masked_scatter, numbers(3), mask(3).int(), numbers(3))
    check_error(torch.masked_scatter, numbers(3), mask(4), numbers(3))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [0, 1, 5, 200])
def test_nonzero_static(dtype, size):
    x = numbers(3, 4, 6, dtype=dtype) * mask(3, 4, 6)
    check(lambda x: torch.nonzero_static(x, size=size), x)
    check(lambda x: torch.nonzero_static(x[1], size=size, fill_value=-7), x)


def test_nonzero_static_of_other_sizes():
    check(lambda x: torch.nonzero_static(x, size=3), torch.tensor(2.0))
    check(lambda x: torch.nonzero_static(x, size=3), torch.ones(2, 0, 3))
    check(lambda x: torch.nonzero_static(x, size=3), torch.tensor([0.0, float("nan"), -0.0, 1.0]))
    check_error(lambda x: torch.nonzero_static(x, size=-1), torch.ones(3))


def test_nonzero_static_has_one_program_for_all_fill_values():
    x = torch.tensor([0, 1, 0, 2], device="xla")
    for fill in (-1, 5, 2**40):
        assert torch.nonzero_static(x, size=3, fill_value=fill).tolist() == [[1], [3], [fill]]


@pytest.mark.parametrize(("repeats", "size"), [([1, 2], 5), ([1, 2], 2), ([1, 2], -3)])
def test_repeat_interleave_of_a_wrong_size(repeats, size):
    if size < 0 and not NEWEST:
        pytest.skip("its words differ between the releases of torch")
    check_error(lambda r: torch.repeat_interleave(r, output_size=size), torch.tensor(repeats))


@pytest.mark.parametrize("repeats", [[3, -1], [1, -2, 3]])
def test_repeat_interleave_of_negative_repeats(repeats):
    # Not beside the CPU: its kernel may write beyond its result before it finds the negative one.
    with pytest.raises(RuntimeError, match="repeats can not be negative"):
        torch.repeat_interleave(torch.tensor(repeats, device="xla"), output_size=2).cpu()


def test_repeat_interleave_of_nothing():
    check(lambda r: torch.repeat_interleave(r, output_size=0), torch.tensor([0, 0]))
    check(lambda r: torch.repeat_interleave(r, output_size=3), torch.tensor([], dtype=torch.int64))
    check(lambda r: torch.repeat_interleave(r, output_size=3), torch.tensor([0, 3, 0], dtype=torch.int32))
    check_error(lambda r: torch.repeat_interleave(r, output_size=1), torch.ones(1))
