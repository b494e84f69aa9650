"""What is done for a CUDA plugin before it is loaded, on wheels that the test lays out with libraries of its own making."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from support import Child

pytestmark = pytest.mark.once

COMPILER = shutil.which(os.environ.get("CC", "cc")) or "cc"
PJRT = Path(__file__).resolve().parent.parent / "pjrt"


def library(path: Path, *needed: Path, sources: tuple[Path, ...] = (), flags: tuple[str, ...] = ()) -> Path:
    """A shared library that needs others, by their names alone, and exports a function named as itself."""
    path.parent.mkdir(parents=True, exist_ok=True)
    source = path.parent / f"{path.name}.c"
    source.write_text(f"int {path.name.partition('.')[0]}_is_there(void) {{ return 1; }}\n")
    subprocess.run(
        [COMPILER, "-shared", "-fPIC", *flags, f"-Wl,-soname,{path.name}", "-Wl,--no-as-needed", "-o", str(path), str(source), *map(str, sources), *map(str, needed)],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    source.unlink()
    return path


def wheel(site: Path, name: str, version: str, *files: Path) -> None:
    """Registers files as those of an installed distribution."""
    information = site / f"{name.replace('-', '_')}-{version}.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    listed = [*(file.relative_to(site) for file in files), information.relative_to(site) / "METADATA"]
    (information / "RECORD").write_text("".join(f"{file},,\n" for file in listed))


@pytest.fixture
def cuda10(tmp_path: Path) -> Path:
    """NVIDIA's wheels of a CUDA that no torch has loaded by then: a directory per library. cuSOLVER needs what comes behind it in the usual order."""
    site = tmp_path / "site"
    nvidia = site / "nvidia"
    cudart = library(nvidia / "cuda_runtime" / "lib" / "libcudart.so.10")
    cublas_lt = library(nvidia / "cublas" / "lib" / "libcublasLt.so.10", cudart)
    cublas = library(nvidia / "cublas" / "lib" / "libcublas.so.10", cublas_lt)
    cufft = library(nvidia / "cufft" / "lib" / "libcufft.so.10", cudart)
    cusolver = library(nvidia / "cusolver" / "lib" / "libcusolver.so.10", cublas, cufft)
    broken = nvidia / "cudnn" / "lib" / "libcudnn.so.7"
    broken.parent.mkdir(parents=True)
    broken.write_text("not a library")
    libdevice = nvidia / "cuda_nvcc" / "nvvm" / "libdevice" / "libdevice.10.bc"
    libdevice.parent.mkdir(parents=True)
    libdevice.write_text("bitcode")
    wheel(site, "nvidia-cuda-runtime-cu10", "12.9.1", cudart)
    wheel(site, "nvidia-cublas-cu10", "12.9.1", cublas, cublas_lt)
    wheel(site, "nvidia-cufft-cu10", "11.4.1", cufft)
    wheel(site, "nvidia-cusolver-cu10", "11.7.5", cusolver)
    wheel(site, "nvidia-cudnn-cu10", "9.10.2", broken)
    wheel(site, "nvidia-cuda-nvcc-cu10", "12.9.86", libdevice)
    return site


@pytest.fixture
def cuda13(tmp_path: Path) -> Path:
    """Those of CUDA 13: one directory. NCCL's wheel is of no CUDA version by its directory."""
    site = tmp_path / "site"
    cudart = library(site / "nvidia" / "cu13" / "lib" / "libcudart.so.13")
    nccl = library(site / "nvidia" / "nccl" / "lib" / "libnccl.so.2", cudart)
    wheel(site, "nvidia-cuda-runtime", "13.0.48", cudart)
    wheel(site, "nvidia-nccl-cu13", "2.28.3", nccl)
    return site


def plugin(site: Path, generation: int, *needed: Path) -> Path:
    """A wheel with a library called as a CUDA plugin is; with `needed` the C test plugin, which cannot be loaded without them."""
    path = site / "jax_plugins" / f"xla_cuda{generation}" / "xla_cuda_plugin.so"
    sources = tuple(sorted((PJRT / "testplugin" / "source").glob("*.c"))) if needed else ()
    library(path, *needed, sources=sources, flags=("-std=gnu11", f"-I{PJRT}", f"-I{PJRT / 'testplugin' / 'source'}", "-pthread"))
    wheel(site, f"jax-cuda{generation}-pjrt", "0.12.0", path)
    return path


def own_wheels(site: Path) -> str:
    """Code that hides the wheels that torch brought, so that only those of the test are there."""
    return f"""
    import importlib.metadata, json, os, sys
    from xla_go import _cuda, _plugins
    sys.path[:] = [{str(site)!r}, *sys.path]
    everything = importlib.metadata.distributions
    def only_here():
        return (d for d in everything() if not (d.metadata["Name"] or "").startswith("nvidia-") or {str(site)!r} in str(d.locate_file("")))
    importlib.metadata.distributions = only_here
    """


def test_libraries_are_loaded_in_the_order_of_their_needs(child: Child, cuda10: Path, cuda13: Path) -> None:
    needing = library(cuda10.parent / "needing.so", cuda10 / "nvidia" / "cusolver" / "lib" / "libcusolver.so.10")
    code = f"""
    import ctypes
    def load():
        try:
            return ctypes.CDLL({str(needing)!r}).needing_is_there()
        except OSError as error:
            return str(error)
    before = load()
    result = _cuda.preload(10)
    print(json.dumps([before, [path.name for path in result.loaded], {{path.name: reason for path, reason in result.failed.items()}}, str(result.data_dir), load()]))
    """
    before, loaded, failed, data_dir, after = json.loads(child(own_wheels(cuda10) + code).stdout.splitlines()[-1])
    assert "libcusolver.so.10" in before and after == 1
    assert loaded == ["libcudart.so.10", "libcublasLt.so.10", "libcublas.so.10", "libcufft.so.10", "libcusolver.so.10"]
    assert list(failed) == ["libcudnn.so.7"] and "libcudnn.so.7" in failed["libcudnn.so.7"]
    assert data_dir == str(cuda10 / "nvidia" / "cuda_nvcc")


