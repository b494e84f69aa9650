"""What `torch_xla.backends` gives after `xla_go.compat.install()`: the precision of matrix products, xla_go.runtime's."""

from __future__ import annotations

import logging

from xla_go import runtime

__all__ = ["get_mat_mul_precision", "set_mat_mul_precision"]

logger = logging.getLogger(__name__)
_WARNING_MESSAGE = "The precision of matrix products is for all programs that are traced from now on: choose it once, and check what it does."


def set_mat_mul_precision(precision: str) -> None:
    """xla_go.runtime.set_matmul_precision: "default", "high" or "highest". ValueError for another word."""
    if precision not in ("default", "high", "highest"):
        raise ValueError(f"set_mat_mul_precision(): expected default, high or highest, got {precision!r}")
    logger.warning(_WARNING_MESSAGE)
    runtime.set_matmul_precision(precision)


def get_mat_mul_precision() -> str:
    """xla_go.runtime.get_matmul_precision."""
    return runtime.get_matmul_precision()
