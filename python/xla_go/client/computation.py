"""Computations: compiling, running, keeping."""

from __future__ import annotations

import base64
import ctypes
import json
import re
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, NoReturn

from xla_go import _runtime
from xla_go.client import data
from xla_go.client.data import Data
from xla_go.client.device import Device

__all__ = ["Computation", "compile", "deserialize", "environment_hash", "set_compile_options"]

# The first bytes of MLIR bytecode.
_BYTECODE = b"ML\xefR"
_CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")

_Execute = Callable[[int, tuple[Data, ...], "str | None", tuple[int, ...]], list[Data]]
_execute: _Execute  # set before there is any Computation


class Computation:
    """A compiled program. Call it with one Data per parameter; it gives one Data per result."""

    __slots__ = ("__weakref__", "_handle")

    _handle: int  # 0 once closed

    def __init__(self, handle: int) -> None:
        global _execute
        self._handle = handle
        _execute = data.link().execute

    def close(self) -> None:
        """Frees it; runs in flight finish first. Idempotent."""
        handle, self._handle = self._handle, 0
        if handle and _runtime.usable():
            _runtime.call("CloseComputation", handle)

    def __del__(self) -> None:
        self.close()

    def __enter__(self) -> Computation:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Computation cannot be copied or pickled: keep serialize() and load it with xla_go.client.deserialize")

    def __call__(self, *arguments: Data, device: str | None = None, keep: tuple[int, ...] = ()) -> list[Data]:
        """Queues a run on one device and gives its results, which may not be computed yet. Not blocking.

        A program compiled for several devices runs on `device`, by default the first. An argument that the program
        donates is gone afterwards; `keep` holds the numbers of arguments that this run must leave as they are.

        Errors of the call itself (shapes, devices, closed arguments) are raised here, those of the run by whatever
        reads its results.
        """
        try:
            return _execute(self._handle, arguments, device, keep)
        except RuntimeError as error:
            raise _runtime.translate(error) from None

    def execute_replicated(self, *arguments: Data, devices: Sequence[str] | None = None, keep: Sequence[int] = ()) -> list[Data]:
        """Queues a run on all devices that it was compiled for and gives sharded results. Not blocking.

        Each argument has one shard per device, in the order of `devices`, by default the order of compilation. Where
        the program is one of replicas, each shard of a result is a whole value.
        """
        for number, argument in enumerate(arguments):
            if not isinstance(argument, Data):
                raise TypeError(f"execute_replicated(): expected Data as argument {number}, got {type(argument).__name__}")
        handles = ",".join(str(argument._handle) for argument in arguments)
        names = "\n".join(self.devices if devices is None else devices)
        results = _runtime.call("ExecuteReplicated", self._handle, handles, names, ",".join(map(str, keep)))
        return [Data(int(handle)) for handle in results.split(",")] if results else []

    def info(self) -> dict[str, Any]:
        """name, devices, parameters, results (shapes in HLO's notation) and output_shardings (None where not sharded)."""
        info = json.loads(_runtime.call("ComputationInfo", self._handle))
        if info["output_shardings"] is not None:
            info["output_shardings"] = [None if s is None else base64.b64decode(s) for s in info["output_shardings"]]
        return info

    @property
    def name(self) -> str:
        return self.info()["name"]

    @property
    def devices(self) -> list[Device]:
        """The devices that it was compiled for."""
        return [Device(name) for name in self.info()["devices"]]

    @property
    def parameters(self) -> list[str]:
        """Shapes of the parameters in HLO's notation, for example "f32[2,3]"."""
        return self.info()["parameters"]

    @property
    def results(self) -> list[str]:
        """Shapes of the results in HLO's notation."""
        return self.info()["results"]

    @property
    def output_shardings(self) -> list[bytes | None] | None:
        """How the results lie over the devices (see `xla_go.client.sharding`); None for a program that is not sharded."""
        return self.info()["output_shardings"]

    def optimized_hlo(self) -> bytes:
        """The serialized HloModuleProto after the compiler's passes.

        Raises UnimplementedError where the plugin does not give it.
        """
        return _runtime.take_bytes(_runtime.call("OptimizedHLO", self._handle))

    def memory_analysis(self) -> str:
        """The executable's memory in words: arguments, results, temporaries and code, in bytes.

        Raises UnimplementedError where the plugin does not count.
        """
        return _runtime.call("ComputationMemory", self._handle)

    def serialize(self) -> bytes:
        """The executable in the plugin's own form, for `deserialize` on a plugin of the same version and `environment_hash`."""
        return _runtime.take_bytes(_runtime.call("SerializeComputation", self._handle))

    def __repr__(self) -> str:
        if not self._handle:
            return "<Computation closed>"
        info = self.info()
        return f"<Computation {info['name']} ({', '.join(info['parameters'])}) -> ({', '.join(info['results'])}) on {', '.join(info['devices'])}>"


