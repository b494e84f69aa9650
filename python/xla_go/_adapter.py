"""The C++ adapter between torch and the runtime: found prebuilt, or built at first use, and loaded.

This file imports nothing of the package at its top, so that a build can run it as a script:
``python _adapter.py --prebuild DIRECTORY`` builds the adapter for the torch of that interpreter, and for that
CPython; ``--torch HEADERS`` behind it for the torch whose headers a directory has (packaging/torch_headers.py).
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import hashlib
import importlib.machinery
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

MODULE_NAME = "xla_go._torch_adapter"
OLDEST_TORCH = (2, 9)

SOURCE_DIRECTORY = Path(__file__).resolve().parent / "torch_adapter"
# Headers of the C boundary: beside the source in an installed package, in gosrc in a checkout.
BOUNDARY_HEADERS = ("xla_go_dispatch.h", "rows_gen.h")
CHECKOUT_HEADERS = Path(__file__).resolve().parents[2] / "gosrc" / "dispatch"

# One translation unit of all sources: torch's headers are parsed once, which is most of the time.
UNITS = (
    "errors",
    "runtime",
    "guard",
    "storage",
    "generator",
    "hooks",
    "transfer",
    "arguments",
    "strides",
    "call",
    "collective",
    "fallback",
    "natives",
    "recording",
    "step_state",
    "autocast",
    "module",
)
TORCH_LIBRARIES = ("torch_python", "torch_cpu", "c10")
AUTOCAST_LISTS = ("LOWER_PRECISION_FP", "FP32", "FP32_SET_OPT_DTYPE", "PROMOTE")

_module: ModuleType | None = None


def load() -> ModuleType:
    """Registers device xla with torch and gives the extension module. Does not start the runtime.

    Builds the adapter first where no prebuilt one fits the running torch; BLOCKING for that time.
    Raises ImportError, in words, for a torch that is too old, after torch_xla, or where the build
    fails.
    """
    global _module
    if _module is not None:
        return _module
    _refuse_torch_xla()
    import torch

    _check_torch_version(torch.__version__)
    prebuilt = prebuilt_path(torch.__version__)
    path = prebuilt if prebuilt.exists() else _cached_build()
    module = _load_file(path)

    from xla_go import errors

    key = torch._C.DispatchKey
    module.initialize(
        torch.__version__,
        int(key.XLA),
        int(key.CPU),
        int(key.AutogradXLA),
        {code: errors.class_of_code(code) for code in range(1, 17)},
    )
    mode = os.environ.get("XLA_GO_FALLBACK", "cpu")
    if mode not in ("cpu", "error"):
        raise ImportError(f"xla_go: XLA_GO_FALLBACK: expected 'cpu' or 'error', got {mode!r}")
    module.set_fallback_mode(mode)
    _module = module
    # Before all that uses the device, so it comes after the handlers of all that.
    atexit.register(_hold_other_threads)
    return module


# How long threads on their way through torch have to come to the runtime, at the end of the process.
_SETTLE_SECONDS = 0.1


def _hold_other_threads() -> None:
    """At the end of the process: daemon threads that use the device stay in their next call of the runtime.

    Python ends a thread that asks for its lock from now on in a way that aborts the process, wherever the thread is in C++.
    """
    from xla_go import _runtime

    if len(threading.enumerate()) == 1 or (_runtime.loaded() and not _runtime.usable()):
        return
    loaded().hold_other_threads()
    _runtime.end_start()
    if _runtime.started():
        time.sleep(_SETTLE_SECONDS)


def loaded() -> ModuleType:
    """The extension module; raises where `load` has not been called."""
    if _module is None:
        raise RuntimeError("the torch adapter is not loaded; import xla_go first")
    return _module


def prebuilt_path(torch_version: str) -> Path:
    """Where a wheel carries the adapter for that torch minor release and this CPython."""
    major, minor = torch_version.split(".")[:2]
    return SOURCE_DIRECTORY / "prebuilt" / f"torch_{major}.{minor}_{_python_tag()}.so"


def build(output: Path, torch_directory: Path, torch_version: str, *, log: Path | None = None) -> Path:
    """Builds the adapter for this CPython and for the torch whose package is `torch_directory` into the file `output`.

    Of the package `include` is needed; torch itself is not loaded. BLOCKING, one compiler process of about 20 s and 1 GB.
    The file appears whole or not at all. Raises ImportError with the reason and the end of the compiler's output.
    """
    _check_torch_version(torch_version)
    _check_python_headers()
    output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="build-", dir=output.parent) as scratch:
        directory = Path(scratch)
        unit = directory / "adapter.cpp"
        unit.write_text("".join(f'#include "{name}.cpp"\n' for name in UNITS))
        (directory / "autocast_lists.h").write_text(_autocast_lists(torch_directory))
        target = directory / "adapter.so"
        command = [
            *_compiler(torch_version),
            *compile_flags(torch_version),
            *_include_flags(torch_directory, directory),
            str(unit),
            "-o",
            str(target),
            *_link_flags(_torch_libraries(torch_directory, directory)),
        ]
        _compile(command, log or output.with_suffix(".log"))
        os.replace(target, output)
    return output


def buffer_pointer(tensor: object) -> int:
    """Address of the tensor's first element in device memory, 0 where its value is not ready there."""
    storage = tensor.untyped_storage()  # type: ignore[attr-defined]
    base = loaded().buffer_pointer(storage._cdata)
    if base == 0:
        return 0
    return base + tensor.storage_offset() * tensor.element_size()  # type: ignore[attr-defined]


