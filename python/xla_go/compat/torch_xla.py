"""What `import torch_xla` gives after `xla_go.compat.install()`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, NoReturn, TypeVar
from weakref import WeakKeyDictionary

import torch

import xla_go
from xla_go import _adapter, _runtime, _step, errors, runtime
from xla_go.compat import graph_files, profiler
from xla_go.compat import xla_model as xm
from xla_go.compat.graph_limit import KnownGraphs
from xla_go.compat.stablehlo import save_as_stablehlo, save_torch_model_as_stablehlo  # noqa: F401

# A package without a place of its own: the modules below it are those that install() put in place.
__path__: list[str] = []
__version__ = xla_go.__version__

_Function = TypeVar("_Function", bound=Callable[..., Any])


def device(index: int | None = None) -> torch.device:
    """torch_xla.core.xla_model.xla_device."""
    return xm.xla_device(index)


def launch(
    fn: Callable[..., Any], args: tuple[Any, ...] = (), start_method: str = "spawn", debug_single_process: bool = False
) -> None:
    """Runs `fn(ordinal, *args)` on a thread for each device, on one alone with debug_single_process. See xla_go.distributed.launch.

    There are no processes to start: start_method is taken for the caller's sake.
    """
    xla_go.distributed.launch(fn, args, 1 if debug_single_process else None)


def device_count() -> int:
    """Number of xla devices of this process: 1 where one stands for all."""
    return runtime.addressable_device_count()


def devices() -> list[torch.device]:
    """The xla devices of this process."""
    return [xla_go.device(index) for index in range(device_count())]


def real_devices() -> list[str]:
    """The runtime's names of this process's devices, for example "CPU:0"."""
    return [attributes["name"] for attributes in map(runtime.runtime_device_attributes, range(runtime.addressable_runtime_device_count()))]


def sync(wait: bool = False, reset_scope: bool = True) -> None:
    """xla_go.sync. RuntimeError within a `profiler.Trace`, unless reset_scope is False. Starts the runtime."""
    if reset_scope:
        profiler.expect_no_scope()
    _end_step("user torch_xla.sync", wait)


def _end_step(cause: str, wait: bool = False) -> None:
    """xla_go.sync, after which the graphs that are saved are in their files. Starts the runtime."""
    _adapter.load().device_count()
    graph_files.follow_environment()
    xla_go.sync(wait, cause=cause)
    graph_files.finish()


@contextmanager
def step() -> Iterator[None]:
    """Ends the step before the block, and again after it."""
    sync()
    try:
        yield
    finally:
        sync()


def manual_seed(seed: int, device: torch.device | None = None) -> None:
    """xla_go.manual_seed; all devices of a process share one seed."""
    xla_go.manual_seed(seed)


def _end_named_step(name: str, cause: str) -> None:
    """`sync` of a graph that has a name in reports."""
    profiler.expect_no_scope()
    _adapter.load().device_count()
    _runtime.call("NameGraphs", name)
    try:
        _end_step(cause)
    finally:
        _runtime.call("NameGraphs", "")


# Of each function, however often it is wrapped.
_graphs: WeakKeyDictionary[Callable[..., Any], KnownGraphs] = WeakKeyDictionary()


def compile(f: _Function | None = None, full_graph: bool = False, name: str | None = None, max_different_graphs: int | None = None) -> Any:
    """Wraps a function so that each call is one step, in eager mode too; usable as a decorator.

    What an optimizer steps in it belongs to the same step. `name` names its graphs in the reports of PT_XLA_DEBUG. With `full_graph` a call whose work does not stay in one graph (it
    reads a value on the way, or runs an operator on the CPU) raises RuntimeError, and so does, with `max_different_graphs`,
    one that traces another graph than so many before; `name` stands for the function in these errors, too.
    """
    if f is None:
        return functools.partial(compile, full_graph=full_graph, name=name, max_different_graphs=max_different_graphs)
    called = name or str(getattr(f, "__name__", type(f).__name__))
    graphs = None if max_different_graphs is None else _graphs.setdefault(f, KnownGraphs())

    @functools.wraps(f)
    def wrapper(*arguments: Any, **keywords: Any) -> Any:
        eager = xla_go.is_eager_mode()
        if eager:
            xla_go.eager_mode(False)
        try:
            _end_named_step(f"{called}_clear_pending", "torch_xla.compile clear the pending graph prior calling the target function")
            with _step.one_graph(), xla_go.strict() if full_graph else nullcontext():
                try:
                    result = f(*arguments, **keywords)
                except (errors.FailedPreconditionError, NotImplementedError) as error:
                    if not full_graph:
                        raise
                    raise RuntimeError(f"Unexpected execution happens inside the compiled function, exiting: {called} does not stay in one graph: {error}") from error
            if graphs is not None and max_different_graphs is not None:
                graphs.check(max_different_graphs)
            _end_named_step(called, "torch_xla.compile")
        finally:
            if eager:
                xla_go.eager_mode(True)
        return result

    return wrapper


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(f"xla_go.compat: torch_xla.{name} is not provided")
