"""The function that jit gives: a call of it is a step of its own, traced or replayed."""

from __future__ import annotations

import copy
import functools
import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar, overload

import torch
from torch.utils._pytree import TreeSpec, tree_flatten, tree_unflatten

from xla_go import _adapter, _compiles, _recording, _step, errors
from xla_go._jit.state import State, exact

logger = logging.getLogger("xla_go")

# Programs that one function keeps, for arguments of other shapes, other numbers and other modes.
PROGRAMS = 16
# Calls that could not be recorded before the log says why, and after which no more is tried with such arguments.
ATTEMPTS = 8

Function = TypeVar("Function", bound=Callable[..., Any])

_ONE = tree_flatten(None)[1]  # the layout of a result that is just one value

_thread = threading.local()  # tracing: a call within a call that is traced is part of it


class _Program:
    """What is known of the calls with one key: a recording once two calls have made the same."""

    def __init__(self) -> None:
        self.recording: Any = None  # of the last traced call
        self.confirmed = False
        self.attempts = ATTEMPTS
        self.takes_gradients = False  # the step reads gradients that are there when it begins
        self.layout: TreeSpec | None = None  # of the function's results
        self.results = 0
        self.assigned: list[int] = []  # the parameters that get another gradient, as positions among parameters


class JitFunction:
    """A function on tensors of device xla, each call of which is one step; see `jit`."""

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function, updated=())
        self._function = function
        self._state = State(function)
        self._programs: dict[Any, _Program] = {}
        self._adapter = _adapter.load()

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """One function for each object that it is a method of."""
        if instance is None:
            return self
        name = self._function.__name__
        bound = JitFunction(self._function.__get__(instance, owner))
        vars(instance)[name] = bound
        return bound

    def __deepcopy__(self, memo: dict[int, Any]) -> JitFunction:
        return JitFunction(copy.deepcopy(self._function, memo))

    def __reduce__(self) -> tuple[Any, ...]:
        return jit, (self._function,)

    def clear(self) -> None:
        """Lets go of all programs, and of the modules and optimizers that were found; the next calls are traced."""
        self._programs.clear()
        self._state = State(self._function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if getattr(_thread, "tracing", False) or torch.compiler.is_compiling():
            return self._function(*args, **kwargs)
        tensors: list[torch.Tensor] = []
        numbers = _flatten(args, tensors) if args else None, _flatten(kwargs, tensors) if kwargs else None
        parameters, values, state = self._state.read()
        key = numbers, state
        program = self._programs.get(key)
        if program is not None and program.confirmed:
            results = self._adapter.replay(program.recording, self._inputs(program, tensors, parameters, values))
            if results is not None:
                return _finish(program, results, parameters)
        if program is None:
            if len(self._programs) >= PROGRAMS:
                self._programs.pop(next(iter(self._programs)))
            program = self._programs[key] = _Program()
        program.confirmed = False
        return self._trace(program, tensors, args, kwargs)

    def _inputs(self, program: _Program, tensors: list[torch.Tensor], parameters: list[Any], values: list[Any]) -> list[Any]:
        return [*tensors, *parameters, *values, *(self._gradients(parameters) if program.takes_gradients else ())]

    def _gradients(self, parameters: list[Any]) -> list[Any]:
        """Those of each parameter, once."""
        return [getattr(parameters[i], "grad", None) for i in self._state.distinct if i < len(parameters)]

    def _trace(self, program: _Program, tensors: list[torch.Tensor], args: Any, kwargs: Any) -> Any:
        _thread.tracing = True
        try:
            with _step.one_graph(), self._state.watch():
                if _step.is_eager_mode():
                    with _step.no_eager_mode():
                        return self._recorded(program, tensors, args, kwargs)
                return self._recorded(program, tensors, args, kwargs)
        finally:
            _thread.tracing = False

    def _recorded(self, program: _Program, tensors: list[torch.Tensor], args: Any, kwargs: Any) -> Any:
        """A call of the function, recorded where it can be. Whatever it has traced is a step that is queued."""
        known = self._state.size()
        parameters, values, _ = self._state.read()
        before = self._gradients(parameters)
        inputs = self._inputs(program, tensors, parameters, values)
        devices = (value.device.index for value in [*tensors, *inputs] if isinstance(value, torch.Tensor) and value.is_xla)
        device = next(devices, self._adapter.current_device())
        host, recording, previous = self._state.host_values(), None, program.recording
        refusal = _refusal(tensors)
        if program.attempts > 0 and not refusal:
            try:
                recording = _recording.begin(device, inputs, closed=True)
            except errors.UnavailableError as error:
                refusal = str(error)
        try:
            results, layout = tree_flatten(_detached(self._function(*args, **kwargs)))
            if recording is not None:
                assigned = [i for i, old in zip(self._state.distinct, before, strict=True) if parameters[i].grad is not old]
                if self._state.size() != known:
                    refusal = "it has called modules or optimizers for the first time"
                elif changed := [name for (name, old), (_, new) in zip(host, self._state.host_values(), strict=False) if old != new]:
                    refusal = f"{changed[0]} is counted on the host: make the optimizer with capturable=True, or with fused=True"
                else:
                    try:
                        self._adapter.record_end(recording, inputs, [*results, *[parameters[i].grad for i in assigned]])
                        same = previous is not None and (program.layout, program.assigned) == (layout, assigned) and self._adapter.same_recording(previous, recording)
                        program.recording, program.confirmed = recording, same
                        program.layout, program.results, program.assigned = layout, len(results), assigned
                        refusal = "" if same or previous is None else "its program, or a number in it, is another one at each call"
                    except errors.UnavailableError as error:
                        refusal = str(error)
                        # Gradients of an earlier step count as values of its own only where it adds to them.
                        program.takes_gradients = program.takes_gradients or any(g is not None for g in before)
        finally:
            if recording is not None:
                self._adapter.record_cancel(recording)
        _step.cut(device, "jit")
        _compiles.raise_failed_checks("jit")
        self._note(program, refusal)
        return tree_unflatten(results, layout)

    def _note(self, program: _Program, refusal: str) -> None:
        """Counts what could not be recorded, and says so in the log where that is the rule."""
        name = getattr(self._function, "__qualname__", type(self._function).__name__)
        if not refusal or program.attempts == 0:
            return
        program.attempts -= 1
        logger.debug("xla_go.jit: %s() was traced: %s", name, refusal)
        if program.attempts == 0:
            logger.warning("xla_go.jit: %s() is traced at each call, which takes the host longer: %s", name, refusal)


def _finish(program: _Program, results: list[Any], parameters: list[Any]) -> Any:
    """Gives parameters their new gradients, and the results as the function gives them."""
    for i, gradient in zip(program.assigned, results[program.results :], strict=True):
        parameters[i].grad = gradient
    assert program.layout is not None
    return results[0] if program.layout == _ONE else tree_unflatten(results[: program.results], program.layout)


def _refusal(tensors: Iterable[torch.Tensor]) -> str:
    """Why a call with these arguments cannot be recorded, "" where it can."""
    for tensor in tensors:
        if tensor.device.type != "xla":
            return f"an argument is on device {tensor.device}: move it to xla before the call"
        if tensor.requires_grad:
            return "an argument requires a gradient: only parameters of modules and optimizers get theirs"
    return ""


def _detached(results: Any) -> Any:
    leaves, layout = tree_flatten(results)
    return tree_unflatten([leaf.detach() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves], layout)


def _flatten(value: Any, tensors: list[torch.Tensor]) -> Any:
    """Appends the tensors in an argument, and gives a key of all else in it."""
    if isinstance(value, torch.Tensor):
        tensors.append(value)
        return torch.Tensor
    if isinstance(value, (tuple, list)):
        return type(value), *[_flatten(item, tensors) for item in value]
    if isinstance(value, Mapping):
        return type(value), *[(name, _flatten(item, tensors)) for name, item in value.items()]
    try:
        hash(value)
    except TypeError:
        raise TypeError(f"jit: expected arguments that are tensors, or hashable, or tuples, lists and dicts of such, got {type(value).__name__}") from None
    return type(value), exact(value)


@overload
def jit(function: Function) -> Function: ...
@overload
def jit() -> Callable[[Function], Function]: ...
def jit(function: Any = None) -> Any:
    """A step whose program runs again without the step's Python: `step = xla_go.jit(step)`, or as a decorator.

    For a function that does a whole step on tensors of device xla, with forward, backward and the optimizer's step:

        @xla_go.jit
        def step(x, y):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss

    A call runs the function and ends the step. Once two calls in a row have made the same program, from the same kind of
    arguments and with equal numbers, further such calls queue that program and do not run the function: parameters, buffers,
    optimizer states, gradients and results are as if it had run. It waits for nothing. A call for which the function was
    not traced yet is: with arguments of another shape, other numbers among them, another mode of a module (train, eval), other
    settings of an optimizer (lr), other numbers in variables that the function names, another autocast or grad mode.

    It keeps the modules and optimizers that the function has called, until `step.clear()`.

    As with jax.jit, what else the function does in Python happens only where it is traced: prints, counters, conditions on
    numbers that it gets from elsewhere. Results have no graph of autograd. What cannot be replayed is traced at each
    call, and the log `xla_go` says why: a value is read within the step; an argument is on the CPU; a tensor that the step made
    and that is no result is kept; an optimizer counts its steps on the host (capturable=True has it count on the device).
    """
    if function is None:
        return jit
    if isinstance(function, JitFunction):
        return function
    if not callable(function):
        raise TypeError(f"jit(): expected a function, got {type(function).__name__}")
    return JitFunction(function)