def storage_id(tensor: object) -> int:
    """The runtime's id of the tensor's storage, 0 before the runtime first sees it."""
    return loaded().storage_id(tensor.untyped_storage()._cdata)  # type: ignore[attr-defined]


# ---- loading ----


def _refuse_torch_xla() -> None:
    if "torch_xla" in sys.modules or "_XLAC" in sys.modules:
        raise ImportError(
            "xla_go: torch_xla is already imported in this process and owns device 'xla'; "
            "import xla_go instead of torch_xla (xla_go.compat.install() puts its names in place)"
        )


def _version_pair(version: str) -> tuple[int, int]:
    match = re.match(r"(\d+)\.(\d+)", version)
    if match is None:
        raise ImportError(f"xla_go: expected a torch version like 2.9.0, got {version!r}")
    return int(match.group(1)), int(match.group(2))


def _check_torch_version(version: str) -> None:
    if _version_pair(version) < OLDEST_TORCH:
        oldest = ".".join(map(str, OLDEST_TORCH))
        raise ImportError(
            f"xla_go: expected torch {oldest} or newer, got torch {version}; pip install 'torch>={oldest}'"
        )


def _load_file(path: Path) -> ModuleType:
    loader = importlib.machinery.ExtensionFileLoader(MODULE_NAME, str(path))
    spec = importlib.util.spec_from_file_location(MODULE_NAME, path, loader=loader)
    assert spec is not None
    try:
        module = importlib.util.module_from_spec(spec)
        loader.exec_module(module)
    except ImportError as error:
        raise ImportError(
            f"xla_go: the adapter {path} does not load with this torch ({error}); if torch was replaced by another build of the same version, delete that file"
        ) from error
    sys.modules[MODULE_NAME] = module
    return module


# ---- building ----


def _python_tag() -> str:
    threading = "t" if sysconfig.get_config_var("Py_GIL_DISABLED") else ""
    return f"cp{sys.version_info.major}{sys.version_info.minor}{threading}"


def cache_directory() -> Path:
    """Where built adapters are kept: XLA_GO_CACHE_DIR, else xla_go in the user's cache directory."""
    explicit = os.environ.get("XLA_GO_CACHE_DIR")
    if explicit:
        return Path(explicit).expanduser() / "adapter"
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "xla_go" / "adapter"


def _cached_build() -> Path:
    import torch

    directory = cache_directory() / _digest(torch.__version__, str(torch.version.git_version))
    output = directory / "adapter.so"
    try:
        _check_owner(directory)
        _check_owner(output)
        if output.exists():
            return output
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        _check_owner(directory)
        lock = _locked(directory / "lock")
        with lock:
            if not output.exists():
                print(
                    f"xla_go: building the adapter for torch {torch.__version__} (once, about 20 s) in {directory}",
                    file=sys.stderr,
                    flush=True,
                )
                build(output, Path(torch.__file__).resolve().parent, torch.__version__)
                output.chmod(0o600)
        _check_owner(output)
    except OSError as error:
        raise ImportError(
            f"xla_go: cannot build the adapter in {directory}: {error}; set XLA_GO_CACHE_DIR to a directory that can be written"
        ) from error
    return output


def _check_owner(path: Path) -> None:
    """Raises ImportError where another user may have made or changed what would be loaded. root may do everything anyway."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return
    own = os.geteuid()
    if found.st_uid not in (own, 0) or found.st_mode & 0o022:
        raise ImportError(
            f"xla_go: expected {path} to belong to this user ({own}) or to root and to be writable by its owner alone, it belongs to "
            f"user {found.st_uid} and has the mode {found.st_mode & 0o7777:04o}; set XLA_GO_CACHE_DIR to a directory of your own"
        )


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Holds the file's lock: of processes that start at once, one builds and the others wait."""
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _digest(torch_version: str, torch_commit: str) -> str:
    digest = hashlib.sha256()
    for path in sorted([*SOURCE_DIRECTORY.glob("*.cpp"), *SOURCE_DIRECTORY.glob("*.h"), *_boundary_headers()]):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    parts = [*UNITS, torch_version, torch_commit, _python_tag(), sys.version, *compile_flags(torch_version)]
    digest.update("\0".join(parts).encode())
    return digest.hexdigest()[:32]


def _boundary_headers() -> list[Path]:
    found = []
    for name in BOUNDARY_HEADERS:
        candidates = [SOURCE_DIRECTORY / name, CHECKOUT_HEADERS / name]
        path = next((candidate for candidate in candidates if candidate.exists()), None)
        if path is None:
            raise ImportError(
                f"xla_go: the header {name} of the adapter is missing from {SOURCE_DIRECTORY}; install xla_go again"
            )
        found.append(path)
    return found


