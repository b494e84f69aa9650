"""Linear layers whose products keep all dimensions of their input, so that the partitioner need not give up its division."""

from __future__ import annotations

from typing import Any

import torch

from xla_go.rematerialization import optimization_barrier

__all__ = ["EinsumLinear", "XLAPatchedLinear", "apply_backward_optimization_barrier", "apply_xla_patch_to_nn_linear", "xla_patched_nn_linear_forward"]


class XLAPatchedLinear(torch.autograd.Function):
    """`input @ weight.T + bias` and its gradients without reshapes: `apply(input, weight, bias)`, bias may be None.

    torch's own puts all dimensions of the input but the last one together, in which a division of several of them is lost.
    """

    @staticmethod
    def forward(ctx: Any, input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        ctx.save_for_backward(input, weight)
        product = torch.einsum("...n,mn->...m", input, weight)
        return product if bias is None else product + bias

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:  # type: ignore[override]
        input, weight = ctx.saved_tensors
        wanted = ctx.needs_input_grad
        return (
            torch.einsum("...m,mn->...n", gradient, weight) if wanted[0] else None,
            torch.einsum("...m,...n->mn", gradient, input) if wanted[1] else None,
            torch.einsum("...m->m", gradient) if len(wanted) > 2 and wanted[2] else None,
        )


def xla_patched_nn_linear_forward(m: torch.nn.Linear, input: torch.Tensor) -> torch.Tensor:
    """What a linear layer computes, by XLAPatchedLinear."""
    return XLAPatchedLinear.apply(input, m.weight, m.bias)


class EinsumLinear(torch.nn.Linear):
    """torch.nn.Linear by XLAPatchedLinear."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return xla_patched_nn_linear_forward(self, input)


def apply_xla_patch_to_nn_linear(module: torch.nn.Module) -> torch.nn.Module:
    """Makes each torch.nn.Linear of a module, itself too, an EinsumLinear with the same parameters. Gives the module."""
    for one in module.modules():
        if type(one) is torch.nn.Linear:
            one.__class__ = EinsumLinear
    return module


def apply_backward_optimization_barrier(m: torch.nn.Module) -> torch.utils.hooks.RemovableHandle:
    """Has XLA compute a module's gradients before those of the modules ahead of it: the gradients of its inputs pass a barrier."""

    def hook(module: torch.nn.Module, inputs: Any, outputs: Any) -> Any:
        there = [place for place, gradient in enumerate(inputs) if gradient is not None]
        result = list(inputs)
        for place, gradient in zip(there, optimization_barrier([inputs[place] for place in there]), strict=True):
            result[place] = gradient
        return tuple(result)

    return m.register_full_backward_hook(hook)
