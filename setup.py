"""Builds xla_go._native: gopy generates a Go main package around gosrc/bind, the Go tool links it.

Everything else about the distribution is in pyproject.toml.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent
# The leading underscore keeps the generated package out of `go vet ./...`.
GENERATED = ROOT / "build" / "_native"
BOUND_PACKAGE = "xla_go/gosrc/bind"
# The module's functions that gopy does not write.
HAND_WRITTEN = ROOT / "gosrc" / "bind" / "extension"


def run(*command: str, cwd: Path = ROOT) -> None:
    # -trimpath in the environment, not on one command line, so that the packages that gopy
    # compiles to look at them are the ones that the link finds in Go's build cache.
    environment = {**os.environ, "GOFLAGS": f"{os.environ.get('GOFLAGS', '')} -trimpath".strip()}
    subprocess.run(command, cwd=cwd, env=environment, check=True)


def generate() -> None:
    """Writes the Go and C wrappers of gosrc/bind into GENERATED."""
    if shutil.which("go") is None:
        raise SystemExit("xla-go: no `go` command found: install Go 1.26 or newer (https://go.dev/dl/) to build from source")
    shutil.rmtree(GENERATED, ignore_errors=True)
    GENERATED.mkdir(parents=True)
    run("go", "tool", "gopy", "gen", "-name=native", "-no-make", f"-output={GENERATED}", f"-vm={sys.executable}", BOUND_PACKAGE)
    # gopy's own Python wrappers change the working directory at import; the extension is
    # imported directly instead.
    for wrapper in ("__init__.py", "bind.py", "go.py"):
        (GENERATED / wrapper).unlink()

    source = GENERATED / "native.go"
    text = source.read_text()
    # gopy links libpython with a run path, which a wheel must not have: the interpreter that
    # loads the extension provides the symbols.
    text, flags = re.subn(r"^#cgo CFLAGS:.*$", f'#cgo CFLAGS: "-I{sysconfig.get_path("include")}" -DNDEBUG -w', text, flags=re.MULTILINE)
    text, libraries = re.subn(r"^#cgo LDFLAGS:.*\n", "", text, flags=re.MULTILINE)
    # The first lines repeat gopy's command line with this machine's paths.
    text, header = re.subn(r"^gopy gen .*\n", "", text, flags=re.MULTILINE)
    if (flags, libraries, header) != (1, 1, 1):
        raise SystemExit(f"xla-go: the file that gopy generated has an unexpected form ({flags}, {libraries}, {header}): use the gopy that go.mod names")
    source.write_text(text)
    run("go", "tool", "goimports", "-w", str(source))
    run(sys.executable, "build.py", cwd=GENERATED)
    # cgo writes the declarations of exported functions into _cgo_export.h while it builds, so
    # no library needs to be linked first only to get the header that gopy names.
    (GENERATED / "native_go.h").write_text('#include "_cgo_export.h"\n')
    extend()


def extend() -> None:
    """Adds the hand-written functions to the module: their files, and a call where the module is made."""
    for path in [*HAND_WRITTEN.glob("*.c"), *HAND_WRITTEN.glob("*.h")]:
        shutil.copy2(path, GENERATED / path.name)
    module = GENERATED / "native.c"
    text, starts = re.subn(
        r"^(\s*)return MOD_RETURN\(m\);$",
        r"\1if (xla_go_extend(m) != 0) {\n\1    Py_DECREF(m);\n\1    return MOD_ERROR;\n\1}\n\1return MOD_RETURN(m);",
        module.read_text(),
        flags=re.MULTILINE,
    )
    if starts != 1:
        raise SystemExit(f"xla-go: the module that gopy generated has an unexpected form ({starts} starts): use the gopy that go.mod names")
    module.write_text('#include "extension.h"\n' + text)


# Python's types of those that gopy takes.
STUB_TYPES = {"int64": "int", "string": "str", "bool": "bool", "float64": "float"}


def stub_parameters(text: str) -> list[str]:
    """Go's parameters in Python's form; of "a, b int64" the type comes last."""
    parameters: list[str] = []
    waiting: list[str] = []
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, _, kind = item.partition(" ")
        waiting.append(name)
        if kind:
            parameters += [f"{name}: {STUB_TYPES[kind]}" for name in waiting]
            waiting = []
    return parameters


def write_stub(target: Path) -> None:
    """Writes the types of the extension's functions."""
    functions = []
    for source in sorted((ROOT / "gosrc" / "bind").glob("*.go")):
        if source.name.endswith("_test.go"):
            continue
        for name, arguments, results in re.findall(r"^func ([A-Z]\w*)\(([^)]*)\) ?(\([^)]*\)|\w*) ?\{", source.read_text(), flags=re.MULTILINE):
            first = results.strip("()").split(",")[0].split()
            kind = STUB_TYPES[first[-1]] if first else "None"
            parameters = stub_parameters(arguments)
            if not first:
                parameters.append("goRun: bool")  # gopy's: whether to run in the background
            functions.append(f"def bind_{name}({', '.join(parameters)}) -> {kind}: ...\n")
    written = (HAND_WRITTEN / "functions.pyi").read_text()
    target.write_text(f"{written}\n# Those of gosrc/bind, by gopy.\n{''.join(sorted(functions))}")


