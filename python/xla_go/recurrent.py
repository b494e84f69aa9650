"""GRU: torch.nn.GRU whose steps are one loop of the program on device xla, however long the sequence is."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import nn
from torch.nn.modules.rnn import GRU as _Original
from torch.nn.utils.rnn import PackedSequence

from xla_go.loop import scan_forward

__all__ = ["GRU"]


class _Layer(torch.autograd.Function):
    """h' = (1 - z) n + z h over the elements of `given`, the inputs' products with their weights: r, z and n side by side."""

    @staticmethod
    def forward(ctx: Any, given: torch.Tensor, h: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
        transposed = weight.t().contiguous()

        def step(carry: list[torch.Tensor], x: list[torch.Tensor]) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
            (state,), (own,) = carry, x
            again = state @ transposed if bias is None else torch.addmm(bias, state, transposed)
            (own_r, own_z, own_n), (again_r, again_z, again_n) = own.chunk(3, 1), again.chunk(3, 1)
            r, z = torch.sigmoid(own_r + again_r), torch.sigmoid(own_z + again_z)
            n = torch.tanh(own_n + r * again_n)
            return [n + z * (state - n)], [n + z * (state - n), state.clone(), r, z, n, again_n.clone()]

        (last,), (states, before, *gates) = scan_forward(step, [h], [given], given.shape[0])
        ctx.save_for_backward(weight, before, *gates)
        ctx.has_bias = bias is not None
        return states, last

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[Any, ...]:
        states_gradient, last_gradient = gradients
        weight, before, *gates = ctx.saved_tensors

        def step(carry: list[torch.Tensor], x: list[torch.Tensor]) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
            (later,), (here, state, r, z, n, again_n) = carry, x
            total = later + here
            of_n = total * (1 - z) * (1 - n * n)
            of_z = total * (state - n) * z * (1 - z)
            of_r = of_n * again_n * r * (1 - r)
            again = torch.cat([of_r, of_z, of_n * r], 1)
            return [total * z + again @ weight], [torch.cat([of_r, of_z, of_n], 1), again]

        (first,), (given, again) = scan_forward(step, [last_gradient], [states_gradient, before, *gates], before.shape[0], reverse=True)
        # Weights are the same in all steps: one product for all of them.
        of_weight = again.flatten(0, 1).t() @ before.flatten(0, 1)
        return given, first, of_weight, again.sum((0, 1)) if ctx.has_bias else None


class GRU(_Original):
    """torch.nn.GRU, whose forward and backward are one loop each on device xla.

    Elsewhere, and for packed sequences, forward is torch.nn.GRU's own. A call with `bidirectional=True` or a `dropout` gives a
    torch.nn.GRU. `_orig` is torch.nn.GRU.
    """

    _orig = _Original

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        bidirectional, dropout = kwargs.get("bidirectional", args[6:7] == (True,)), kwargs.get("dropout", args[5] if len(args) > 5 else 0.0)
        if cls is GRU and (bidirectional or dropout):
            return _Original(*args, **kwargs)
        return super().__new__(cls)

    @functools.wraps(_Original.forward)
    def forward(self, input: Any, hx: torch.Tensor | None = None) -> Any:  # type: ignore[override]
        if isinstance(input, PackedSequence) or input.device.type != "xla" or self.bidirectional or self.dropout or input.shape[1 if self.batch_first and input.dim() == 3 else 0] == 0:
            return super().forward(input, hx)
        if input.dim() not in (2, 3):
            raise ValueError(f"GRU: expected a sequence of 2 or 3 dimensions, got {input.dim()}")
        alone = input.dim() == 2
        steps = input.unsqueeze(1) if alone else input.transpose(0, 1) if self.batch_first else input
        if hx is None:
            hx = steps.new_zeros([self.num_layers, steps.shape[1], self.hidden_size])
        elif alone:
            hx = hx.unsqueeze(1)
        self.check_forward_args(steps.transpose(0, 1) if self.batch_first else steps, hx, None)
        last = []
        for layer, h in enumerate(hx.unbind(0)):
            given = nn.functional.linear(steps, getattr(self, f"weight_ih_l{layer}"), getattr(self, f"bias_ih_l{layer}") if self.bias else None)
            bias = getattr(self, f"bias_hh_l{layer}") if self.bias else None
            steps, final = _Layer.apply(given, h, getattr(self, f"weight_hh_l{layer}"), bias)
            last.append(final)
        state = torch.stack(last)
        if alone:
            return steps.squeeze(1), state.squeeze(1)
        return steps.transpose(0, 1) if self.batch_first else steps, state
