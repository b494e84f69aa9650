"""gradient_accumulation: forward and backward of many small batches as one loop of the program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from xla_go.loop import scan_forward

__all__ = ["gradient_accumulation"]


def gradient_accumulation(
    accum_fn: Callable[..., Any], iterable_tensors: Sequence[torch.Tensor], model: torch.nn.Module, *carried_tensors: torch.Tensor
) -> tuple[torch.Tensor, ...]:
    """Adds the gradients of `accum_fn` over the elements of iterable_tensors to those of the model's parameters.

    `loss, *carried = accum_fn(*elements, *carried)` runs for each element along the first dimension of iterable_tensors, which
    share its size n; loss / n is differentiated. Gives the sum of loss / n, and the last carried tensors, which keep their
    sizes and dtypes. accum_fn is traced once; it may draw random numbers, and may not write to its arguments (InPlaceError).

    Not blocking. ValueError without tensors, or where they differ in length.
    """
    tensors = list(iterable_tensors)
    lengths = {tensor.shape[0] if tensor.dim() else 0 for tensor in tensors}
    if len(lengths) != 1 or 0 in lengths:
        raise ValueError(f"gradient_accumulation(): expected tensors of one length along their first dimension, got {[tuple(one.shape) for one in tensors]}")
    (count,) = lengths
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not parameters:
        raise ValueError("gradient_accumulation(): expected a model with parameters that require gradients")
    carried = len(carried_tensors)

    def round_(state: list[torch.Tensor], elements: list[torch.Tensor]) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        with torch.enable_grad():
            result = accum_fn(*elements, *state[:carried])
            loss, *following = result if isinstance(result, (list, tuple)) else (result,)
            share = loss / count
            gradients = torch.autograd.grad(share, parameters, allow_unused=True)
        total, *sums = state[carried:]
        with torch.no_grad():
            added = [one if gradient is None else one + gradient for one, gradient in zip(sums, gradients, strict=True)]
            return [*(one.detach() for one in following), total + share.detach(), *added], []

    with torch.no_grad():
        total = torch.zeros((), dtype=torch.float32, device=parameters[0].device)
        sums = [torch.zeros_like(one) if one.grad is None else one.grad for one in parameters]
        results, _ = scan_forward(round_, [*carried_tensors, total, *sums], tensors, count)
        for parameter, gradient in zip(parameters, results[carried + 1 :], strict=True):
            parameter.grad = gradient
    return (results[carried], *results[:carried])
