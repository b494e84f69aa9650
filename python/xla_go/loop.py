"""Loops that are one instruction of the program, however many rounds they have: `scan`, `while_loop`, `fori_loop`.

The function of a loop is traced once, on placeholders: tensors without a value. Reading one (`item`, `if`, `print`) raises
FailedPreconditionError, and so does writing to one in place. Tensors of outside that the function uses are given to
the loop as they are. What it draws from the device's random generator differs from round to round. Collectives in it
raise UnimplementedError, and positions and classes out of range are not told of.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from xla_go import errors

__all__ = ["InPlaceError", "fori_loop", "scan_forward", "while_loop"]


class InPlaceError(errors.FailedPreconditionError, AssertionError):
    """The function of a loop has written to a tensor that it was given."""


def placeholders_like(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Tensors of the same sizes and dtypes without a value, for a loop's function."""
    with torch.no_grad():
        return [torch.ops.xla_go.placeholder_like(tensor) for tensor in tensors]


def check_unwritten(function: str, placeholders: Sequence[torch.Tensor]) -> None:
    """Raises InPlaceError where the function of a loop has written to one of its placeholders."""
    for number, placeholder in enumerate(placeholders):
        if placeholder._version:
            raise InPlaceError(f"{function}(): expected a function that leaves its arguments as they are, got an in-place operation on tensor {number} of them")


def _on_device(function: str, tensors: Sequence[Any]) -> None:
    for tensor in tensors:
        if not isinstance(tensor, torch.Tensor) or tensor.device.type != "xla":
            what = f"a tensor on {tensor.device}" if isinstance(tensor, torch.Tensor) else type(tensor).__name__
            raise ValueError(f"{function}(): expected tensors on device xla, got {what}")


def scan_forward(
    function: Callable[[list[torch.Tensor], list[torch.Tensor]], tuple[Sequence[torch.Tensor], Sequence[torch.Tensor]]],
    init: Sequence[torch.Tensor],
    xs: Sequence[torch.Tensor],
    length: int,
    reverse: bool = False,
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """The last carry of `carry, y = function(carry, x)` over the elements x of xs, and all y, without gradients.

    carry, x and y are lists of tensors; those of xs have `length` elements along their first dimension. reverse begins
    with the last one; y of an element still comes to its place. Not blocking.
    """
    carry = placeholders_like(init)
    with torch.no_grad():
        element = placeholders_like([x.select(0, 0) if length else x.new_empty(x.shape[1:]) for x in xs])
    next_carry, ys = function(carry, element)
    check_unwritten("scan", [*carry, *element])
    _on_device("scan", [*init, *xs, *next_carry, *ys])
    with torch.no_grad():
        results = [torch.empty_like(one) for one in init] + [one.new_empty([length, *one.shape]) for one in ys]
        if length == 0:
            for result, one in zip(results, init, strict=False):
                result.copy_(one)
        else:
            # Of the same sizes always, so that what a function gives twice, or gives as it came, is not shared.
            torch.ops.xla_go.scan(list(init), list(xs), carry, element, list(next_carry), list(ys), results, length, reverse)
    return results[: len(init)], results[len(init) :]


def while_loop(cond_fn: Callable[..., Any], body_fn: Callable[..., Any], operands: Sequence[Any], additional_inputs: Sequence[Any] = ()) -> tuple[Any, ...]:
    """`operands = body_fn(*operands, *additional_inputs)` for as long as `cond_fn` of the same gives True, as one instruction.

    operands are tensors, or numbers, which become tensors; the body keeps their sizes and dtypes. cond_fn gives a bool
    tensor of one element. Without gradients and random numbers: how often the body runs is not known before. Not blocking.
    """
    flat, spec = pytree.tree_flatten(tuple(operands))
    device = next((one.device for one in flat if isinstance(one, torch.Tensor) and one.device.type == "xla"), torch.device("xla"))
    with torch.no_grad():
        init = [one if isinstance(one, torch.Tensor) else torch.tensor(one, device=device) for one in flat]
    _on_device("while_loop", init)
    state = placeholders_like(init)
    arguments = pytree.tree_unflatten(state, spec)
    with torch.no_grad():
        condition = cond_fn(*arguments, *additional_inputs)
        if not isinstance(condition, torch.Tensor) or condition.numel() != 1 or condition.dtype != torch.bool:
            raise ValueError(f"while_loop(): expected a condition that is a bool tensor of one element, got {condition if isinstance(condition, torch.Tensor) is False else (condition.dtype, tuple(condition.shape))}")
        result = body_fn(*arguments, *additional_inputs)
        following, result_spec = pytree.tree_flatten(tuple(result) if isinstance(result, (list, tuple)) else (result,))
        if result_spec != spec:
            raise ValueError(f"while_loop(): expected a body that gives its operands' structure {spec}, got {result_spec}")
        check_unwritten("while_loop", state)
        following = [one if isinstance(one, torch.Tensor) else torch.full_like(like, one) for one, like in zip(following, init, strict=True)]
        results = [torch.empty_like(one) for one in init]
        torch.ops.xla_go.while_loop(init, state, condition.reshape(()), following, results)
    return pytree.tree_unflatten(results, spec)


def fori_loop(lower: Any, upper: Any, body_fun: Callable[..., Any], *init: torch.Tensor) -> Any:
    """`state = body_fun(i, *state)` for i from lower to upper (numbers, or tensors of one element); the last state. Not blocking."""
    device = next((one.device for one in init), torch.device("xla"))
    bounds = [torch.as_tensor(bound).to(device=device, dtype=torch.int64).reshape(()) for bound in (lower, upper)]

    def advance(i: torch.Tensor, end: torch.Tensor, *state: torch.Tensor) -> tuple[torch.Tensor, ...]:
        following = body_fun(i, *state)
        return i + 1, end.clone(), *(following if isinstance(following, (list, tuple)) else (following,))

    _, _, *last = while_loop(lambda i, end, *_: i < end, advance, (*bounds, *init))
    return last[0] if len(last) == 1 else tuple(last)


def _register() -> None:
    """torch's own while_loop on device xla is this one."""
    from torch._C import DispatchKey
    from torch._higher_order_ops.while_loop import while_loop_op

    while_loop_op.py_impl(DispatchKey.XLA)(while_loop)


_register()
