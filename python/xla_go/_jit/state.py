"""What a step uses besides its arguments: modules, optimizers, and the variables of its own Python code."""

from __future__ import annotations

import contextlib
import inspect
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.optim.optimizer import Optimizer, register_optimizer_step_pre_hook

_Number = (bool, int, float, complex, str, bytes, type(None), torch.dtype)


class Variables:
    """The variables that a function's code names: of the functions around it, of its module, and attributes of its `self`.

    They are read anew each time, as the function does. What functions that it calls name is not among them.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        plain = inspect.unwrap(function)
        owner = getattr(plain, "__self__", None)
        plain = getattr(plain, "__func__", plain)
        self._cells: list[types.CellType] = list(getattr(plain, "__closure__", None) or ())
        self._names: list[tuple[Mapping[str, Any], str]] = []
        code = getattr(plain, "__code__", None)
        if code is not None:
            self._names += [(plain.__globals__, name) for name in _global_names(code) if name in plain.__globals__]
        if owner is not None and not isinstance(owner, torch.nn.Module):
            attributes = getattr(owner, "__dict__", {})
            self._names += [(attributes, name) for name in list(attributes)]
        self._owner = owner

    def values(self) -> list[Any]:
        found = [] if self._owner is None else [self._owner]
        for cell in self._cells:
            with contextlib.suppress(ValueError):  # nothing was assigned yet
                found.append(cell.cell_contents)
        found += [namespace.get(name) for namespace, name in self._names]
        return found


def _global_names(code: types.CodeType) -> set[str]:
    """The names in code, and in the functions that are written within it."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _global_names(constant)
    return names


class State:
    """The modules, optimizers and variables of a step. Grows while calls of the step are watched."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._variables = Variables(function)
        self._modules: dict[torch.nn.Module, None] = {}
        self._optimizers: dict[Optimizer, None] = {}
        for value in self._variables.values():
            if isinstance(value, torch.nn.Module):
                self._add_module(value)
            elif isinstance(value, Optimizer):
                self._optimizers[value] = None

    def _add_module(self, module: torch.nn.Module) -> None:
        if module not in self._modules:
            self._modules.update(dict.fromkeys(module.modules()))

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Notes the modules and the optimizers that are called within it."""
        module_hook = register_module_forward_pre_hook(lambda module, _: self._add_module(module))
        optimizer_hook = register_optimizer_step_pre_hook(lambda optimizer, *_: self._optimizers.setdefault(optimizer))
        try:
            yield
        finally:
            module_hook.remove()
            optimizer_hook.remove()

    def size(self) -> tuple[int, int]:
        """How many modules and optimizers are known."""
        return len(self._modules), len(self._optimizers)

    def parameters(self) -> list[torch.Tensor]:
        """Those that may have gradients, as modules and optimizers have them now; one may come twice."""
        found = [p for module in self._modules for p in module._parameters.values() if p is not None]
        for optimizer in self._optimizers:
            for group in optimizer.param_groups:
                found += group["params"]
        return found

    def values(self) -> list[Any]:
        """What the step may read or write: buffers, states of optimizers and variables; tensors among other things."""
        found: list[Any] = []
        for module in self._modules:
            found += module._buffers.values()
        for optimizer in self._optimizers:
            for state in optimizer.state.values():
                found += state.values()
            for group in optimizer.param_groups:
                found += [value for value in group.values() if isinstance(value, torch.Tensor)]
        found += [value for value in self._variables.values() if isinstance(value, torch.Tensor)]
        return found

    def numbers(self) -> tuple[Any, ...]:
        """What else the step's program depends on: modes of modules, settings of optimizers, and variables that are numbers or the like."""
        found: list[Any] = [module.training for module in self._modules]
        for optimizer in self._optimizers:
            for group in optimizer.param_groups:
                found += [value for value in group.values() if isinstance(value, _Number) or isinstance(value, tuple)]
        found += [(type(value), value) for value in self._variables.values() if isinstance(value, _Number)]
        return tuple(found)

    def host_values(self) -> list[tuple[str, Any]]:
        """What optimizers keep on the host, each with its optimizer's name and something that changes when it does."""
        found: list[tuple[str, Any]] = []
        for optimizer in self._optimizers:
            for state in optimizer.state.values():
                for name, value in state.items():
                    if isinstance(value, torch.Tensor):
                        if value.device.type == "cpu":
                            found.append((f"{type(optimizer).__name__}'s {name}", value._version))
                    elif isinstance(value, _Number):
                        found.append((f"{type(optimizer).__name__}'s {name}", value))
        return found
