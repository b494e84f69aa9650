"""What `torch_xla.distributed.data_parallel` gives after `xla_go.compat.install()`: a copy of a model on each device."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from types import SimpleNamespace
from typing import Any

import torch

from xla_go import distributed, runtime
from xla_go.distributed.parallel_loader import ParallelLoader


class DataParallel:
    """Runs a loop on each of the devices of this process, each on a thread with a copy of a model of its own.

    network: a module, or a function that makes one. device_ids: all devices of the process by default; the first so many,
    since replicas are numbered from the first on. Without any the model stays where it is.
    """

    def __init__(self, network: torch.nn.Module | Callable[[], torch.nn.Module], device_ids: Sequence[Any] | None = None, **kwargs: Any) -> None:
        if device_ids is None:
            device_ids = [f"xla:{index}" for index in range(runtime.addressable_device_count())]
        self._devices = [torch.device(device) for device in device_ids]
        if [device.index or 0 for device in self._devices] != list(range(len(self._devices))):
            raise ValueError(f"DataParallel(): expected the first devices, in order, got {[str(device) for device in self._devices]}")
        module = network if isinstance(network, torch.nn.Module) else network()
        self._models = [copy.deepcopy(module).to(device) for device in self._devices] or [module]
        self._contexts = [SimpleNamespace(device=device) for device in self._devices] or [SimpleNamespace(device=None)]
        self._options = kwargs

    @property
    def devices(self) -> list[str]:
        return [str(device) for device in self._devices]

    @property
    def models(self) -> list[torch.nn.Module]:
        return self._models

    def __call__(self, loop_fn: Callable[..., Any], loader: Iterable[Any], batchdim: int = 0, **kwargs: Any) -> list[Any]:
        """What `loop_fn(model, batches, device, context, **kwargs)` gives on each device. BLOCKING until all have ended.

        The devices share the loader's batches; the context of a device is there for the next call too. An error on a device is raised.
        """
        if not self._devices:
            parameter = next(self._models[0].parameters(), None)
            device = torch.device("cpu") if parameter is None else parameter.device
            return [loop_fn(self._models[0], loader, device, self._contexts[0], **kwargs)]
        parallel = ParallelLoader(loader, self._devices, batchdim=batchdim, **self._options)

        def replica(ordinal: int) -> Any:
            device = self._devices[ordinal]
            return loop_fn(self._models[ordinal], parallel.per_device_loader(device), device, self._contexts[ordinal], **kwargs)

        try:
            return distributed.launch(replica, nprocs=len(self._devices))
        finally:
            parallel.close()
