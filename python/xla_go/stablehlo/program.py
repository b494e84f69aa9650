"""An exported program: its text, its weights, and running it. Nothing here needs torch."""

from __future__ import annotations

import json
import os
import secrets
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from xla_go import _runtime, client, errors
from xla_go.client.computation import _address
from xla_go.stablehlo import _about, _arrays, _tree, _weights

if TYPE_CHECKING:
    import numpy as np

__all__ = ["StableHLOProgram", "load"]

FORMAT, VERSION = "xla_go.stablehlo", 1
_STABLEHLO, _HLO, _MODULE, _ABOUT, _WEIGHTS = "program.mlir", "program.hlo", "program.pb", "program.json", "weights.safetensors"


class StableHLOProgram:
    """A program with its weights. Call it as the model was called; `save` writes it as plain files.

    text: StableHLO, in MLIR's generic form. hlo: the same module as HLO text, to read. module: as a serialized HloModuleProto.
    about: what `save` writes as JSON: the order and the kinds of arguments and results, and how inputs and outputs are nested.

    Weights that a run changes are this object's state; the model that it comes from is another. Safe for use by several threads.
    """

    def __init__(self, text: str, hlo: str, module: bytes, about: Mapping[str, Any], weights: Mapping[str, _weights.Array]) -> None:
        self.text, self.hlo, self.module, self.about = text, hlo, module, dict(about)
        self._weights = dict(weights)
        self._lock = threading.RLock()
        self._computation: client.Computation | None = None
        self._device: str | None = None
        self._format: Literal["hlo", "mlir"] = "mlir"
        self._on_device: dict[str, client.Data] = {}
        self._changed: set[str] = set()
        self._generator = [secrets.randbits(63), 0]

    @property
    def name(self) -> str:
        return self.about["name"]

    @property
    def arguments(self) -> list[dict[str, Any]]:
        """The program's arguments in order: kind ("weight", "input" or "generator"), name, element (as HLO spells it), dimensions."""
        return self.about["arguments"]

    @property
    def results(self) -> list[dict[str, Any]]:
        """The program's results in order: kind ("output", "weight" for the new value of one, "input" likewise), name, element, dimensions."""
        return self.about["results"]

    def weights(self) -> dict[str, np.ndarray[Any, Any]]:
        """The weights as they are now, by the names that they have in the model. BLOCKING where a run has changed some.

        TypeError for bfloat16 and 8-bit floats where the package ml_dtypes is not installed.
        """
        with self._lock:
            self._fetch()
            return {name: array.numpy() for name, array in self._weights.items()}

    def readable(self) -> str:
        """The program as StableHLO in the forms that MLIR prints, to read: `text` with less of what follows from the rest."""
        return _runtime.take_bytes(_runtime.call("ReadableStableHLO", _address(self.module), len(self.module))).decode()

    def manual_seed(self, seed: int) -> None:
        """Seeds the random numbers of a program that draws some; without it each process has others."""
        with self._lock:
            self._generator = [seed % 2**64, 0]

    def compile(self, device: str | None = None, format: Literal["hlo", "mlir"] = "mlir") -> client.Computation:
        """Compiles it for a device, the default one where none is named, and gives the computation, which later calls run.

        format: as what the plugin gets it: StableHLO text ("mlir") or a serialized HloModuleProto ("hlo"). The first call
        compiles by itself. BLOCKING for the compiler's time. The computation belongs to the program.
        """
        program = self.text if format == "mlir" else self.module
        computation = client.compile(program, format, name=self.name, device=device)
        with self._lock:
            self.close()
            self._computation, self._device, self._format = computation, device, format
        return computation

    def close(self) -> None:
        """Frees the computation and the weights on the device; the next call makes them again. Idempotent."""
        with self._lock:
            self._fetch()
            for data in self._on_device.values():
                data.close()
            self._on_device.clear()
            if self._computation is not None:
                self._computation.close()
                self._computation = None

    def __enter__(self) -> StableHLOProgram:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _fetch(self) -> None:
        """Brings the weights that runs have changed to the host."""
        for name in sorted(self._changed):
            self._weights[name] = _arrays.read(self._on_device[name])
        self._changed.clear()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs it. Inputs are nested as the model's were, and of the same shapes and types.

        Outputs are of the kind of the inputs: `client.Data` where one of those is, else tensors on device xla, else tensors on
        the CPU, else numpy arrays. Mappings of any class come out as dict. An input that the model writes to is written to.
        BLOCKING, but for Data and tensors on device xla, which may not be computed yet. Ctrl-C breaks the wait.

        Raises ValueError for inputs that do not fit, and the run's errors.
        """
        given = dict(_tree.flatten(self.about["inputs"]["tree"], (args, kwargs), "arguments"))
        leaves = self.about["inputs"]["leaves"]
        for number, leaf in enumerate(leaves):
            if "constant" in leaf and (type(given[number]) is not type(leaf["constant"]) or given[number] != leaf["constant"]):
                raise ValueError(f"{self.name}(): expected {leaf['constant']!r} as input {leaf['name']}, which it was exported with, got {given[number]!r}")
        for result in self.results:
            if result["kind"] == "input":
                _arrays.check_writable(given[result["input"]], result, self.name)
        kind = _arrays.kind_of([value for number, value in given.items() if "constant" not in leaves[number]])
        owned: list[client.Data] = []
        with self._lock:
            if self._computation is None:
                self.compile(self._device, self._format)
            assert self._computation is not None
            try:
                results = self._run(self._computation, given, owned)
            finally:
                for data in owned:
                    data.close()
        return self._outputs(results, given, kind)

    def _run(self, computation: client.Computation, given: dict[int, Any], owned: list[client.Data]) -> list[client.Data]:
        arguments = []
        for argument in self.arguments:
            if argument["kind"] == "weight":
                name = argument["name"]
                if name not in self._weights and name not in self._on_device:
                    raise errors.FailedPreconditionError(f"{self.name}(): expected weights, got a program without {name!r}: give them by set_weights()")
                if name not in self._on_device:
                    self._on_device[name] = _arrays.upload(self._weights[name], self._device)
                arguments.append(self._on_device[name])
                continue
            if argument["kind"] == "generator":
                data = client.upload(self._generator, self._device, "uint64")
            else:
                value = given[argument["input"]]
                data = _arrays.device_data(value, argument, self._device, self.name)
                if data is value:
                    arguments.append(data)
                    continue
            owned.append(data)
            arguments.append(data)
        results = computation(*arguments)
        self._generator[1] = (self._generator[1] + self.about["drawn"]) % 2**64
        for result, data in zip(self.results, results, strict=True):
            if result["kind"] == "weight":
                before = self._on_device.pop(result["name"], None)
                self._on_device[result["name"]] = data
                self._changed.add(result["name"])
                if before is not None:
                    before.close()
        return results

    def _outputs(self, results: list[client.Data], given: dict[int, Any], kind: str) -> Any:
        by_output: dict[int, Any] = {}
        for result, data in zip(self.results, results, strict=True):
            if result["kind"] == "output":
                by_output[result["output"]] = _arrays.converted(data, kind)
            elif result["kind"] == "input":
                _arrays.assign(given[result["input"]], data)

        def leaf(number: int) -> Any:
            if number in by_output:
                return by_output[number]
            about = self.about["outputs"]["leaves"][number]
            return _arrays.empty(about["empty"], kind, self._device) if "empty" in about else about["constant"]

        return _tree.build(self.about["outputs"]["tree"], leaf)

    def set_weights(self, weights: Mapping[str, Any]) -> None:
        """Gives weights new values: arrays or tensors of the same shapes and types, by the names of `weights`. BLOCKING while they
        are copied. Raises ValueError, and has changed none, for one that the program does not have or that does not fit."""
        wanted = {item["name"]: item for item in [*self.results, *self.arguments] if item["kind"] == "weight"}
        for name in weights:
            if name not in wanted:
                raise ValueError(f"set_weights(): expected weights among {', '.join(wanted)}, got {name!r}")
        arrays = {name: _arrays.of_host(value, wanted[name], "set_weights") for name, value in weights.items()}
        with self._lock:
            self.close()
            self._weights.update(arrays)

    def save(self, path: str | os.PathLike[str], *, weights: bool = True) -> None:
        """Writes it into a directory, which is made where there is none: StableHLO and HLO as text, the serialized module, JSON,
        and, unless `weights` is false, the weights as they are now in the safetensors format. What an earlier `save` has put there
        is replaced."""
        directory = Path(path)
        directory.mkdir(parents=True, exist_ok=True)
        if weights:
            with self._lock:
                self._fetch()
                _weights.save(directory / _WEIGHTS, self._weights)
        else:
            (directory / _WEIGHTS).unlink(missing_ok=True)
        (directory / _STABLEHLO).write_text(self.text, encoding="utf-8")
        (directory / _HLO).write_text(self.hlo, encoding="utf-8")
        (directory / _MODULE).write_bytes(self.module)
        (directory / _ABOUT).write_text(json.dumps({**self.about, "weights": weights}, indent=1) + "\n", encoding="utf-8")

    def __repr__(self) -> str:
        def shape(item: dict[str, Any]) -> str:
            return f"{item['element']}{item['dimensions']}"

        inputs = ", ".join(f"{a['name']}: {shape(a)}" for a in self.arguments if a["kind"] == "input")
        outputs = ", ".join(shape(r) for r in self.results if r["kind"] == "output")
        return f"<StableHLOProgram {self.name} ({inputs}) -> ({outputs}), {len(self._weights)} weights>"


def load(path: str | os.PathLike[str]) -> StableHLOProgram:
    """The program that `StableHLOProgram.save` wrote, without weights where it was saved so (see `set_weights`). Weights are read when they are first used, so the files must stay until then.

    Raises NotFoundError where there is none, DataLossError for one that is damaged, UnimplementedError for one of a later version.
    """
    directory = Path(path)
    try:
        about = json.loads((directory / _ABOUT).read_text(encoding="utf-8"))
        text, hlo = ((directory / name).read_text(encoding="utf-8") for name in (_STABLEHLO, _HLO))
        module = (directory / _MODULE).read_bytes()
        weights = _weights.load(directory / _WEIGHTS) if not isinstance(about, dict) or about.get("weights", True) else None
    except FileNotFoundError as error:
        raise errors.NotFoundError(f"load(): expected a directory that StableHLOProgram.save wrote, got {directory}: {error.filename} is not there") from None
    except (ValueError, RecursionError) as error:
        raise errors.DataLossError(f"load(): a file in {directory} is damaged: {error}") from None
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise errors.DataLossError(f"load(): expected {directory / _ABOUT} to be of the format {FORMAT}")
    version = about.get("version")
    if type(version) is not int or version < 1:
        raise errors.DataLossError(f"load(): expected a version of the format from 1 to {VERSION} in {directory / _ABOUT}, got {version!r}")
    if version > VERSION:
        raise errors.UnimplementedError(f"load(): expected at most version {VERSION} of the format, got {version}: update xla_go")
    try:
        _about.check(about)
    except (ValueError, RecursionError) as error:
        raise errors.DataLossError(f"load(): {directory / _ABOUT} is damaged: {error}") from None
    for argument in about["arguments"]:
        if argument["kind"] != "weight" or weights is None:
            continue
        array = weights.get(argument["name"])
        if array is None or (array.element, list(array.dimensions)) != (argument["element"], argument["dimensions"]):
            raise errors.DataLossError(f"load(): expected weight {argument['name']!r} {argument['element']}{argument['dimensions']} in {directory / _WEIGHTS}, got {array and array[:2]}")
    return StableHLOProgram(text, hlo, module, about, weights or {})
