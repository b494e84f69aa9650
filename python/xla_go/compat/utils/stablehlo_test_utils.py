"""What `torch_xla.utils.stablehlo_test_utils` gives after `xla_go.compat.install()`."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import torch


def has_tf_package() -> bool:
    """Whether TensorFlow is installed."""
    return importlib.util.find_spec("tensorflow") is not None


class _Function(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self._function = function

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)


def wrap_func_as_nn_module(f: Callable[..., Any]) -> torch.nn.Module:
    """A module, in evaluation mode, whose forward is the function."""
    return _Function(f).eval()