def is_current(library: Path) -> bool:
    """Whether a library was built after the last change of anything that it is made of."""
    sources = [path for room in ("gosrc", "pjrt") for path in (ROOT / room).rglob("*") if path.suffix in (".go", ".c", ".h", ".inc")]
    sources += [ROOT / name for name in ("go.mod", "go.sum", "setup.py", "pyproject.toml")]
    return library.exists() and library.stat().st_mtime > max(source.stat().st_mtime for source in sources)


class BuildNative(build_ext):
    """Runs gopy and the Go linker in place of a C compiler."""

    def build_extension(self, ext: Extension) -> None:
        target = Path(self.get_ext_fullpath(ext.name)).resolve()
        kept = ROOT / "build" / "native" / target.name
        if not is_current(kept):
            self.link(kept)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(kept, target)
        write_stub(target.parent / "_native.pyi")

    def link(self, target: Path) -> None:
        started = time.time()
        generate()
        target.parent.mkdir(parents=True, exist_ok=True)
        symbols = GENERATED / "exported.map"
        symbols.write_text("{ global: PyInit__native; local: *; };\n")
        version = self.distribution.get_version()
        run(
            "go", "build", "-buildmode=c-shared",
            f"-ldflags=-s -w -X {BOUND_PACKAGE}.version={version} -extldflags=-Wl,--version-script={symbols}",
            "-o", str(target), f"./{GENERATED.relative_to(ROOT)}",
        )  # fmt: skip
        target.with_name(target.name.removesuffix(".so") + ".h").unlink(missing_ok=True)
        # A source that changed meanwhile may or may not be in it.
        os.utime(target, (started, started))


class BuildPackage(build_py):
    """Puts the C boundary's headers beside the adapter's source, and adapters that are built already.

    XLA_GO_PREBUILT names the directory of the latter; without it the wheel's adapter is built at first use.
    """

    def run(self) -> None:
        super().run()
        adapter = Path(self.build_lib) / "xla_go" / "torch_adapter"
        adapter.mkdir(parents=True, exist_ok=True)
        for header in sorted((ROOT / "gosrc" / "dispatch").glob("*.h")):
            shutil.copy2(header, adapter / header.name)
        if prebuilt := os.environ.get("XLA_GO_PREBUILT"):
            (adapter / "prebuilt").mkdir(exist_ok=True)
            for library in sorted(Path(prebuilt).glob(f"*_cp{sys.version_info.major}{sys.version_info.minor}.so")):
                shutil.copy2(library, adapter / "prebuilt" / library.name)


setup(
    ext_modules=[Extension("xla_go._native", sources=[])],
    cmdclass={"build_ext": BuildNative, "build_py": BuildPackage},
)
