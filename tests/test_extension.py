"""The Go extension as a file, and what loading it does to the process."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from support import Child


def extension() -> Path:
    spec = importlib.util.find_spec("xla_go._native")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin)


def readelf(option: str) -> str:
    if shutil.which("readelf") is None:
        pytest.skip("no readelf here")
    return subprocess.run(["readelf", "--wide", option, str(extension())], capture_output=True, text=True, check=True).stdout


def test_needs_no_python_library_and_has_no_run_path() -> None:
    dynamic = readelf("--dynamic")
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)
    assert needed
    assert not [name for name in needed if "python" in name or "stdc++" in name]
    assert "RUNPATH" not in dynamic and "RPATH" not in dynamic


def test_exports_nothing_but_its_module() -> None:
    symbols = readelf("--dyn-syms")
    defined = [line.split()[-1] for line in symbols.splitlines() if re.search(r"\b(GLOBAL|WEAK)\b", line) and " UND " not in line]
    assert defined == ["PyInit__native"]


def test_carries_no_path_of_the_machine_that_built_it(root: Path) -> None:
    content = extension().read_bytes()
    assert str(root).encode() not in content
    assert str(Path.home()).encode() + b"/" not in content


STATE = """
    import ctypes, os, signal, sys

    def caught_signals():
        with open("/proc/self/status") as status:
            return next(line for line in status if line.startswith("SigCgt"))

    def state():
        tiny = ctypes.c_double(5e-324)   # the smallest denormal: 0 where denormals are flushed
        return {
            "denormals": tiny.value * 1.0 == 5e-324 and 2.2250738585072014e-308 / 4 != 0.0,
            "directory": os.getcwd(),
            "environment": dict(os.environ),
            "handlers": [signal.getsignal(number) for number in signal.valid_signals()],
            "caught": caught_signals(),
        }
"""


def test_import_leaves_the_process_as_it_was(child: Child) -> None:
    child(STATE + """
    import torch
    before = state()
    import xla_go
    assert "xla_go._native" not in sys.modules, "the runtime was started by the import"
    after = state()
    assert before == after, {name: (before[name], after[name]) for name in before if before[name] != after[name]}
    assert before["denormals"]
    """)


def test_device_use_leaves_the_process_as_it_was(child: Child) -> None:
    child(STATE + """
    import torch, xla_go
    before = state()
    assert (torch.ones(3, device="xla") + 1).cpu().tolist() == [2.0, 2.0, 2.0]
    assert "xla_go._native" in sys.modules
    after = state()
    # Go catches the signals of faulty memory accesses, to hand them on to whoever caught them before.
    del before["caught"], after["caught"]
    assert before == after, {name: (before[name], after[name]) for name in before if before[name] != after[name]}
    assert torch.tensor([1e-45]).mul(1.0).item() != 0.0, "denormals are flushed"
    """)
