"""Makes the backend known to torch under its names, without importing torch._dynamo (a second) where nobody compiles."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

# torch imports this module of its own before it looks a backend up; it registers "openxla" for torch_xla.
FOREIGN_BACKEND = "torch._dynamo.backends.torchxla"
NAMES = ("xla_go", "openxla")


def register() -> None:
    """Registers the backend now if torch._dynamo's backends are there, else as soon as they are imported."""
    if FOREIGN_BACKEND in sys.modules:
        _put_in_place()
    else:
        sys.meta_path.insert(0, _Finder())


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
    """Registers the backend right after torch's module that registers one of the names."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != FOREIGN_BACKEND:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


class _Loader(importlib.abc.Loader):
    def __init__(self, original: Any) -> None:
        self._original = original

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self._original.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        self._original.exec_module(module)
        _put_in_place()
