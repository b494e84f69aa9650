"""What a CUDA plugin needs of NVIDIA's wheels before it is loaded: their libraries, and where their compiler lies.

A CUDA plugin opens the CUDA libraries by name when it starts. Those of wheels lie in no directory that the dynamic
linker searches, so they are loaded here first; the plugin then finds them in the process.
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import os
import re
import sys
from collections.abc import Iterable, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path

# In the order in which they need each other. cuDNN's and NVRTC's parts are opened by themselves.
LIBRARIES = (
    "libcudart",
    "libnvJitLink",
    "libnvrtc",
    "libcublasLt",
    "libcublas",
    "libcusparse",
    "libcusolver",
    "libcufft",
    "libcupti",
    "libnccl",
    "libnvshmem_host",
    "libcudnn",
)
_LIBRARY = re.compile(r"(lib\w+)\.so(?:\.[\d.]+)?")
_LIBDEVICE = ("nvvm", "libdevice", "libdevice.10.bc")


@dataclass
class Preload:
    """What was loaded, and what could not be and why. `data_dir` is the compiler's directory, None where no wheel has it."""

    generation: int
    loaded: list[Path] = field(default_factory=list)
    failed: dict[Path, str] = field(default_factory=dict)
    data_dir: Path | None = None


def torch_generation() -> int:
    """The CUDA major version that the installed torch was built for, 0 where it has no CUDA. Does not import torch."""
    module = sys.modules.get("torch.version")
    if module is not None:
        text = f"cuda = {getattr(module, 'cuda', None)!r}"
    else:
        try:
            distribution = importlib.metadata.distribution("torch")
            text = Path(str(distribution.locate_file("torch/version.py"))).read_text()
        except (importlib.metadata.PackageNotFoundError, OSError):
            return 0
    match = re.search(r"^cuda\b[^=\n]*=\s*['\"](\d+)", text, re.MULTILINE)
    return int(match.group(1)) if match else 0


def plugin_generation(name: str) -> int:
    """The CUDA major version in the name of a plugin's wheel, entry point or path, 0 where there is none."""
    numbers = re.findall(r"cuda[-_]?(\d+)", name.lower())
    return int(numbers[-1]) if numbers else 0


def _generation_of_wheel(name: str, directory: Path) -> int:
    """nvidia-cublas-cu12 is for CUDA 12; from CUDA 13 on the number is in the directory: nvidia/cu13/lib. 0 is for all."""
    for text in (name, directory.parent.name):
        if match := re.search(r"\bcu(\d\d)$", text):
            return int(match.group(1))
    return 0


def _wheels() -> Iterable[tuple[str, importlib.metadata.Distribution]]:
    for distribution in importlib.metadata.distributions():
        name = re.sub(r"[-_.]+", "-", distribution.metadata["Name"] or "").lower()
        if name.startswith("nvidia-"):
            yield name, distribution


def find(generation: int) -> tuple[int, list[Path], Path | None]:
    """The libraries that NVIDIA's wheels for a CUDA major version installed, in the order to load them, and the compiler's directory.

    Of several files of one library the first counts. With generation 0 the newest version that is installed is
    taken, and given.
    """
    libraries: dict[int, dict[str, Path]] = {}
    compilers: dict[int, Path] = {}
    for name, distribution in _wheels():
        for file in distribution.files or ():
            path = Path(str(distribution.locate_file(file)))
            if file.parts[:1] != ("nvidia",):
                continue
            if file.parts[-3:] == _LIBDEVICE and path.is_file():
                root = path.parents[2]
                compilers.setdefault(_generation_of_wheel(name, root / "nvvm"), root)
            match = _LIBRARY.fullmatch(file.name)
            if file.parent.name == "lib" and match and match.group(1) in LIBRARIES and path.is_file():
                libraries.setdefault(_generation_of_wheel(name, path.parent), {}).setdefault(match.group(1), path)
    generation = generation or max((number for number, found in libraries.items() if "libcudart" in found), default=0)
    matching = libraries.get(0, {}) | libraries.get(generation, {})
    compiler = compilers.get(generation) or compilers.get(0)
    return generation, [matching[name] for name in LIBRARIES if name in matching], compiler


def preload(generation: int) -> Preload:
    """Loads them, for all of the process to see. BLOCKING: seconds where they come from the disk. Raises nothing.

    What fails is tried again once others are there, until nothing more can be loaded.
    """
    generation, waiting, data_dir = find(generation)
    result = Preload(generation, data_dir=data_dir)
    progress = True
    while waiting and progress:
        progress = False
        for path in list(waiting):
            try:
                ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
            except OSError as error:
                result.failed[path] = str(error)
                continue
            result.loaded.append(path)
            result.failed.pop(path, None)
            waiting.remove(path)
            progress = True
    return result


def point_to_compiler(directory: Path, environment: MutableMapping[str, str] = os.environ) -> None:
    """Tells XLA where ptxas and libdevice lie, unless the user has."""
    flags = environment.get("XLA_FLAGS", "")
    if "--xla_gpu_cuda_data_dir" not in flags:
        environment["XLA_FLAGS"] = f"{flags} --xla_gpu_cuda_data_dir={directory}".strip()


def prepare(device_type: str, path: str) -> Preload | None:
    """Does both for the plugin at `path`; None for other plugins than CUDA's."""
    if device_type != "CUDA" and (device_type or "cuda" not in os.path.basename(path).lower()):
        return None
    result = preload(plugin_generation(path) or torch_generation())
    if result.data_dir is not None:
        point_to_compiler(result.data_dir)
    return result
