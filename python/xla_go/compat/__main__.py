"""`python -m xla_go.compat SCRIPT [ARGUMENTS]`: runs a script that was written for torch_xla, unchanged.

`python -m xla_go.compat -m MODULE [ARGUMENTS]` runs a module.
"""

from __future__ import annotations

import runpy
import sys

from xla_go import _script, compat

_USAGE = "python -m xla_go.compat: expected SCRIPT [ARGUMENTS] or -m MODULE [ARGUMENTS]"


def main() -> None:
    arguments = sys.argv[1:]
    if not arguments or (arguments[0].startswith("-") and (arguments[0] != "-m" or len(arguments) < 2)):
        sys.exit(f"{_USAGE}, got {' '.join(arguments) or 'nothing'}")
    compat.install()
    if arguments[0] == "-m":
        sys.argv[:] = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv[:] = arguments
        _script.run(arguments[0])


if __name__ == "__main__":
    main()
