"""The traced program, to look at before it runs."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from xla_go import _adapter, _runtime, errors

if TYPE_CHECKING:
    import torch


class Graph:
    """The program that would compute some tensors, as it was when `graph` was called. In a notebook it shows as a picture.

    ir: a node a line. hlo: the text of the module that XLA would compile. dot: Graphviz's language.
    """

    def __init__(self, ir: str, hlo: str, dot: str, stablehlo: str | Exception) -> None:
        self.ir, self.hlo, self.dot, self._stablehlo = ir, hlo, dot, stablehlo

    @property
    def stablehlo(self) -> str:
        """The program as StableHLO (MLIR's generic form), which `xla_go.client.compile` and other StableHLO tools take.

        Its arguments are those of hlo, one by one where that takes a tuple. Raises UnimplementedError, with the opcode's
        name, where StableHLO has no operation for an instruction.
        """
        if isinstance(self._stablehlo, Exception):
            raise self._stablehlo
        return self._stablehlo

    def svg(self) -> str:
        """The picture, laid out by Graphviz's program `dot`. Raises RuntimeError where that is not installed."""
        program = shutil.which("dot")
        if program is None:
            raise RuntimeError("svg(): expected Graphviz's program dot on the path (apt install graphviz); `dot` has the graph without a layout")
        return subprocess.run([program, "-Tsvg"], input=self.dot, capture_output=True, text=True, check=True).stdout

    def save(self, path: str) -> None:
        """Writes it by the name's ending: .ir or .txt, .hlo, .mlir, .dot, .svg."""
        writers = {
            ".ir": lambda: self.ir,
            ".txt": lambda: self.ir,
            ".hlo": lambda: self.hlo,
            ".mlir": lambda: self.stablehlo,
            ".dot": lambda: self.dot,
            ".svg": self.svg,
        }
        ending = Path(path).suffix
        if ending not in writers:
            raise ValueError(f"save(): expected a name that ends in one of {', '.join(writers)}, got {path!r}")
        Path(path).write_text(writers[ending]())

    def _repr_svg_(self) -> str | None:
        return self.svg() if shutil.which("dot") else None

    def __str__(self) -> str:
        return self.ir


def storages_of(function: str, tensors: Sequence[torch.Tensor]) -> str:
    """The ids of the tensors' storages as the runtime's functions take them. ValueError for a tensor that is not on device xla."""
    _adapter.load()
    for tensor in tensors:
        if tensor.device.type != "xla":
            raise ValueError(f"{function}(): expected tensors on device xla, got one on {tensor.device}")
    return ",".join(str(_adapter.storage_id(tensor)) for tensor in tensors)


def graph(*tensors: torch.Tensor, device: int = 0) -> Graph:
    """The program that would compute the tensors' storages, or without tensors all that is pending on a device.

    It runs nothing, compiles nothing and changes nothing; where programs are partitioned, it waits for those that are with the
    compiler. Views show as the storages that they look at. Raises FailedPreconditionError where a tensor has no value yet,
    ValueError for a tensor that is not on device xla.
    """
    storages = storages_of("graph", tensors)
    if tensors:
        device = tensors[-1].device.index or 0
    _runtime.wait("ShardingsWaitBegin")
    ir, hlo, dot = (_runtime.call("GraphText", device, storages, form) for form in ("ir", "hlo", "dot"))
    try:
        stablehlo: str | Exception = _runtime.call("GraphText", device, storages, "stablehlo")
    except errors.UnimplementedError as error:  # for whoever asks for it
        stablehlo = error
    return Graph(ir, hlo, dot, stablehlo)
