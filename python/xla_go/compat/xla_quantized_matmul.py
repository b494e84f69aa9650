"""What `torch_xla.experimental.xla_quantized_matmul` gives after `xla_go.compat.install()`: `torch.ops.xla.quantized_matmul` and its layer.

Weights are int8, of shape [outputs, inputs] with a scale for each output, or, in blocks along the inputs, of shape
[inputs / block_size, block_size, outputs] with a scale for each block and output. A zero point, where there is one, is of the scale's shape
and has been multiplied by it.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.ao.quantization.fx._decomposed  # torch.ops.quantized_decomposed, which weights are quantized by

from xla_go import quantized

_LIBRARY = torch.library.Library("xla", "FRAGMENT")
_LIBRARY.define(
    "quantized_matmul(Tensor x, Tensor w, Tensor scale, Tensor? zero_point=None, int? block_size=-1, bool? int4_weight=False,"
    " bool? quantize_activation=False) -> Tensor"
)

# Products of x [..., inputs] with w [outputs, inputs], and of x [..., blocks, inputs] with w [blocks, inputs, outputs], in a dtype;
# the last says whether weights are integers of 4 bits.
_Product = Callable[[torch.Tensor, torch.Tensor, torch.dtype, bool], torch.Tensor]


def _check(inputs: int, w: torch.Tensor, scale: torch.Tensor, zero_point: torch.Tensor | None, block_size: int) -> None:
    assert w.dtype == torch.int8, f"quantized_matmul(): expected weights of dtype int8, got {w.dtype}"
    sizes: tuple[int, ...]
    scales: tuple[int, ...]
    if block_size == -1:
        sizes, scales = (*scale.shape, inputs), (w.shape[0],)
    else:
        assert inputs % block_size == 0, f"quantized_matmul(): expected a number of inputs that blocks of {block_size} divide, got {inputs}"
        sizes, scales = (inputs // block_size, block_size, scale.shape[-1]), (w.shape[0], w.shape[-1])
    assert w.shape == sizes, f"quantized_matmul(): expected weights of shape {sizes}, got {tuple(w.shape)}"
    for name, tensor in (("scales", scale), ("zero points", zero_point)):
        assert tensor is None or tensor.shape == scales, f"quantized_matmul(): expected {name} of shape {scales}, got {tuple(tensor.shape)}"


def _quantized(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Each row as 8-bit integers, and the factor of each."""
    scale = x.abs().amax(-1, keepdim=True) / 127
    return (x / scale.where(scale > 0, 1)).round().to(torch.int8), scale


def _operator(whole: _Product, blocks: _Product) -> Callable[..., torch.Tensor]:
    """quantized_matmul by these products."""

    def quantized_matmul(
        x: torch.Tensor,
        w: torch.Tensor,
        scale: torch.Tensor,
        zero_point: torch.Tensor | None = None,
        block_size: int | None = -1,
        int4_weight: bool | None = False,
        quantize_activation: bool | None = False,
    ) -> torch.Tensor:
        size, four_bits = -1 if block_size is None else block_size, bool(int4_weight)
        _check(x.shape[-1], w, scale, zero_point, size)
        if size != -1:
            assert not quantize_activation, "quantized_matmul(): expected floating-point activations with weights in blocks"
            x = x.unflatten(-1, (-1, size))
            result = (blocks(x, w, x.dtype, four_bits) * scale).sum(-2)
            return result if zero_point is None else result - x.sum(-1) @ zero_point
        factor = None
        if quantize_activation:
            x, factor = _quantized(x)
        result = whole(x, w, torch.int32 if quantize_activation else x.dtype, four_bits) * scale
        if zero_point is not None:
            result = result - x.sum(-1, keepdim=True) * zero_point
        return result if factor is None else result * factor

    return quantized_matmul


_LIBRARY.impl(
    "quantized_matmul",
    _operator(
        lambda x, w, dtype, four_bits: torch.nn.functional.linear(x.to(dtype), w.to(dtype)),
        lambda x, w, dtype, four_bits: torch.einsum("...sc,scn->...sn", x, w.to(dtype)),
    ),
    "CompositeExplicitAutograd",
)
_LIBRARY.impl(
    "quantized_matmul",
    _operator(
        lambda x, w, dtype, four_bits: quantized.dot_general(x, w, ([-1], [-1]), dtype=dtype, four_bits=four_bits),
        lambda x, w, dtype, four_bits: quantized.dot_general(x, w, ([-1], [1]), ([-2], [0]), dtype=dtype, four_bits=four_bits).movedim(0, -2),
    ),
    "XLA",
)


class XlaQuantizedLinear(torch.nn.Module):
    """A linear layer without bias, by quantized_matmul. It has zero weights until load_quantized_weight."""

    def __init__(
        self, input_dim: int, output_dim: int, is_symmetric: bool = False, block_size: int = -1, int4_weight: bool = False, quantize_activation: bool = False
    ) -> None:
        super().__init__()
        self.input_dim, self.output_dim, self.is_symmetric = input_dim, output_dim, is_symmetric
        self.block_size, self.int4_weight, self.quantize_activation = block_size, int4_weight, quantize_activation
        blocks = () if block_size == -1 else (input_dim // block_size,)
        self.register_buffer("weight", torch.zeros((*blocks, block_size, output_dim) if blocks else (output_dim, input_dim), dtype=torch.int8))
        self.register_buffer("weight_scaler", torch.zeros((*blocks, output_dim)))
        self.register_buffer("zero_point", None if is_symmetric else torch.zeros((*blocks, output_dim)))

    def load_quantized_weight(self, weight: torch.Tensor, weight_scaler: torch.Tensor, zero_point: torch.Tensor | None = None) -> None:
        """Takes weights, scales and zero points as quantized_matmul does. AssertionError for those that do not fit."""
        _check(self.input_dim, weight, weight_scaler, zero_point, self.block_size)
        self.weight, self.weight_scaler, self.zero_point = weight, weight_scaler, zero_point

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.ops.xla.quantized_matmul(
            x, self.weight, self.weight_scaler, self.zero_point,
            block_size=self.block_size, int4_weight=self.int4_weight, quantize_activation=self.quantize_activation,
        )  # fmt: skip
