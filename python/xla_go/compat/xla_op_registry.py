"""What `torch_xla.core.xla_op_registry` gives after `xla_go.compat.install()`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xla_go.compat.xla_builder import Op as Value
from xla_go.compat.xla_builder import create_computation, tensor_shape
from xla_go.compat.xlac import _xla_user_computation


class Op:
    """An operator of tensors from a function of `xla_builder.Op`s."""

    def __init__(self, name: str, opfn: Callable[..., Value]) -> None:
        self._name, self._function = name, opfn

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        computation = create_computation(self._name, self._function, tensor_shape(args), **kwargs)
        results = _xla_user_computation(f"xla::_op_{self._name}", list(args), computation)
        return results[0] if len(results) == 1 else results


def register(name: str, opfn: Callable[..., Value]) -> Op:
    """The operator; keywords of its calls are handed to `opfn`."""
    return Op(name, opfn)
