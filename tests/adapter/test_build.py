"""Building the adapter at first use: what is said where it cannot be built."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest
import torch

from support import Child
from xla_go import _adapter


@pytest.fixture
def without_prebuilt(tmp_path: Path) -> dict[str, str]:
    """An environment whose `adapter_module` loads _adapter.py outside the package, with no prebuilt adapter."""
    (tmp_path / "adapter_module.py").write_text(
        "import importlib.util, pathlib\n"
        f"spec = importlib.util.spec_from_file_location('_adapter', {_adapter.__file__!r})\n"
        "adapter = importlib.util.module_from_spec(spec)\n"
        "spec.loader.exec_module(adapter)\n"
        "adapter.prebuilt_path = lambda version: pathlib.Path('absent')\n"
    )
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    return {"PYTHONPATH": path, "XLA_GO_CACHE_DIR": str(tmp_path / "cache")}


def test_without_a_compiler_it_says_what_to_install(child: Child, without_prebuilt: dict[str, str]) -> None:
    done = child(
        """
        import torch
        from adapter_module import adapter
        try:
            adapter.load()
        except ImportError as error:
            print(error)
        """,
        env={**without_prebuilt, "PATH": "/absent", "CXX": ""},
    )
    assert f"no adapter is prebuilt for torch {torch.__version__}" in done.stdout
    assert "apt install g++" in done.stdout


def test_a_compiler_that_cxx_names_must_exist(child: Child, without_prebuilt: dict[str, str]) -> None:
    done = child(
        """
        import torch
        from adapter_module import adapter
        try:
            adapter.load()
        except ImportError as error:
            print(error)
        """,
        env={**without_prebuilt, "CXX": "/absent/g++ -v"},
    )
    assert "the compiler that CXX names (/absent/g++) is not found" in done.stdout


def test_a_failed_compile_shows_its_errors_and_the_log(
    child: Child, without_prebuilt: dict[str, str], tmp_path: Path
) -> None:
    compiler = tmp_path / "compiler"
    compiler.write_text("#!/bin/sh\necho 'file.cpp:1: error: nothing works'\nexit 3\n")
    compiler.chmod(0o755)
    done = child(
        """
        import torch
        from adapter_module import adapter
        try:
            adapter.load()
        except ImportError as error:
            print(error)
        """,
        env={**without_prebuilt, "CXX": str(compiler)},
    )
    assert "building the adapter failed (exit 3)" in done.stdout
    assert "error: nothing works" in done.stdout
    (log,) = (tmp_path / "cache").rglob("*.log")
    assert str(log) in done.stdout and "nothing works" in log.read_text()
    assert list((tmp_path / "cache").rglob("*.so")) == []


def test_a_cache_that_cannot_be_written_is_named(
    child: Child, without_prebuilt: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    done = child(
        """
        import torch
        from adapter_module import adapter
        try:
            adapter.load()
        except ImportError as error:
            print(error)
        """,
        env={**without_prebuilt, "XLA_GO_CACHE_DIR": str(tmp_path / "file")},
    )
    assert "set XLA_GO_CACHE_DIR to a directory that can be written" in done.stdout


def test_an_old_torch_is_refused() -> None:
    with pytest.raises(ImportError, match=r"expected torch 2\.9 or newer, got torch 2\.8\.0"):
        _adapter._check_torch_version("2.8.0")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which(os.environ.get("CXX") or "g++") is None, reason="no compiler here")
def test_it_builds_once_and_is_found_again(child: Child, without_prebuilt: dict[str, str], tmp_path: Path) -> None:
    code = """
    import sys, torch, xla_go.errors
    from adapter_module import adapter
    path = adapter._cached_build()
    print(path)
    """
    # xla_go itself is loaded with its own adapter; this build only has to give a loadable file.
    first = child(code, env=without_prebuilt, timeout=600)
    assert "building the adapter for torch" in first.stderr
    built = Path(first.stdout.strip().splitlines()[-1])
    assert built.exists() and sys.version_info >= (3, 10)
    second = child(code, env=without_prebuilt)
    assert "building" not in second.stderr and second.stdout.strip().splitlines()[-1] == str(built)
    assert [path.suffix for path in built.parent.iterdir() if path.is_dir()] == []
