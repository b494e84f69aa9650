"""torch_xla.stablehlo over xla_go.stablehlo. Directories that `save` writes are xla_go's, and not torch_xla's."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

import torch

from xla_go import errors, stablehlo
from xla_go.compat import _missing

_BYTECODE = "MLIR bytecode takes MLIR to write; get_stablehlo_text() gives text, which every reader of bytecode takes"


@dataclass
class StableHLOExportOptions:
    """How a program is exported. What cannot be given raises UnimplementedError where it is asked for."""

    include_human_readable_text: bool = True  # there is always text
    override_tracing_arguments: tuple[Any, ...] | None = None
    override_tracing_kwargs: Mapping[str, Any] | None = None
    save_weights: bool = True
    inline_all_constant: bool = True
    export_weights: bool = True
    custom_ops_allowed_in_graph: set[str] = field(default_factory=set)
    export_node_metadata: bool = False

    def _refuse(self) -> None:
        for name, unknown, reason in (
            ("export_node_metadata", self.export_node_metadata, "the program has no locations"),
        ):
            if unknown:
                raise errors.UnimplementedError(f"StableHLOExportOptions.{name}: expected {getattr(type(self)(), name)!r}, got {getattr(self, name)!r}: {reason}")


@dataclass
class StableHLOModelBundle:
    """The weights of a program, as numpy arrays by their names in the model."""

    state_dict: dict[str, Any]


class StableHLOGraphModule:
    """An exported program, to be called as its model was: see xla_go.stablehlo.StableHLOProgram, which `program` is.

    Outputs are on the device of the inputs. Buffers that the model changes keep their new values from call to call.
    """

    def __init__(self, program: stablehlo.StableHLOProgram) -> None:
        self.program = program

    @property
    def _bundle(self) -> StableHLOModelBundle:
        return StableHLOModelBundle(dict(self.program.weights()))

    def _check_method(self, function: str, name: str | None) -> None:
        if name not in (None, self.program.name):
            raise KeyError(f"{function}(): expected method {self.program.name!r}, the only one, got {name!r}")

    def evaluate(self, method_name: str, args: tuple[Any, ...]) -> Any:
        self._check_method("evaluate", method_name)
        return self.program(*args)

    def get_stablehlo_text(self, method_name: str | None = None) -> str:
        self._check_method("get_stablehlo_text", method_name)
        return self.program.readable()

    def get_stablehlo_bytecode(self, method_name: str | None = None) -> NoReturn:
        """Raises UnimplementedError: see get_stablehlo_text."""
        raise errors.UnimplementedError(f"get_stablehlo_bytecode(): not provided: {_BYTECODE}")

    def save(self, directory_path: str | os.PathLike[str], options: StableHLOExportOptions | None = None) -> None:
        self.program.save(directory_path, weights=options is None or options.save_weights)

    @classmethod
    def load(cls, directory_path: str | os.PathLike[str]) -> StableHLOGraphModule:
        return cls(stablehlo.load(directory_path))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.program(*args, **kwargs)


def exported_program_to_stablehlo(exported_model: torch.export.ExportedProgram, options: StableHLOExportOptions | None = None) -> StableHLOGraphModule:
    """xla_go.stablehlo.export of what torch.export.export gave."""
    options = options or StableHLOExportOptions()
    options._refuse()
    program = stablehlo.export(
        exported_model, options.override_tracing_arguments, options.override_tracing_kwargs,
        custom_operators=options.custom_ops_allowed_in_graph, inline_numbers=options.inline_all_constant,
    )  # fmt: skip
    if not options.export_weights:
        program = stablehlo.StableHLOProgram(program.text, program.hlo, program.module, program.about, {})
    return StableHLOGraphModule(program)


def _run_decompositions(exported_model: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """What torch.export gave, in terms of torch's core operators."""
    return exported_model.run_decompositions()


def save_as_stablehlo(exported_model: torch.export.ExportedProgram, stablehlo_dir: str | os.PathLike[str], options: StableHLOExportOptions | None = None) -> None:
    """Exports and saves; `StableHLOGraphModule.load` reads it."""
    exported_program_to_stablehlo(exported_model, options).save(stablehlo_dir, options)


def save_torch_model_as_stablehlo(
    torchmodel: torch.nn.Module, args: tuple[Any, ...], path: str | os.PathLike[str], options: StableHLOExportOptions | None = None
) -> None:
    """save_as_stablehlo of a module that torch.export has yet to follow."""
    save_as_stablehlo(torch.export.export(torchmodel, args), path, options)


get_stablehlo_bytecode = _missing.unimplemented("torch_xla.core.xla_model.get_stablehlo_bytecode", _BYTECODE)


def get_stablehlo(tensors: list[torch.Tensor] | None = None) -> str:
    """The StableHLO text of the program that would compute the tensors, or all that is pending. It runs nothing."""
    from xla_go import _graph, _runtime
    from xla_go.compat import graph_text

    whole = graph_text.whole_values(tensors or ())
    storages = _graph.storages_of("get_stablehlo", whole)
    _runtime.wait("ShardingsWaitBegin")
    return _runtime.call("GraphText", whole[-1].device.index or 0 if whole else 0, storages, "readable stablehlo")


def __getattr__(name: str) -> NoReturn:
    raise _missing.attribute_error("torch_xla.stablehlo", name)
