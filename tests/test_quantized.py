"""Products of two types: integer weights, 8-bit floats, and torch_xla's quantized_matmul."""

from __future__ import annotations

import pytest
import torch

from support import Child
from xla_go import debug
from xla_go.quantized import dot_general


def test_a_product_of_two_types_is_one_instruction() -> None:
    torch.manual_seed(0)
    x, w = torch.randn(2, 3, 5), torch.randint(-128, 128, (3, 5, 4), dtype=torch.int8)
    result = dot_general(x.to("xla"), w.to("xla"), ([-1], [1]), ([1], [0]), dtype=torch.float32)
    assert "convert" not in debug.graph(result).hlo
    torch.testing.assert_close(result.cpu(), torch.einsum("bsc,scn->sbn", x, w.float()))
    a, b = (torch.randint(-128, 128, shape, dtype=torch.int8) for shape in ((3, 700), (700, 2)))
    whole = dot_general(a.to("xla"), b.to("xla"), ([1], [0]), dtype=torch.int32)
    assert torch.equal(whole.cpu(), a.int() @ b.int())  # more than 8 bits hold


def test_four_bits() -> None:
    x, w = torch.ones(2, 3, device="xla", dtype=torch.bfloat16), torch.ones(3, 4, device="xla", dtype=torch.int8)
    graph = debug.graph(dot_general(x, w, ([1], [0]), dtype=torch.bfloat16, four_bits=True))
    assert "s4[3,4]" in graph.hlo and "tensor<3x4xi4>" in graph.stablehlo


def test_what_does_not_fit() -> None:
    x, w = torch.ones(2, 3, device="xla"), torch.ones(3, 4, device="xla", dtype=torch.int8)
    for arguments, keywords, words in (((x, w, ([1], [1])), {}, "equal size"), ((x, w, ([1, 1], [0, 0])), {}, "distinct"), ((x, w, ([1], [])), {}, "pairs"),
                                       ((x, w > 0, ([1], [0])), {}, "real numbers"), ((w, x, ([0], [1])), {"four_bits": True}, "8-bit integers")):  # fmt: skip
        with pytest.raises(ValueError, match=words):
            dot_general(*arguments, dtype=torch.float32, **keywords)
    with pytest.raises(IndexError):
        dot_general(x, w, ([2], [0]), dtype=torch.float32)


@pytest.mark.parametrize("dtype", [torch.float8_e5m2, torch.float8_e4m3fn])
def test_products_of_8_bit_floats(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    x, w = torch.rand(3, 2).to(dtype), torch.rand(2, 5).to(dtype)
    for product in (torch.mm(x.to("xla"), w.to("xla")), torch.bmm(x[None].to("xla"), w[None].to("xla"))[0]):
        assert product.dtype == dtype
        torch.testing.assert_close(product.cpu().float(), (x.float() @ w.float()).to(dtype).float())


def test_quantized_matmul_of_torch_xla(child: Child) -> None:
    child("""
        import xla_go.compat as compat
        compat.install()
        import torch
        from torch_xla.experimental.xla_quantized_matmul import XlaQuantizedLinear
        import torch_xla.debug.metrics_compare_utils as compared
        torch.manual_seed(0)
        for block, activation in ((-1, False), (-1, True), (2, False)):
            layer = XlaQuantizedLinear(6, 4, block_size=block, quantize_activation=activation)
            scales = (4,) if block == -1 else (3, 4)
            weight = torch.randint(-128, 127, (4, 6) if block == -1 else (3, 2, 4)).to(torch.int8)
            scale, zero = torch.rand(scales), torch.rand(scales)
            layer.load_quantized_weight(weight, scale, zero)
            x = torch.randn(5, 6)
            whole = (weight.T * scale - zero) if block == -1 else (weight * scale[:, None] - zero[:, None]).reshape(6, 4)
            want = x @ whole
            here = layer(x)
            torch.testing.assert_close(here, want, atol=4 if activation else 1e-3, rtol=1e-3)
            torch.testing.assert_close(layer.to("xla")(x.to("xla")).cpu(), here, atol=1e-3, rtol=1e-3)
            try:
                layer.load_quantized_weight(weight.T, scale, zero)
            except AssertionError as error:
                assert "weights of shape" in str(error)

        import torch_xla.debug.metrics as metrics
        report = metrics.metrics_report()
        points = compared.parse_metrics_report(report)
        assert points["CompileTime__TotalSamples"] == 3 and points["CompileTime__Percentile_50_sec"] > 0 and points["OutboundData__Accumulator_mb"] > 0
        over = compared.get_data_points_from_metrics_reports([report, report])
        assert over["UncachedCompile__Value"] == [3, 3] and compared.compare_metrics(over, report) == ""
        over["UncachedCompile__Value"] = [2, 2]
        assert compared.compare_metrics(over, report).startswith("UncachedCompile__Value failed")
    """)