def _compiler(torch_version: str) -> list[str]:
    explicit = os.environ.get("CXX")
    if explicit:
        command = shlex.split(explicit)
        if shutil.which(command[0]) is None:
            raise ImportError(f"xla_go: the compiler that CXX names ({command[0]}) is not found")
        return command
    for name in ("g++", "c++", "clang++"):
        path = shutil.which(name)
        if path is not None:
            return [path]
    raise ImportError(
        f"xla_go: no adapter is prebuilt for torch {torch_version} with {_python_tag()} and no C++ compiler is found to build it; "
        "install one (apt install g++, dnf install gcc-c++) or name it in CXX"
    )


def _check_python_headers() -> None:
    if not (Path(sysconfig.get_path("include")) / "Python.h").exists():
        raise ImportError(
            "xla_go: Python.h is not found, which building the adapter needs; install Python's headers (apt install python3-dev, dnf install python3-devel)"
        )


def compile_flags(torch_version: str) -> list[str]:
    """The compiler flags that decide what is built, without directories."""
    standard = "c++17" if _version_pair(torch_version) < (2, 10) else "c++20"
    return [
        f"-std={standard}",
        "-O2",
        "-fPIC",
        "-shared",
        "-fvisibility=hidden",
        "-DAT_PER_OPERATOR_HEADERS",
        "-DNDEBUG",
        "-w",
    ]


def _include_flags(torch_directory: Path, scratch: Path) -> list[str]:
    include = torch_directory / "include"
    flags = [f"-I{scratch}", f"-I{SOURCE_DIRECTORY}"]
    flags += [f"-I{directory}" for directory in {path.parent for path in _boundary_headers()} - {SOURCE_DIRECTORY}]
    for directory in (include, include / "torch" / "csrc" / "api" / "include", Path(sysconfig.get_path("include"))):
        flags += ["-isystem", str(directory)]
    return flags


def _torch_libraries(torch_directory: Path, scratch: Path) -> Path:
    """Where the linker finds torch's libraries: the package's own, else empty ones of their names, made here.

    Only the names get into the adapter: what it takes from the libraries is found when it is loaded.
    """
    directory = torch_directory / "lib"
    if directory.is_dir():
        return directory
    empty = scratch / "empty.c"
    empty.write_text("")
    compiler = os.environ.get("CC") or "cc"
    for name in TORCH_LIBRARIES:
        library = scratch / f"lib{name}.so"
        command = [*shlex.split(compiler), "-shared", f"-Wl,-soname,{library.name}", "-o", str(library), str(empty)]
        _compile(command, library.with_suffix(".log"))
    return scratch


def _link_flags(libraries: Path) -> list[str]:
    # No library of Python and no run path: the process has torch and Python loaded already.
    return [f"-L{libraries}", "-Wl,--no-as-needed", *(f"-l{name}" for name in TORCH_LIBRARIES), "-Wl,-z,now", "-s"]


def _autocast_lists(torch_directory: Path) -> str:
    """torch's lists of autocast operators, out of its header (see autocast.cpp for why not by including it)."""
    header = torch_directory / "include" / "ATen" / "autocast_mode.h"
    text = header.read_text()
    lists = []
    for name in AUTOCAST_LISTS:
        match = re.search(rf"^#define AT_FORALL_{name}\(_\)(?:.*\\\n)+.*\n", text, re.MULTILINE)
        if match is None:
            raise ImportError(
                f"xla_go: the list AT_FORALL_{name} is not found in {header}; this torch is not supported yet"
            )
        lists.append(match.group(0))
    return "\n".join(lists)


def _compile(command: list[str], log: Path) -> None:
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if result.returncode == 0:
        return
    log.write_text(shlex.join(command) + "\n\n" + result.stdout)
    errors = [line for line in result.stdout.splitlines() if "error" in line] or result.stdout.splitlines()
    last = "\n".join(errors[-10:])
    raise ImportError(
        f"xla_go: building the adapter failed (exit {result.returncode}); the whole output is in {log}; it ends with:\n{last}"
    )


def main(arguments: list[str]) -> int:
    """The command line (see the top of this file): builds under the name that `prebuilt_path` looks for."""
    import argparse

    parser = argparse.ArgumentParser()
    parser.add_argument("--prebuild", required=True, type=Path, metavar="DIRECTORY")
    parser.add_argument("--torch", type=Path, metavar="HEADERS", help="a torch package, or its include/ and version.py alone")
    options = parser.parse_args(arguments)
    if options.torch is None:
        import torch

        package, version = Path(torch.__file__).resolve().parent, str(torch.__version__)
    else:
        package = options.torch
        found = re.search(r"^__version__ = '(.+)'$", (package / "version.py").read_text(), re.MULTILINE)
        if found is None:
            parser.error(f"expected __version__ in {package / 'version.py'}")
        version = found[1]
    output = options.prebuild / prebuilt_path(version).name
    try:
        build(output, package, version)
    except ImportError as error:
        print(error, file=sys.stderr)
        return 1
    print(output)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
