"""How every value of a partitioned program lies over the devices, as XLA's partitioner has chosen."""

from __future__ import annotations

import json
from dataclasses import dataclass

import torch

from xla_go import _graph, _runtime
from xla_go.spmd.sharded_tensor import XLAShardedTensor, unwrap_sharded_tensor

__all__ = ["ProgramShardings", "ValueSharding", "program_shardings"]


@dataclass(frozen=True)
class ValueSharding:
    """A value of a program: the number of its node as `xla_go.graph` shows it, the operator that makes it ("parameter" for an
    input), its type and shape, its sharding as HLO's text writes it, and the line of the user's code that made it, "" where
    lines were not recorded (see `xla_go.debug.record_stacks`)."""

    node: int
    operator: str
    type: str
    shape: tuple[int, ...]
    sharding: str
    line: str


class ProgramShardings(list[ValueSharding]):
    """ProgramShardings in the order of the program; a table as text."""

    def __str__(self) -> str:
        rows = [(f"%{p.node}", p.operator, p.type, p.sharding, p.line) for p in self]
        widths = [max((len(row[i]) for row in rows), default=0) for i in range(4)]
        return "\n".join("  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[4]]).rstrip() for row in rows)


def program_shardings(*tensors: torch.Tensor | XLAShardedTensor, compile: int | None = None) -> ProgramShardings:
    """How every value of a program lies: of the one that would compute the tensors, of all that is pending without tensors,
    or of the program of one of the newest compiles, by its number in `xla_go.debug.compiles`.

    It compiles the program once more, in a form in which every value is a result, and runs nothing. Raises
    FailedPreconditionError without `xla_go.runtime.use_spmd()`; ValueError for a tensor that is not on device xla; NotFoundError
    for a compile that is not among the newest. BLOCKING.
    """
    if compile is not None:
        if tensors:
            raise ValueError("program_shardings(): expected tensors or the number of a compile, got both")
        described = _runtime.call("CompiledShardings", compile)
    else:
        storages = _graph.storages_of("program_shardings", [unwrap_sharded_tensor(tensor) for tensor in tensors])
        _runtime.wait("ShardingsWaitBegin")
        described = _runtime.call("GraphShardings", 0, storages)
    return ProgramShardings(ValueSharding(**{**value, "shape": tuple(value["shape"])}) for value in json.loads(described) or [])
