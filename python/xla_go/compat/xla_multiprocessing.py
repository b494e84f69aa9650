"""What `torch_xla.distributed.xla_multiprocessing` gives after `xla_go.compat.install()`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xla_go import distributed


def spawn(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int | None = None,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> None:
    """Runs `fn(ordinal, *args)` on a thread for each device. BLOCKING; nothing is spawned, so join has to be True."""
    if not join:
        raise NotImplementedError("spawn(): expected join=True: replicas are threads of this process")
    distributed.launch(fn, args, nprocs)


class MpModelWrapper:
    """A model that replicas share on the CPU until each takes its copy to its device."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def to(self, device: Any) -> Any:
        """A copy of the model on a device."""
        import copy

        return copy.deepcopy(self._model).to(device)