def _address(program: bytes) -> int:
    address = ctypes.cast(ctypes.c_char_p(program), ctypes.c_void_p).value
    assert address is not None
    return address


def _is_text(program: bytes) -> bool:
    """Whether bytes are MLIR's text: a protocol buffer always has some control character."""
    return _CONTROL.search(program) is None


def _format(program: bytes) -> Literal["hlo", "mlir"]:
    if program.startswith(_BYTECODE):
        return "mlir"
    if not _is_text(program):
        return "hlo"
    if program.lstrip().startswith(b"HloModule"):
        raise ValueError(
            "compile(): expected StableHLO (text or bytecode) or a serialized HloModuleProto, got HLO as text, which plugins do not read: "
            "pass what jax.jit(f).lower(x).as_text() prints, or the module's SerializeToString()"
        )
    return "mlir"


def _made(token: int) -> Computation:
    """Waits for a computation that is being made. Where that is broken off it is closed once it has been made."""
    try:
        while not _runtime.call("ComputationWait", token, _runtime.WAIT_SLICE_MS):
            pass
        return Computation(_runtime.call("ComputationTake", token))
    finally:
        _runtime.call("ComputationEnd", token)


def compile(
    program: bytes | str,
    format: Literal["hlo", "mlir"] | None = None,
    name: str = "program",
    device: str | None = None,
    *,
    devices: Sequence[str] = (),
    sharded: bool = False,
    propagate_to_outputs: bool = False,
    tupled_parameters: bool = False,
) -> Computation:
    """Compiles a program. BLOCKING for the compiler's time; Ctrl-C breaks the wait, and the compiler ends by itself.

    program: StableHLO as text (what `jax.jit(f).lower(x).as_text()` gives) or bytecode ("mlir"), or a serialized
        HloModuleProto ("hlo"). The format is told from the program where it is not given.
    name: for messages.
    device: the one device to run on, the default one where none is named.
    devices: several devices instead; each runs a replica of the program, or, with `sharded`, its partition of the one
        program that is annotated with shardings.
    propagate_to_outputs: with `sharded`, the compiler chooses the shardings of results that have none.
    tupled_parameters: the program has one tuple as its parameter; it is still called with the elements.

    Raises InvalidArgumentError, or whatever code the plugin's compiler gives, with the compiler's message.
    """
    _runtime.initialize()
    if device is not None and devices:
        raise ValueError(f"compile(): expected device or devices, got both: {device!r} and {list(devices)!r}")
    raw = program.encode() if isinstance(program, str) else bytes(program)
    if not raw:
        raise ValueError("compile(): expected a program, got no bytes")
    request = {
        "format": format or _format(raw), "name": name, "devices": [device] if device else list(devices), "sharded": sharded,
        "propagate_to_outputs": propagate_to_outputs, "tupled_parameters": tupled_parameters,
    }  # fmt: skip
    return _made(_runtime.call("CompileBegin", _address(raw), len(raw), json.dumps(request)))


def deserialize(serialized: bytes, devices: Sequence[str] = ()) -> Computation:
    """Loads what `Computation.serialize` gave, to run on other devices where some are named. BLOCKING for the plugin's time.

    Bytes of another plugin or version give an error, or are undefined where the plugin does not check: keep
    `environment_hash` beside them.
    """
    _runtime.initialize()
    raw = bytes(serialized)
    if not raw:
        raise ValueError("deserialize(): expected a serialized computation, got no bytes")
    return _made(_runtime.call("DeserializeBegin", _address(raw), len(raw), "\n".join(devices)))


def environment_hash() -> bytes:
    """16 bytes that stand for plugin, version, devices, options and flags: a serialized computation is good for one value."""
    _runtime.initialize()
    return bytes.fromhex(_runtime.call("EnvironmentHash"))


def set_compile_options(options: Mapping[str, str]) -> None:
    """Replaces the compiler's options (XLA's debug options by name, values as text) of every later compile.

    It changes `environment_hash`. A name that the plugin does not know is an error of the compile.
    """
    _runtime.initialize()
    _runtime.call("SetCompileOptions", json.dumps(dict(options)))
