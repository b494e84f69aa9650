"""Convolutions on device xla, compared with torch's CPU kernels."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from oracle import check, check_error

FLOATS = [torch.float32, torch.float64, torch.bfloat16]


def make(*size: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(size))
    return torch.randn(size, generator=generator, dtype=torch.float64).to(dtype).requires_grad_()


CASES = [
    dict(stride=1, padding=0, dilation=1),
    dict(stride=2, padding=1, dilation=1),
    dict(stride=1, padding=2, dilation=2),
    dict(stride=3, padding=1, dilation=2),
]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("spatial", [1, 2, 3])
def test_convolution(spatial, groups, case, dtype):
    if dtype != torch.float32 and (groups == 2 or spatial == 3):
        pytest.skip("covered by float32")
    sizes = [9, 8, 7][:spatial]
    function = [F.conv1d, F.conv2d, F.conv3d][spatial - 1]
    x, weight, bias = make(2, 4, *sizes, dtype=dtype), make(8, 4 // groups, *[3, 2, 3][:spatial], dtype=dtype), make(8, dtype=dtype)
    tolerance = (3e-2, 6e-2) if dtype == torch.bfloat16 else (1e-4, 2e-5)
    check(lambda x, w, b: function(x, w, b, groups=groups, **case), x, weight, bias, tolerance=tolerance)


@pytest.mark.parametrize("output_padding", [0, 1])
@pytest.mark.parametrize("case", CASES[1:], ids=str)
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("spatial", [1, 2, 3])
def test_transposed(spatial, groups, case, output_padding):
    if output_padding >= max(case["stride"], case["dilation"]):
        pytest.skip("torch refuses it")
    function = [F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d][spatial - 1]
    x, weight, bias = make(2, 4, *[5, 4, 3][:spatial]), make(4, 3, *[3, 2, 3][:spatial]), make(3 * groups)
    check(lambda x, w, b: function(x, w, b, groups=groups, output_padding=output_padding, **case), x, weight, bias, tolerance=(1e-4, 2e-5))


@pytest.mark.parametrize("kernel", [1, 3, 5])
@pytest.mark.parametrize("padding", [0, 1, "same"])
def test_padding(kernel, padding):
    """Padding beyond what the kernel reaches makes the gradient's padding negative."""
    check(lambda x, w: F.conv2d(x, w, padding=padding), make(1, 2, 6, 7), make(3, 2, kernel, kernel), tolerance=(1e-4, 2e-5))


def test_uneven_stride_leaves_inputs_out():
    check(lambda x, w: F.conv2d(x, w, stride=(2, 3)), make(1, 2, 8, 10), make(3, 2, 3, 2), tolerance=(1e-4, 2e-5))


def test_without_batch_and_empty_batch():
    check(lambda x, w, b: F.conv2d(x, w, b), make(2, 6, 7), make(3, 2, 3, 3), make(3), tolerance=(1e-4, 2e-5))
    check(lambda x, w, b: F.conv2d(x, w, b), make(0, 2, 6, 7), make(3, 2, 3, 3), make(3))


@pytest.mark.parametrize("wanted", [(True, False, False), (False, True, False), (False, False, True), (False, True, True)])
def test_some_gradients(wanted):
    x, weight, bias = make(2, 4, 6, 6), make(4, 4, 3, 3), make(4)
    for t, w in zip((x, weight, bias), wanted, strict=True):
        t.requires_grad_(w)
    check(lambda x, w, b: F.conv2d(x, w, b, padding=1), x, weight, bias, tolerance=(1e-4, 2e-5))


def test_channels_last():
    x = make(2, 4, 6, 6).detach().to(memory_format=torch.channels_last).requires_grad_()
    check(lambda x, w: F.conv2d(x, w), x, make(4, 4, 3, 3), tolerance=(1e-4, 2e-5))


@pytest.mark.parametrize(
    "arguments",
    [
        [make(1, 2, 5, 5), make(3, 4, 3, 3)],
        [make(1, 2, 2, 2), make(3, 2, 3, 3)],
        [make(1, 2, 5, 5, dtype=torch.float64), make(3, 2, 3, 3)],
        [make(1, 2, 5, 5), make(3, 2, 3, 3, dtype=torch.float64)],
        [make(1, 2, 5, 5), make(3, 2, 3, 3), make(3, dtype=torch.float64)],
        [make(1, 2, 5, 5), make(3, 2, 3, 3), make(4)],
        [make(5, 5), make(3, 2, 3, 3)],
    ],
)
def test_error(arguments):
    check_error(F.conv2d, *arguments)
