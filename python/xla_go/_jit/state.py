"""What a step uses besides its arguments: modules, optimizers, and the variables of its own Python code."""

from __future__ import annotations

import contextlib
import dis
import inspect
import threading
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.optim.optimizer import Optimizer, register_optimizer_step_pre_hook

from xla_go import _adapter

# Kinds of values, by their type: asking a tensor's class each time is slow.
_OTHER, _TENSOR, _NUMBER = range(3)
_kinds: dict[type, int] = {}


def _kind(value: Any) -> int:
    kind = _kinds.get(type(value))
    if kind is None:
        if isinstance(value, torch.Tensor):
            kind = _TENSOR
        elif isinstance(value, (bool, int, float, complex, str, bytes, type(None), torch.dtype)):
            kind = _NUMBER
        else:
            kind = _OTHER
        _kinds[type(value)] = kind
    return kind


def exact(value: Any) -> Any:
    """What stands for a value in a key. Zeros of both signs are equal as numbers, and no nan is equal to itself: of those it is the text."""
    if isinstance(value, complex) or (isinstance(value, float) and not value < 0 and not value > 0):
        return repr(value)
    return value


class Variables:
    """The variables that a function's code names: of the functions around it, of its module, and attributes of its `self`.

    They are read anew each time, as the function does. What functions that it calls name is not among them. Those of its module
    are the ones that were there at the last `look`.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        plain = inspect.unwrap(function)
        self._owner = getattr(plain, "__self__", None)
        plain = getattr(plain, "__func__", plain)
        self._cells: list[types.CellType] = list(getattr(plain, "__closure__", None) or ())
        self._globals: dict[str, Any] = getattr(plain, "__globals__", {})
        code = getattr(plain, "__code__", None)
        self._candidates = sorted(_global_names(code)) if code is not None else []
        self._names: list[tuple[Mapping[str, Any], str]] = []
        self.look()

    def look(self) -> None:
        """Looks which of the names that the code has are variables of its module, and which attributes its `self` has."""
        self._names = [(self._globals, name) for name in self._candidates if name in self._globals and _is_data(self._globals[name])]
        if self._owner is not None and not isinstance(self._owner, torch.nn.Module):
            attributes = getattr(self._owner, "__dict__", {})
            self._names += [(attributes, name) for name in list(attributes)]

    def places(self) -> tuple[Any, tuple[types.CellType, ...], tuple[tuple[Mapping[str, Any], str], ...]]:
        """Where they are: the object of a method, the cells of the functions around, and the others, by name."""
        return self._owner, tuple(self._cells), tuple(self._names)

    def values(self) -> list[Any]:
        """What they hold now."""
        found = [] if self._owner is None else [self._owner]
        for cell in self._cells:
            with contextlib.suppress(ValueError):  # nothing was assigned yet
                found.append(cell.cell_contents)
        return found + [namespace.get(name) for namespace, name in self._names]


def _is_data(value: Any) -> bool:
    """Whether a variable of a module may be more than a function, a class or a module that the code names."""
    return not isinstance(value, (types.ModuleType, types.FunctionType, types.BuiltinFunctionType, type))


def _global_names(code: types.CodeType) -> set[str]:
    """The variables of its module that code reads, and that the functions do which are written within it."""
    names = {instruction.argval for instruction in dis.get_instructions(code) if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
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
        self.distinct: list[int] = []  # positions among the parameters of `read`, each parameter once
        self._places: tuple[Any, ...] = ()
        self._read = _adapter.load().read_step_state
        for value in [function, *self._variables.values()]:
            if isinstance(value, torch.nn.Module):
                self._modules.update(dict.fromkeys(value.modules()))
            elif isinstance(value, Optimizer):
                self._optimizers[value] = None
        self._grown()

    def _grown(self) -> None:
        """Looks where parameters, buffers and settings are."""
        self._variables.look()
        owner, cells, names = self._variables.places()
        groups = [(optimizer, optimizer.param_groups) for optimizer in self._optimizers]
        settings: list[tuple[dict[str, Any], tuple[str, ...]]] = []
        tensor_settings: list[tuple[dict[str, Any], str]] = []
        for group in (group for _, groups in groups for group in groups):
            settings.append((group, tuple(name for name, value in group.items() if _kind(value) == _NUMBER or isinstance(value, tuple))))
            tensor_settings += [(group, name) for name, value in group.items() if _kind(value) == _TENSOR]
        parameters = tuple(module._parameters for module in self._modules if module._parameters)
        buffers = tuple(module._buffers for module in self._modules if module._buffers)
        self._places = (
            owner, cells, names, tuple(self._modules), parameters, buffers, tuple(groups), tuple(settings), tuple(tensor_settings), _kinds, _kind, _NUMBER,
        )  # fmt: skip
        self.distinct = []
        first: dict[int, int] = {}
        for i, parameter in enumerate(self.read()[0]):
            if parameter is not None:
                first.setdefault(id(parameter), i)
        self.distinct = list(first.values())

    def read(self) -> tuple[list[Any], list[Any], tuple[Any, ...]]:
        """What the step depends on, as it is now, in three parts.

        The parameters of modules and optimizers, None among them; one that both have comes twice. What else the step may read
        or write: buffers, states of optimizers and variables, tensors among other things. And what its program depends on, to
        be compared: modes of modules and of the thread, settings of optimizers, variables that are numbers or the like, and
        which parameters have a gradient.
        """
        found = self._read(self._places, self.distinct)
        while found is None:  # an optimizer has loaded a state
            self._grown()
            found = self._read(self._places, self.distinct)
        return found

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Notes the modules and the optimizers that this thread calls within it."""
        thread = threading.get_ident()

        def module_called(module: torch.nn.Module, _: Any) -> None:
            if module not in self._modules and threading.get_ident() == thread:
                self._modules.update(dict.fromkeys(module.modules()))

        def optimizer_called(optimizer: Optimizer, *_: Any) -> None:
            if threading.get_ident() == thread:
                self._optimizers.setdefault(optimizer)

        self._grown()
        hooks = [register_module_forward_pre_hook(module_called), register_optimizer_step_pre_hook(optimizer_called)]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()
            self._grown()

    def size(self) -> tuple[int, int]:
        """How many modules and optimizers are known."""
        return len(self._modules), len(self._optimizers)

    def host_values(self) -> list[tuple[str, Any]]:
        """What optimizers keep on the host, each with its optimizer's name and something that changes when it does."""
        found: list[tuple[str, Any]] = []
        for optimizer in self._optimizers:
            for state in optimizer.state.values():
                for name, value in state.items():
                    if _kind(value) == _TENSOR:
                        if value.device.type == "cpu":
                            found.append((f"{type(optimizer).__name__}'s {name}", value._version))
                    elif _kind(value) == _NUMBER:
                        found.append((f"{type(optimizer).__name__}'s {name}", value))
        return found
