"""Products with weights of few bits, which stay integers until the device multiplies them."""

from __future__ import annotations

from collections.abc import Sequence

import torch

__all__ = ["dot_general"]

_Pairs = tuple[Sequence[int], Sequence[int]]


def dot_general(lhs: torch.Tensor, rhs: torch.Tensor, contracted: _Pairs, batch: _Pairs = ((), ()), *, dtype: torch.dtype, four_bits: bool = False) -> torch.Tensor:
    """The product of two tensors on device xla over pairs of dimensions, added up in dtype; their own types may differ. Without gradients. Not blocking.

    Dimensions of the result come as batch, lhs, rhs. four_bits: rhs is int8 with values from -8 to 7, and is multiplied as 4-bit
    integers, which some devices do not have (an error of the compile). Raises ValueError for dimensions that do not fit, and for
    bool and complex tensors.
    """
    return torch.ops.xla_go.dot_general(lhs, rhs, list(contracted[0]), list(contracted[1]), list(batch[0]), list(batch[1]), dtype, four_bits)
