"""Calls of code that the plugin knows under a name, as part of the step's program: XLA's custom calls."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import torch

__all__ = ["custom_call"]


def custom_call(
    inputs: Sequence[torch.Tensor],
    target: str,
    shapes: Sequence[Sequence[int]],
    dtypes: Sequence[torch.dtype],
    *,
    side_effect: bool = False,
    configuration: str = "",
    api_version: int = 0,
    attributes: Mapping[str, str] | None = None,
) -> list[torch.Tensor]:
    """What the plugin's `target` makes of tensors on device xla: a tensor of each of the shapes and dtypes. Without gradients. Not blocking.

    side_effect: calls whose results are alike may not be merged. A call whose results nobody uses is still no part of a program.
    configuration: text for the target. api_version: XLA's, 0 for the original one and 4 for the typed one, whose
    configuration is an MLIR dictionary. attributes: XLA's frontend attributes, for passes of the compiler.

    Raises ValueError for inputs that are not on device xla, and for shapes without dtypes. A target that the plugin does not know is
    an error of the compile.
    """
    for tensor in inputs:
        if tensor.device.type != "xla":
            raise ValueError(f"custom_call(): expected tensors on device xla, got one on {tensor.device}")
    if len(shapes) != len(dtypes):
        raise ValueError(f"custom_call(): expected a dtype for each shape, got {len(dtypes)} for {len(shapes)}")
    device = inputs[0].device if inputs else torch.device("xla")
    with torch.no_grad():
        results = [torch.empty(tuple(sizes), dtype=dtype, device=device) for sizes, dtype in zip(shapes, dtypes, strict=True)]
        torch.ops.xla_go.custom_call(list(inputs), results, target, configuration, side_effect, api_version, json.dumps(dict(attributes or {})))
    return results
