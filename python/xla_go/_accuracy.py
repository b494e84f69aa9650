"""XLA_GO_CHECK=cpu: every operator on the device is run on the CPU as well, and the first that differs raises."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from xla_go import _runtime, _stacks, errors

VARIABLE = "XLA_GO_CHECK"

# What these give is not determined by their arguments.
_UNINITIALISED = ("empty", "empty_like", "empty_strided", "empty_permuted", "empty_quantized", "new_empty", "new_empty_strided")
# What these do is about memory and not about values.
_MEMORY = ("set_", "resize_", "resize_as_", "record_stream")

_mode: _Comparison | None = None


def start() -> None:
    """Begins to compare in the calling thread, and in the backward passes that it starts, where XLA_GO_CHECK asks for it.

    For the rest of the process; idempotent. Raises ImportError for a value that it does not know.
    """
    global _mode
    value = os.environ.get(VARIABLE, "")
    if value not in ("", "cpu"):
        raise ImportError(f"xla_go: {VARIABLE}: expected 'cpu' or nothing, got {value!r}")
    if value and _mode is None:
        _mode = _Comparison()
        _mode.__enter__()


class _Comparison(TorchDispatchMode):
    """Sees what comes below autograd, so in-place and out= variants, views and gradients as they reach the device."""

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        keywords = dict(kwargs or {})
        if not _concerns(func, args, keywords):
            return func(*args, **keywords)
        theirs = _on_cpu((args, keywords))
        got = func(*args, **keywords)
        if any(_on_device(leaf) for leaf in tree_leaves(got)):
            _compare(func, args, keywords, got, *theirs)
        return got


def _concerns(func: Any, args: tuple[Any, ...], keywords: Mapping[str, Any]) -> bool:
    """Whether a call computes something on the device that the CPU computes as well."""
    if not any(_is_of_device(leaf) for leaf in tree_leaves((args, keywords))):
        return False
    name = func._schema.name.partition("::")[2]
    if name in _UNINITIALISED or name in _MEMORY or torch.Tag.nondeterministic_seeded in func.tags:
        return False
    results = func._schema.returns
    return any(r.alias_info is None or r.alias_info.is_write for r in results) or any(_is_written(a) for a in func._schema.arguments)


def _on_device(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.device.type == "xla"


def _is_of_device(value: Any) -> bool:
    return value.type == "xla" if isinstance(value, torch.device) else _on_device(value)


def _is_written(argument: Any) -> bool:
    return argument.alias_info is not None and argument.alias_info.is_write


def _on_cpu(value: Any) -> Any:
    """A copy on the CPU; a tensor that is there twice is so in the copy too."""
    known: dict[int, torch.Tensor] = {}

    def copy(leaf: Any) -> Any:
        if isinstance(leaf, torch.device):
            return torch.device("cpu") if leaf.type == "xla" else leaf
        if not isinstance(leaf, torch.Tensor):
            return leaf
        if id(leaf) not in known:
            known[id(leaf)] = leaf.detach().cpu() if leaf.device.type == "xla" else leaf.detach().clone()
        return known[id(leaf)]

    return tree_map(copy, value)


def _compare(func: Any, args: tuple[Any, ...], keywords: dict[str, Any], got: Any, cpu_args: tuple[Any, ...], cpu_keywords: dict[str, Any]) -> None:
    described = _describe(cpu_args, cpu_keywords)  # before the CPU writes to them
    try:
        want = func(*cpu_args, **cpu_keywords)
    except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError):
        for leaf in tree_leaves(got):
            if _on_device(leaf):
                leaf.cpu()  # the device's own error, where it has one as well
        _runtime.perform("AddToCounter", "IncomparableOperator", 1)
        return
    _runtime.perform("AddToCounter", "ComparedOperator", 1)
    pairs = [("result", got, want)]
    for position, argument in enumerate(func._schema.arguments):
        if _is_written(argument):
            ours = args[position] if position < len(args) else keywords.get(argument.name)
            cpu = cpu_args[position] if position < len(args) else cpu_keywords.get(argument.name)
            pairs.append((argument.name, ours, cpu))
    for what, ours, cpu in pairs:
        for number, (mine, expected) in enumerate(zip(tree_leaves(ours), tree_leaves(cpu), strict=True)):
            if _on_device(mine) and isinstance(expected, torch.Tensor):
                difference = _difference(mine.detach().cpu(), expected.detach())
                if difference:
                    label = f"{what} {number}" if len(tree_leaves(ours)) > 1 else what
                    raise errors.AccuracyError(f"{func}({described}): {label} differs from the CPU's: {difference}\n{_place()}")


def _difference(ours: torch.Tensor, cpu: torch.Tensor) -> str:
    """What differs, "" where nothing does by more than torch.testing allows for the dtype."""
    try:
        torch.testing.assert_close(ours, cpu, equal_nan=True, check_stride=False)
    except AssertionError as error:
        return " ".join(str(error).split())
    return ""


def _describe(args: Iterable[Any], keywords: Mapping[str, Any]) -> str:
    def one(value: Any) -> str:
        if isinstance(value, torch.Tensor):
            return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
        if isinstance(value, list | tuple):
            return "[" + ", ".join(map(one, value)) + "]"
        return repr(value)

    return ", ".join([*map(one, args), *(f"{name}={one(value)}" for name, value in keywords.items())])


def _place() -> str:
    """Which line called the operator, or whose gradient it belongs to."""
    node: Callable[[], Any] | None = getattr(torch._C, "_current_autograd_node", None)
    backward = node() if node is not None else None
    where = f"in {backward.name()}, " if backward is not None else ""
    frames = _stacks.lines()
    if not frames:
        return f"{where}called by no Python code"
    return f"{where}called at " + " < ".join(f"{_stacks.short(code.co_filename)}:{line} in {code.co_name}" for code, line in frames[:8])
