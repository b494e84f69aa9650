"""The process of one test file: `recorder.py RECORD compat|torch_xla SCRIPT [ARGUMENTS]`.

Runs the script as `python -m xla_go.compat` does, or with torch_xla itself, and writes what each of its unittest tests came
to: a JSON line when one begins, and one when it ends, so that a process that dies has named the test.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
import traceback
import unittest
from collections.abc import Callable
from typing import Any, TextIO


def _name(test: Any) -> str:
    name = test.id().removeprefix("__main__.")
    return name.split(" ")[0]


def _last_line(error: Any) -> str:
    if not isinstance(error, tuple):
        return str(error)
    lines = [line for line in "".join(traceback.format_exception_only(error[0], error[1])).splitlines() if line.strip()]
    return " ".join(lines)[:400]


def record_unittest(file: TextIO) -> None:
    """Has every result that unittest is told of written to the file."""

    def write(test: Any, outcome: str, why: str = "") -> None:
        file.write(json.dumps({"test": _name(test), "outcome": outcome, "why": why}) + "\n")
        file.flush()

    def watch(method: str, outcome: str) -> None:
        original: Callable[..., Any] = getattr(unittest.TestResult, method)

        def told(self: Any, test: Any, *details: Any) -> Any:
            if method != "addSubTest":
                write(test, outcome, _last_line(details[0]) if details else "")
            elif details[1] is not None:
                write(test, outcome, _last_line(details[1]))
            return original(self, test, *details)

        setattr(unittest.TestResult, method, told)

    watch("startTest", "started")
    watch("addSuccess", "passed")
    watch("addExpectedFailure", "passed")
    watch("addSkip", "skipped")
    watch("addFailure", "failed")
    watch("addError", "failed")
    watch("addUnexpectedSuccess", "failed")
    watch("addSubTest", "failed")


def main() -> None:
    path, names = sys.argv[1:3]
    sys.argv[:] = sys.argv[3:]
    with open(path, "w", encoding="utf-8") as file:
        record_unittest(file)
        if names == "compat":
            from xla_go import _script, compat

            compat.install()
            _script.run(sys.argv[0])
        else:
            sys.path[0] = os.path.dirname(os.path.realpath(sys.argv[0]))
            runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
