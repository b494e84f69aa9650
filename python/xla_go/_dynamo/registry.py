"""Makes the backend known to torch under its names, without importing torch._dynamo (a second) where nobody compiles."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

# torch imports this module of its own before it looks a backend up; it registers "openxla" for torch_xla.
FOREIGN_BACKEND = "torch._dynamo.backends.torchxla"
NAMES = ("xla_go", "openxla")


def register() -> None:
    """Registers the backend now if torch._dynamo's backends are there, else as soon as they are imported."""
    after_import(FOREIGN_BACKEND, _put_in_place)


def after_import(module: str, function: Callable[[], None]) -> None:
    """Calls `function` now if that module has been imported, else right after it is."""
    if module in sys.modules:
        function()
    else:
        sys.meta_path.insert(0, _Finder(module, function))


def _put_in_place() -> None:
    from torch._dynamo.backends import registry

    for name in NAMES:
        if registry._BACKENDS.get(name) is not None and name not in registry._COMPILER_FNS:
            continue  # torch has found the entry point, and registers what that gives
        registry._BACKENDS.setdefault(name, None)
        registry._COMPILER_FNS[name] = backend
        if hasattr(registry, "_BACKEND_TAGS"):  # torch 2.10 and newer
            registry._BACKEND_TAGS[name] = ()


def backend(graph: Any, inputs: Any, **options: Any) -> Any:
    """The backend, as torch keeps it: see `compile`, which is imported when something is compiled."""
    from xla_go._dynamo import compile

    return compile.compile(graph, inputs, **options)


def _reset() -> None:
    from xla_go._dynamo import compile

    compile.reset()


backend.__name__ = "xla_go"
backend._tags = ()  # type: ignore[attr-defined]  # torch 2.9 looks here
backend.reset = _reset  # type: ignore[attr-defined]  # torch._dynamo.reset() calls it


class _Finder(importlib.abc.MetaPathFinder):
    """Calls a function right after a module is imported."""

    def __init__(self, module: str, function: Callable[[], None]) -> None:
        self._module = module
        self._function = function

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._module:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self._function)
        return spec


class _Loader(importlib.abc.Loader):
    def __init__(self, original: Any, function: Callable[[], None]) -> None:
        self._original = original
        self._function = function

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self._original.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        self._original.exec_module(module)
        self._function()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)  # its source, for one