def test_wheels_of_the_asked_generation_only(child: Child, cuda10: Path, cuda13: Path) -> None:
    code = "print(json.dumps([[generation, [path.name for path in paths], compiler and str(compiler)] for generation, paths, compiler in map(_cuda.find, (13, 0, 11))]))"
    found = json.loads(child(own_wheels(cuda13) + code).stdout.splitlines()[-1])
    assert found == [[13, ["libcudart.so.13", "libnccl.so.2"], None], [13, ["libcudart.so.13", "libnccl.so.2"], None], [11, [], None]]


def test_compiler_files(child: Child, cuda10: Path) -> None:
    code = """
    directory = _cuda.preload(10).data_dir
    told = []
    for flags in (None, "--xla_dump_to=x", "--xla_gpu_cuda_data_dir=mine"):
        environment = {} if flags is None else {"XLA_FLAGS": flags}
        _cuda.point_to_compiler(directory, environment)
        told.append(environment["XLA_FLAGS"])
    print(json.dumps(told))
    """
    directory = cuda10 / "nvidia" / "cuda_nvcc"
    assert json.loads(child(own_wheels(cuda10) + code).stdout.splitlines()[-1]) == [
        f"--xla_gpu_cuda_data_dir={directory}",
        f"--xla_dump_to=x --xla_gpu_cuda_data_dir={directory}",
        "--xla_gpu_cuda_data_dir=mine",
    ]


def test_a_cuda_plugin_finds_its_libraries(child: Child, cuda10: Path) -> None:
    """Without the libraries the dynamic linker refuses the plugin; with them it works."""
    path = plugin(cuda10, 10, cuda10 / "nvidia" / "cublas" / "lib" / "libcublas.so.10")
    use = """
    import contextlib, io
    from xla_go import doctor, runtime, _runtime
    try:
        said = runtime.global_runtime_device_count()
    except RuntimeError as error:
        said = str(error)
    with contextlib.redirect_stdout(io.StringIO()) as shown:
        doctor._preload()
    print(json.dumps([said, [path.name for path in _runtime.preloaded().loaded], os.environ.get("XLA_FLAGS"), shown.getvalue()]))
    """
    count, loaded, flags, shown = json.loads(child(own_wheels(cuda10) + use, env={"PJRT_DEVICE": "CUDA"}).stdout.splitlines()[-1])
    assert count == 1
    assert "libcublas.so.10" in loaded and flags == f"--xla_gpu_cuda_data_dir={cuda10 / 'nvidia' / 'cuda_nvcc'}"

    assert "preload      CUDA 10: libcudart.so.10, libcublasLt.so.10, libcublas.so.10" in shown
    assert f"preload      not loaded: {cuda10 / 'nvidia' / 'cudnn' / 'lib' / 'libcudnn.so.7'}" in shown
    assert f"preload      compiler's files in {cuda10 / 'nvidia' / 'cuda_nvcc'}" in shown

    for distribution in cuda10.glob("nvidia_*.dist-info"):
        shutil.rmtree(distribution)
    text, loaded, flags, shown = json.loads(child(own_wheels(cuda10) + use, env={"PJRT_DEVICE": "CUDA"}).stdout.splitlines()[-1])
    assert str(path) in text and "libcublas.so.10" in text and loaded == [] and flags is None
    assert "no NVIDIA wheels are installed" in shown


@pytest.mark.parametrize(("torch", "first"), [("'13.2'", 13), ("'12.8'", 12), ("None", 14)])
def test_plugin_of_torchs_cuda_comes_first(child: Child, tmp_path: Path, torch: str, first: int) -> None:
    site = tmp_path / "site"
    for generation in (12, 13, 14):
        plugin(site, generation)
    (site / "torch").mkdir()
    version = site / "torch" / "version.py"
    version.write_text(f"from typing import Optional\n__version__ = '9.9'\ncuda: Optional[str] = {torch}\nhip: Optional[str] = None\n")
    wheel(site, "torch", "9.9", version)
    # The torch of the environment, which xla_go has imported, would tell its own version.
    code = f"""
import json, sys
from xla_go import _plugins
sys.modules.pop("torch.version", None)
sys.path.insert(0, {str(site)!r})
print(json.dumps([plugin.path for plugin in _plugins.search({{}}).plugins if plugin.device_type == "CUDA"]))
"""
    found = [Path(path).parent.name for path in json.loads(child(code).stdout.splitlines()[-1])]
    assert found[0] == f"xla_cuda{first}"
    assert found[1:] == [f"xla_cuda{generation}" for generation in (14, 13, 12) if generation != first]


def test_other_plugins_get_nothing(child: Child, cuda10: Path) -> None:
    code = """
    assert _cuda.prepare("CPU", "/lib/libpjrt_cpu.so") is None and _cuda.prepare("", "/opt/cuda/plugin.so") is None
    assert "XLA_FLAGS" not in os.environ
    assert _cuda.prepare("", "/lib/xla_cuda12_plugin.so").generation == 12
    print("done")
    """
    assert child(own_wheels(cuda10) + code).stdout.split() == ["done"]
