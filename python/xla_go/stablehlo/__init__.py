"""Programs that run elsewhere: a model as StableHLO, in a directory of plain files, for any program that reads those.

    program = xla_go.stablehlo.export(model, (x,))
    program.save("model")
    ...
    program = xla_go.stablehlo.load("model")      # here torch need not be installed
    y = program(x)

`text` is MLIR's generic form, which needs no MLIR to write: JAX reads it, and so does every plugin that takes StableHLO.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from xla_go.stablehlo.program import StableHLOProgram, load

if TYPE_CHECKING:
    import torch

__all__ = ["StableHLOProgram", "export", "load"]


def export(
    model: torch.nn.Module | torch.export.ExportedProgram,
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    name: str = "forward",
    inline_weights: bool = False,
    custom_operators: Collection[str] = (),
    inline_numbers: bool = True,
) -> StableHLOProgram:
    """Traces a model and gives its program. It does not run it and leaves the model as it is; what is pending on the device is
    queued first. BLOCKING.

    model: a module (also one on device xla), which torch.export follows first, or what torch.export.export gave.
    args, kwargs: example inputs, on any device; the program takes inputs of these shapes and types, and of these values where they
        are no tensors. An ExportedProgram brings its own; one with dynamic dimensions gets the sizes of these.
    name: of the module.
    inline_weights: weights that the model does not change are constants of the program, and not its arguments.
    inline_numbers: numbers in the model's code are constants of the program; otherwise, but for 0 and 1, they are weights of it.
    custom_operators: namespaces of torch.library; their operators become custom calls of their own names ("library.operator.overload"),
        which whoever runs the program has to know. Of such an operator only what it says of its results (a fake or meta kernel) is used.

    Arguments of the program are the weights that it uses (parameters, buffers and constants, as torch.export orders them), the
    tensors among the inputs, and, where it draws random numbers, u64[2] with the generator's seed and offset. Results
    are the new values of what it changes, and the outputs.

    Positions out of range are not found: XLA takes the nearest. Raises what torch.export raises; UnimplementedError for what has
    no form (classes that are no tuples, lists or mappings among the outputs; token and script objects), NotImplementedError
    with the operator's name where one would run on the CPU, FailedPreconditionError where the program depends on values that
    are read while it is traced, ValueError for inputs that do not fit an ExportedProgram.
    """
    from xla_go.stablehlo import _trace

    return _trace.export(model, args, kwargs, name, inline_weights, custom_operators, inline_numbers)
