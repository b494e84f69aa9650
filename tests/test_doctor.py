"""`python -m xla_go doctor`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support import DEVICE_VARIABLES

pytestmark = pytest.mark.once


def doctor(tmp_path: Path, **env: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name not in DEVICE_VARIABLES}
    return subprocess.run(
        [sys.executable, "-m", "xla_go", "doctor"],
        cwd=tmp_path, env=environment | env, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


def test_healthy(tmp_path: Path) -> None:
    done = doctor(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    for part in ("versions", "torch", "adapter", "built for torch", "plugin", "libpjrt_cpu.so", "PJRT_DEVICE is not set", "devices", "CPU:0", "interface    PJRT API 0.", "xla_version=", "Layouts", "memory", "self test    passed"):
        assert part in done.stdout, done.stdout
    assert "preload" not in done.stdout  # that is for CUDA


def test_without_a_plugin(tmp_path: Path) -> None:
    done = doctor(tmp_path, PJRT_DEVICE="ABACUS")
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "plugin       FAILED: PluginNotFoundError: Unknown PJRT_DEVICE: 'ABACUS'" in done.stdout
    assert "self test    not run" in done.stdout


def test_with_a_file_that_is_no_plugin(tmp_path: Path) -> None:
    path = tmp_path / "notes.so"
    path.write_text("not a library")
    done = doctor(tmp_path, XLA_GO_PLUGIN_PATH=str(path))
    assert done.returncode == 1 and "devices      FAILED" in done.stdout and f"(the plugin that was named): {path}" in done.stdout


@pytest.mark.parametrize(("end", "words"), [("abort()", "by SIGABRT"), pytest.param("exit(7)", "with status 7", marks=pytest.mark.slow)])
def test_with_a_plugin_that_ends_the_process(tmp_path: Path, end: str, words: str) -> None:
    """While it is loaded: nothing of ours can stop that, but the doctor says who it was."""
    source, library = tmp_path / "end.c", tmp_path / "end.so"
    source.write_text(f"#include <stdlib.h>\n__attribute__((constructor)) static void end(void) {{ {end}; }}\nvoid *GetPjrtApi(void) {{ return 0; }}\n")
    subprocess.run(["cc", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    done = doctor(tmp_path, XLA_GO_PLUGIN_PATH=str(library))
    assert done.returncode == 1 and f"plugin       FAILED: RuntimeError: loading {library} ends the process {words}: the fault is in the plugin" in done.stdout, done


def test_without_a_compiler_for_the_adapter(tmp_path: Path) -> None:
    """Whether the adapter is prebuilt or not, the doctor reports and does not fall over."""
    done = doctor(tmp_path, XLA_GO_CACHE_DIR=str(tmp_path / "cache"), CXX="no-such-compiler")
    assert "Traceback" not in done.stderr
    if done.returncode == 0:
        assert "prebuilt" in done.stdout
    else:
        assert "adapter      FAILED: ImportError" in done.stdout and "no-such-compiler" in done.stdout


def test_usage(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-m", "xla_go"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "doctor" in done.stderr
