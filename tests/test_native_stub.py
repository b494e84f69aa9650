"""The extension's types, _native.pyi, against the extension itself and against every call of it."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import pytest

import xla_go

pytestmark = pytest.mark.once

# Functions that gopy adds to every module.
OF_GOPY = re.compile(r"(Slice|Map)_\w+|GoPyInit|IncRef|DecRef|NumHandles|bind_\w+_(CTor|New)")
PACKAGE = Path(xla_go.__file__).parent


@pytest.fixture(scope="module")
def declared() -> dict[str, ast.FunctionDef]:
    tree = ast.parse((PACKAGE / "_native.pyi").read_text(encoding="utf-8"))
    return {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}


def arity(function: ast.FunctionDef) -> int:
    return len(function.args.posonlyargs) + len(function.args.args)


def test_names_and_arguments_are_those_of_the_module(declared: dict[str, ast.FunctionDef]) -> None:
    native = importlib.import_module("xla_go._native")
    names = {name for name in dir(native) if not name.startswith("_") and not OF_GOPY.fullmatch(name)}
    assert names == set(declared)
    for name, function in declared.items():
        # gopy and extension.c begin a function's text with its arguments' names.
        head = re.match(rf"{name}\(([^)]*)\)", getattr(native, name).__doc__)
        assert head is not None, name
        told = [item.strip() for item in head.group(1).split(",") if item.strip()]
        assert told == [argument.arg for argument in [*function.args.posonlyargs, *function.args.args]], name


def test_the_result_types_are_those_of_the_module(declared: dict[str, ast.FunctionDef]) -> None:
    native = importlib.import_module("xla_go._native")
    for name, arguments in {"bind_Version": (), "bind_LiveData": (), "bind_ClientInitialized": (), "bind_CounterValue": ("none",)}.items():
        returns = declared[name].returns
        assert isinstance(returns, ast.Name)
        assert type(getattr(native, name)(*arguments)).__name__ == returns.id


def test_every_call_names_a_function_and_gives_its_arguments(declared: dict[str, ast.FunctionDef]) -> None:
    ways = {"call": 0, "wait": 0, "perform": 1}  # arguments that the way adds
    seen = 0
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not node.args or not isinstance(node.args[0], ast.Constant) or not isinstance(node.args[0].value, str):
                continue
            function = node.func
            name = function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""
            of_runtime = isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name) and function.value.id == "_runtime"
            if name not in ways or not (of_runtime or path.name == "_runtime.py"):
                continue
            seen += 1
            target = declared.get(f"bind_{node.args[0].value}")
            assert target is not None, f"{path.name}: {node.args[0].value}"
            if not any(isinstance(argument, ast.Starred) for argument in node.args):
                assert len(node.args) - 1 + ways[name] == arity(target), f"{path.name}:{node.lineno}: {node.args[0].value}"
    assert seen > 50
