"""What `torch_xla.experimental.stablehlo_custom_call` gives after `xla_go.compat.install()`: custom calls, and the placement of values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from xla_go.custom_call import custom_call


def stablehlo_custom_call(
    args: Sequence[torch.Tensor],
    call_target: str,
    output_shapes: Sequence[Sequence[int]],
    output_dtypes: Sequence[torch.dtype],
    has_side_effect: bool = False,
    backend_config: str = "",
    api_version: int = 0,
    frontend_attributes: Mapping[str, str] | None = None,
) -> Any:
    """xla_go.custom_call.custom_call; one result comes as a tensor, several as a list."""
    results = custom_call(
        args, call_target, output_shapes, output_dtypes,
        side_effect=has_side_effect, configuration=backend_config, api_version=api_version, attributes=frontend_attributes,
    )  # fmt: skip
    return results[0] if len(results) == 1 else results


def _placement(name: str, memory: str) -> Callable[[torch.Tensor], torch.Tensor]:
    """An operator that asks the compiler to keep a value in a memory of that kind. Its gradient is what it is given."""

    def place(t: torch.Tensor) -> torch.Tensor:
        return custom_call([t], "annotate_device_placement", [t.shape], [t.dtype], side_effect=True, attributes={"_xla_buffer_placement": memory})[0]

    def same(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient

    operator = torch.library.custom_op(f"xla::{name}", place, mutates_args=(), schema="(Tensor t) -> Tensor")
    operator.register_fake(torch.empty_like)
    operator.register_autograd(same)
    return operator


place_to_host = _placement("place_to_host", "pinned_host")
place_to_device = _placement("place_to_device", "device")
