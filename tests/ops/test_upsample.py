"""Interpolation and padding on device xla, compared with torch's CPU kernels."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from oracle import check, check_error

aten = torch.ops.aten
MODES = {1: ["nearest", "nearest-exact", "linear"], 2: ["nearest", "nearest-exact", "bilinear", "bicubic"], 3: ["nearest", "nearest-exact", "trilinear"]}


def make(*size: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(size))
    return torch.randn(size, generator=generator, dtype=torch.float64).to(dtype).requires_grad_()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("align", [None, False, True])
@pytest.mark.parametrize(("spatial", "mode"), [(s, m) for s, modes in MODES.items() for m in modes])
def test_sizes(spatial, mode, align, dtype):
    if mode.startswith("nearest") and align is not None:
        pytest.skip("nearest takes no align_corners")
    sizes = [out[:spatial] for out in [(3, 8, 4), (5, 4, 3), (10, 1, 6), (1, 5, 1), (8, 3, 2)]]
    tolerance = (2e-2, 4e-2) if dtype == torch.bfloat16 else (1e-4, 1e-5)
    check(lambda x: [F.interpolate(x, size=size, mode=mode, align_corners=align) for size in sizes], make(2, 2, *[5, 4, 3][:spatial], dtype=dtype), tolerance=tolerance)


@pytest.mark.parametrize("recompute", [None, False, True])
@pytest.mark.parametrize(("spatial", "mode"), [(s, m) for s, modes in MODES.items() for m in modes])
def test_scales(spatial, mode, recompute):
    scales = [1.5, 2, 0.6, 3, 1.3, 0.37]
    check(
        lambda x: [F.interpolate(x, scale_factor=scale, mode=mode, recompute_scale_factor=recompute) for scale in scales],
        make(1, 2, *[7, 6, 5][:spatial]),
        tolerance=(1e-4, 1e-5),
    )


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("align", [False, True])
def test_antialias(mode, align):
    sizes = [(3, 4), (9, 12), (17, 2), (1, 1)]
    check(lambda x: [F.interpolate(x, size=size, mode=mode, antialias=True, align_corners=align) for size in sizes], make(1, 2, 11, 9), tolerance=(1e-4, 1e-5))


def test_nearest_for_many_sizes():
    """A position next to an integer decides which input is read."""
    x = torch.arange(97.0).reshape(1, 1, 97)
    for mode in ("nearest", "nearest-exact"):
        check(lambda x, mode=mode: [F.interpolate(x, size=out, mode=mode) for out in range(1, 300, 7)], x)


def test_bytes():
    x = torch.randint(0, 256, (1, 3, 7, 6), dtype=torch.uint8)
    check(lambda x: F.interpolate(x, size=(10, 5), mode="nearest"), x)


def test_special_values_stay_where_they_are():
    x = make(1, 1, 5, 4).detach()
    x[0, 0, 2, 1], x[0, 0, 4, 3] = float("nan"), float("inf")
    x.requires_grad_()
    check(lambda x: [F.interpolate(x, size=(7, 9), mode=mode) for mode in MODES[2]], x, tolerance=(1e-4, 1e-5))


@pytest.mark.parametrize(
    ("function", "size", "arguments"),
    [
        (aten.upsample_nearest1d, (1, 1, 5), ([2, 2],)),
        (aten.upsample_nearest1d, (1, 5), ([2],)),
        (aten.upsample_nearest1d, (1, 0, 5), ([2],)),
        (aten.upsample_nearest1d, (1, 1, 5), ([0],)),
        (aten.upsample_nearest2d, (1, 1, 5), ([2, 2],)),
        (aten.upsample_nearest2d, (1, 1, 5, 5), ([0, 2],)),
        (aten.upsample_nearest3d, (1, 1, 5, 5, 5), ([2, 2, 0],)),
        (aten.upsample_bilinear2d, (1, 0, 5, 5), ([2, 2], False)),
        (aten.upsample_nearest1d_backward, (1, 1, 3), ([2], [1, 1, 5])),
        (aten.upsample_nearest2d_backward, (1, 1, 2, 3), ([2, 2], [1, 1, 5, 5])),
        (aten.upsample_nearest2d_backward, (1, 1, 2), ([2, 2], [1, 1, 5, 5])),
        (aten.reflection_pad1d, (1, 5), ([5, 0],)),
        (aten.reflection_pad1d, (1, 5), ([-3, -3],)),
        (aten.reflection_pad1d, (0, 5), ([1, 1],)),
        (aten.reflection_pad1d, (1, 5), ([1],)),
        (aten.reflection_pad2d, (1, 5, 5), ([0, 0, 5, 0],)),
        (aten.reflection_pad2d, (1, 5, 5), ([-3, -3, 0, 0],)),
        (aten.reflection_pad3d, (1, 5, 5, 5), ([0, 0, 0, 0, 0, 5],)),
        (aten.reflection_pad3d, (5, 5, 5), ([1] * 6,)),
        (aten.replication_pad1d, (1, 0), ([1, 1],)),
        (aten.replication_pad2d, (5, 5), ([1] * 4,)),
        (aten.replication_pad3d, (1, 5, 5, 5), ([-3, -3, 0, 0, 0, 0],)),
    ],
)
def test_error(function, size, arguments):
    check_error(lambda x: function(x, *arguments), torch.zeros(size))


@pytest.mark.parametrize("kind", ["nearest", "bilinear", "bicubic"])
def test_integer_error(kind):
    check_error(lambda x: F.interpolate(x, size=(2, 2), mode=kind), torch.zeros(1, 1, 4, 4, dtype=torch.int64))


@pytest.mark.parametrize("mode", ["reflect", "replicate"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.complex64])
@pytest.mark.parametrize(
    ("size", "padding"),
    [((2, 3, 5), (2, 1)), ((3, 5), (0, 4)), ((2, 3, 5, 4), (1, 2, 3, 0)), ((3, 5, 4), (2, -1, 0, 1)), ((2, 3, 4, 5, 6), (1, 2, 2, 1, 3, 0)), ((0, 3, 5), (1, 1))],
)
def test_pad(size, padding, dtype, mode):
    # torch's CPU kernel rounds a bf16 gradient after every addition.
    tolerance = (4e-2, 1e-1) if dtype == torch.bfloat16 else None
    check(lambda x: F.pad(x, padding, mode=mode), make(*size).detach().to(dtype).requires_grad_(), tolerance=tolerance)


@pytest.mark.parametrize("mode", ["reflect", "replicate"])
def test_pad_integers(mode):
    check(lambda x: F.pad(x, (1, 2), mode=mode), torch.arange(10).reshape(2, 5))
