"""Names of torch_xla that xla_go cannot give: they are there to be imported, and raise when they are used."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from xla_go import errors


def unimplemented(name: str, reason: str) -> Callable[..., Any]:
    """A function that raises UnimplementedError with what the name is and why it is not given."""

    def raises(*arguments: Any, **keywords: Any) -> NoReturn:
        raise errors.UnimplementedError(f"{name}(): not provided: {reason}")

    raises.__name__ = raises.__qualname__ = name.rpartition(".")[2]
    raises.__doc__ = f"Raises UnimplementedError: {reason}."
    return raises


def attribute_error(module: str, name: str) -> AttributeError:
    """What a module's `__getattr__` raises for a name that it does not have."""
    return AttributeError(f"xla_go.compat: {module}.{name} is not provided")


def child_modules(package: str) -> Callable[[str], Any]:
    """A package's `__getattr__`: `from package import module` asks it for the modules that are found when they are imported."""

    def find(name: str) -> Any:
        try:
            importlib.import_module(f"{package}.{name}")
        except ModuleNotFoundError as error:
            if error.name is None or not f"{package}.{name}.".startswith(f"{error.name}."):
                raise
            raise attribute_error(package, name) from None
        return sys.modules[f"{package}.{name}"]

    return find
