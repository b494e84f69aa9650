"""The child process: runs the units that it reads from standard input and tells what came of each.

A unit is a line "entry<TAB>dtype". For each, the worker writes a line "begin<TAB>entry<TAB>dtype" before it starts, and a
line of JSON, the list of outcomes, when it is through; to the file descriptor that is its only argument.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import traceback
import warnings
from typing import Any

import torch
from torch.testing._internal import common_methods_invocations

from opinfo.entry import Outcome, describe, run


def unseeded(op: Any, *arguments: Any, **keywords: Any) -> Any:
    return op(*arguments, **keywords)


def main() -> None:
    # The database seeds some random operators itself, which would hide that their results are random.
    common_methods_invocations.wrapper_set_seed = unseeded
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    entries = {op.full_name: op for op in common_methods_invocations.op_db}
    with os.fdopen(int(sys.argv[1]), "w", buffering=1) as results:
        for line in sys.stdin:
            name, dtype = line.rstrip("\n").split("\t")
            print("begin", name, dtype, sep="\t", file=results)
            try:
                outcomes = run(entries[name], dtype)
            except Exception as error:  # of the database, or of this program
                traceback.print_exc()
                outcomes = [Outcome(name, dtype, "forward", failures=[f"the runner failed: {describe(error)}"])]
            print(json.dumps([dataclasses.asdict(outcome) for outcome in outcomes]), file=results)


if __name__ == "__main__":
    main()
