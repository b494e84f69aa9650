"""Data loaders whose batches are on the device before they are asked for, under torch_xla's names.

    import torch, xla_go
    from xla_go.distributed import MpDeviceLoader

    for images, labels in MpDeviceLoader(loader, "xla"):
        train(images, labels)      # and a step mark after each batch

Threads read the data loader and move what it gives; see docs/loader.md.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from xla_go import _adapter, _device_module, _step, errors, runtime
from xla_go.distributed._batch import InputSharding, to_device
from xla_go.distributed._pipeline import End, Pipeline

__all__ = ["MpDeviceLoader", "ParallelLoader", "PerDeviceLoader"]


def _device(device: Any) -> torch.device:
    """A device with its number: that of the calling thread, which is its replica's, where none is given. Starts the runtime."""
    parsed = torch.device(device)
    if parsed.type != "xla":
        raise ValueError(f"expected an xla device, got {parsed}")
    index, count = _device_module._index(parsed), _adapter.load().device_count()
    if index >= count:
        raise ValueError(f"expected an xla device below {count}, the number of this process's devices, got {parsed}")
    return torch.device("xla", index)


def _at_least_one(name: str, value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{name}: expected a number of at least 1, got {value!r}")
    return value


class ParallelLoader:
    """Reads a data loader on a thread of its own and moves its batches to devices on others: batch i to devices[i % n].

    A last round that does not come to all devices is left out. Starts at once.

    cpu_loader: an iterable of batches; any nesting of dicts, lists, tuples, named tuples and dataclasses of tensors.
    devices: xla devices of this process; one of them is enough under `use_spmd`, where it stands for all.
    batchdim: taken for the caller's sake; nothing depends on it.
    batches_per_execution: how many batches come between two step marks (`xla_go.sync`) on a device.
    loader_prefetch_size: for each device, the batches at most that were read and wait on the host.
    device_prefetch_size: for each device, the batches at most that are in its memory, or on their way there, and were not taken.
    host_to_device_transfer_threads: threads that move batches, for each device. The order of batches is kept.
    input_sharding: under `use_spmd`, how tensors are divided over the devices: a ShardingSpec for all tensors of its rank, or
        a dict with one for each key of the batch (None for a tensor that stays whole). Each shard goes over by itself.

    Raises ValueError for numbers below 1 and devices that are not xla's, and FailedPreconditionError for an input_sharding
    without `use_spmd`.
    """

    def __init__(
        self, cpu_loader: Iterable[Any], devices: Sequence[Any], batchdim: int = 0, batches_per_execution: int = 1, loader_prefetch_size: int = 16,
        device_prefetch_size: int = 8, host_to_device_transfer_threads: int = 1, input_sharding: InputSharding = None,
    ) -> None:  # fmt: skip
        self._cpu_loader = cpu_loader
        self._devices = [_device(device) for device in devices]
        if not self._devices or len(set(self._devices)) != len(self._devices):
            raise ValueError(f"ParallelLoader(): expected devices that differ, got {[str(device) for device in devices]}")
        self._batches_per_execution = _at_least_one("batches_per_execution", batches_per_execution)
        host, on_device = _at_least_one("loader_prefetch_size", loader_prefetch_size), _at_least_one("device_prefetch_size", device_prefetch_size)
        threads = _at_least_one("host_to_device_transfer_threads", host_to_device_transfer_threads)
        if input_sharding is not None and not runtime.is_spmd():
            raise errors.FailedPreconditionError("input_sharding: expected one device that stands for all: call xla_go.runtime.use_spmd() first")
        self._superseded = False
        move = functools.partial(to_device, input_sharding=input_sharding)
        # The iterator is made on the calling thread: workers are forked, and seeds are drawn, where they would be without us.
        self._pipeline = Pipeline(iter(cpu_loader), self._devices, move, host, on_device, threads)
        self._finalizer = weakref.finalize(self, self._pipeline.close, patient=False)

    @property
    def batches_per_execution(self) -> int:
        """How many batches come between two step marks."""
        return self._batches_per_execution

    def per_device_loader(self, device: Any) -> PerDeviceLoader:
        """The iterator over the batches of one of the devices. It keeps the loader going for as long as somebody has it."""
        return PerDeviceLoader(self, device)

    def per_device_samples(self) -> int:
        """How many batches each device gets. TypeError where the data loader has no length."""
        return len(self._cpu_loader) // len(self._devices)  # type: ignore[arg-type]

    def next_item(self, device: Any) -> Any:
        """The next batch of a device, None where there are no more. BLOCKING until it is there; raises what it was lost to."""
        batch = self._take(device)
        return None if batch is End else batch

    def _take(self, device: Any) -> Any:
        if self._superseded:
            raise errors.FailedPreconditionError(
                "MpDeviceLoader: expected the newest iterator of this loader and device, got one that a later iter() has ended: "
                "make a loader for each of loops that run side by side"
            )
        return self._pipeline.take(self._position(device))

    def close(self) -> None:
        """Drops the batches that nobody has taken and joins the threads; iterators end. Idempotent.

        BLOCKING until the data loader has given the batch that is being read.
        """
        self._pipeline.close()
        self._finalizer.detach()

    def _supersede(self) -> None:
        self._superseded = True
        self.close()

    def _position(self, device: Any) -> int:
        found = _device(device)
        if found not in self._devices:
            raise ValueError(f"expected one of the loader's devices ({', '.join(map(str, self._devices))}), got {found}")
        return self._devices.index(found)


class PerDeviceLoader:
    """The batches of one device of a ParallelLoader, with a step mark before each batches_per_execution of them and at the end.

    `next` is BLOCKING until the batch is on the device. It raises what the data loader or the transfer raised, in the place of
    the batch, and ends after that.
    """

    def __init__(self, loader: ParallelLoader, device: Any) -> None:
        self._loader = loader
        self._device = _device(device)
        loader._position(self._device)
        self._yielded = 0

    def __iter__(self) -> PerDeviceLoader:
        return self

    def __next__(self) -> Any:
        return self.next()

    def __len__(self) -> int:
        return self._loader.per_device_samples()

    def next(self) -> Any:
        """The next batch; StopIteration after the last one."""
        if self._yielded % self._loader.batches_per_execution == 0:
            _step.sync(cause="parallel loader")
        item = self._loader._take(self._device)
        if item is End:
            if self._yielded % self._loader.batches_per_execution != 0:
                _step.sync(cause="parallel loader")
            raise StopIteration
        self._yielded += 1
        return item

    def close(self) -> None:
        """ParallelLoader.close: ends the loader for all of its devices."""
        self._loader.close()


class MpDeviceLoader:
    """A data loader whose batches come on a device, prefetched by threads, with a step mark after each.

    Each `iter` starts to read the data loader anew; the one before it, on that device, is ended. Its threads end, joined, with the data, with an
    error, and where the loop is left: by `break`, by an exception in it, by `close`, or when nobody has the iterator any more.

    loader: a torch.utils.data.DataLoader, or any iterable of batches.
    device: where they go, for example "xla": in a replica of `launch` that is its own device.
    Other arguments: those of ParallelLoader.
    """

    def __init__(self, loader: Iterable[Any], device: Any, **kwargs: Any) -> None:
        self._loader = loader
        self._device = device
        self._parallel_loader_kwargs = kwargs  # read by each iter(): the transformers trainer puts its input_sharding there
        self._running: dict[torch.device, weakref.ref[ParallelLoader]] = {}  # replicas may share one loader

    def __iter__(self) -> PerDeviceLoader:
        device = _device(self._device)
        previous = self._running_on(device)
        if previous is not None:
            previous._supersede()
        parallel = ParallelLoader(self._loader, [device], **self._parallel_loader_kwargs)
        self._running[device] = weakref.ref(parallel)
        return parallel.per_device_loader(device)

    def __len__(self) -> int:
        return len(self._loader)  # type: ignore[arg-type]

    def close(self) -> None:
        """Ends the iterators that are going on, if there are any, and joins their threads. See ParallelLoader.close."""
        for device in list(self._running):
            running = self._running_on(device)
            if running is not None:
                running.close()

    def _running_on(self, device: torch.device) -> ParallelLoader | None:
        running = self._running.get(device)
        return None if running is None else running()
