"""Running a script as python itself does, from a process that has made something ready for it."""

from __future__ import annotations

import builtins
import io
import os
import sys
from types import ModuleType


def run(script: str) -> None:
    """Executes the file as module __main__, with its folder first in sys.path.

    An exception that it raises is shown without our own frames, and ends the process with status 1.
    """
    sys.path[0] = os.path.dirname(os.path.realpath(script))
    path = os.path.abspath(script)
    module = ModuleType("__main__")
    module.__dict__.update(__file__=path, __builtins__=builtins, __cached__=None)
    sys.modules["__main__"] = module
    try:
        with io.open_code(path) as file:
            code = compile(file.read(), path, "exec", dont_inherit=True)
        exec(code, module.__dict__)
    except Exception as error:
        trace = error.__traceback__
        error.__traceback__ = None if trace is None else trace.tb_next
        sys.excepthook(type(error), error, error.__traceback__)
        sys.exit(1)
