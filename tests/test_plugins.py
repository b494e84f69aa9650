"""Which plugin is taken, and what is said where none can be. Every failure is an exception, in a process that lives on."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path

import pytest

from support import Child

pytestmark = pytest.mark.once

USE = """
    import torch, xla_go
    try:
        (torch.ones(2, device="xla") + 1).cpu()
    except Exception as error:
        import json
        print(json.dumps([type(error).__name__, isinstance(error, RuntimeError), str(error)]))
    else:
        print(json.dumps(["no error", False, ""]))
    assert torch.ones(2).sum().item() == 2   # the process is whole
"""


def failure(child: Child, **env: str) -> tuple[str, str]:
    name, is_runtime_error, text = json.loads(child(USE, env=env).stdout.splitlines()[-1])
    assert is_runtime_error, (name, text)
    return name, text


def cpu_plugin() -> str:
    spec = importlib.util.find_spec("fastatomstruct_xla_cpu")
    assert spec is not None and spec.origin is not None
    return str(Path(spec.origin).parent / "libpjrt_cpu.so")


def other_plugins() -> list[str]:
    """Further CPU plugins to test on: the paths in XLA_GO_TEST_PLUGINS."""
    return [path for path in os.environ.get("XLA_GO_TEST_PLUGINS", "").split(os.pathsep) if path and path != cpu_plugin()]


def test_unknown_device(child: Child) -> None:
    name, text = failure(child, PJRT_DEVICE="ABACUS")
    assert name == "PluginNotFoundError"
    assert "Unknown PJRT_DEVICE: 'ABACUS'" in text and "CPU" in text and "Tried:" in text


def test_known_device_without_its_plugin(child: Child) -> None:
    name, text = failure(child, PJRT_DEVICE="NEURON")
    assert name == "PluginNotFoundError"
    assert "pip install libneuronxla" in text and "not installed" in text


def test_path_without_a_file(child: Child, tmp_path: Path) -> None:
    name, text = failure(child, XLA_GO_PLUGIN_PATH=str(tmp_path / "absent.so"))
    assert name == "PluginNotFoundError"
    assert "absent.so" in text and "XLA_GO_PLUGIN_PATH" in text and "no such file" in text


def test_library_device_without_a_path(child: Child) -> None:
    name, text = failure(child, PJRT_DEVICE="LIBRARY")
    assert name == "PluginNotFoundError" and "PJRT_LIBRARY_PATH" in text


def test_file_that_is_no_library(child: Child, tmp_path: Path) -> None:
    path = tmp_path / "notes.so"
    path.write_text("not a library")
    _, text = failure(child, XLA_GO_PLUGIN_PATH=str(path))
    assert str(path) in text


def test_library_that_is_no_plugin(child: Child) -> None:
    spec = importlib.util.find_spec("_ctypes")
    assert spec is not None and spec.origin is not None
    _, text = failure(child, XLA_GO_PLUGIN_PATH=spec.origin)
    assert spec.origin in text and "GetPjrtApi" in text


def test_plugin_of_another_platform(child: Child) -> None:
    name, text = failure(child, XLA_GO_PLUGIN_PATH=cpu_plugin(), PJRT_DEVICE="CUDA")
    assert name == "InvalidArgumentError"
    assert "expected a plugin for CUDA, got one for CPU" in text


def test_first_failure_of_a_plugin_is_final(child: Child, tmp_path: Path) -> None:
    path = tmp_path / "notes.so"
    path.write_text("not a library")
    child(
        f"""
    import os, torch, xla_go
    texts = []
    for plugin in ({str(path)!r}, {cpu_plugin()!r}):
        os.environ["XLA_GO_PLUGIN_PATH"] = plugin
        try:
            torch.ones(2, device="xla").cpu()
        except RuntimeError as error:
            texts.append(str(error))
    assert len(texts) == 2 and texts[0] == texts[1], texts
    """
    )


def test_no_plugin_installed(child: Child, tmp_path: Path) -> None:
    # The same environment, seen through links, without the packages that carry plugins.
    links = tmp_path / "site-packages"
    links.mkdir()
    hidden = ("fastatomstruct", "lammps_jax", "xla_plugins", "xla_cpu_pjrt", "jax_plugins", "libtpu", "jax_cuda", "xla_cuda")
    for directory in (path for path in sys.path if path.endswith("site-packages")):
        for entry in Path(directory).iterdir():
            if not entry.name.startswith(hidden) and not (links / entry.name).exists():
                (links / entry.name).symlink_to(entry)
    done = child(f"import sys; sys.path.append({str(links)!r})" + "\n" + USE.replace("\n    ", "\n"), flags=("-S",))
    name, _, text = json.loads(done.stdout.splitlines()[-1])
    assert name == "PluginNotFoundError"
    assert "no PJRT plugin is installed: pip install fastatomstruct-xla-cpu" in text and "XLA_GO_PLUGIN_PATH" in text


def test_a_search_that_found_nothing_can_be_repeated(child: Child) -> None:
    child("""
    import os, torch, xla_go
    os.environ["PJRT_DEVICE"] = "ABACUS"
    try:
        torch.ones(2, device="xla").cpu()
    except xla_go.errors.NotFoundError:
        pass
    else:
        raise AssertionError("expected an error")
    xla_go.runtime.set_device_type("CPU")
    assert torch.ones(2, device="xla").cpu().tolist() == [1.0, 1.0]
    """)


@pytest.mark.parametrize(
    "env",
    [{}, {"PJRT_DEVICE": "CPU"}, {"PJRT_DEVICE": "cpu"}, {"XLA_GO_PLUGIN_PATH": ""}],
    ids=["unset", "CPU", "lower case", "empty path"],
)
def test_cpu_is_found(child: Child, env: dict[str, str]) -> None:
    done = child("import xla_go; print(xla_go.runtime.device_type(), xla_go.runtime.global_runtime_device_count())", env=env)
    assert done.stdout.split() == ["CPU", "1"]


@pytest.mark.parametrize("env", [{"XLA_GO_PLUGIN_PATH": "x"}, {"PJRT_DEVICE": "LIBRARY", "PJRT_LIBRARY_PATH": "x"}])
def test_explicit_path(child: Child, env: dict[str, str]) -> None:
    env = {name: cpu_plugin() if value == "x" else value for name, value in env.items()}
    done = child("import xla_go; print(xla_go.runtime.device_type(), xla_go._runtime.plugin().path, xla_go.runtime.global_runtime_device_count())", env=env)
    assert done.stdout.split() == ["CPU", cpu_plugin(), "1"]


@pytest.mark.parametrize("env", [{"CPU_NUM_DEVICES": "4"}, {"XLA_FLAGS": "--xla_force_host_platform_device_count=4"}])
@pytest.mark.parametrize("path", [None, *other_plugins()])
def test_virtual_cpu_devices(child: Child, env: dict[str, str], path: str | None) -> None:
    """Both names count, and also where the program sets them after Python has started."""
    if path is not None:
        env = {**env, "XLA_GO_PLUGIN_PATH": path}
    code = "import xla_go.runtime as r; print(r.global_runtime_device_count(), r.addressable_runtime_device_count())"
    assert child(code, env=env).stdout.split() == ["4", "4"]
    assert child(f"import os; os.environ.update({env!r})\n{code}").stdout.split() == ["4", "4"]


def test_bad_device_count(child: Child) -> None:
    done = child("import xla_go; xla_go.runtime.device_type()", env={"CPU_NUM_DEVICES": "many"}, check=False)
    assert done.returncode == 1 and "CPU_NUM_DEVICES: expected a number of devices" in done.stderr
