"""What `torch_xla.core.xla_model` gives after `xla_go.compat.install()`.

Replicas are the threads of `torch_xla.launch`; outside of it there is one.
"""

from __future__ import annotations

import copy
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, NoReturn

import torch

import xla_go
from xla_go import _adapter, _replica, _step, distributed, errors, runtime
from xla_go.compat import xlac
from xla_go.compat.stablehlo import get_stablehlo, get_stablehlo_bytecode  # noqa: F401
from xla_go.compat.utils.utils import DataWrapper, for_each_instance, for_each_instance_rewrite
from xla_go.distributed._batch import to_device
from xla_go.rematerialization import optimization_barrier_  # noqa: F401

REDUCE_SUM, REDUCE_MUL, REDUCE_AND = distributed.REDUCE_SUM, distributed.REDUCE_MUL, distributed.REDUCE_AND
REDUCE_OR, REDUCE_MIN, REDUCE_MAX = distributed.REDUCE_OR, distributed.REDUCE_MIN, distributed.REDUCE_MAX

all_gather = distributed.all_gather
all_reduce = distributed.all_reduce
all_to_all = distributed.all_to_all
collective_broadcast = distributed.collective_broadcast
collective_permute = distributed.collective_permute
reduce_scatter = distributed.reduce_scatter


def xla_device(n: int | None = None, devkind: str | None = None) -> torch.device:
    """The xla device of that number; by default that of the running replica, else the first one.

    IndexError for a number that no device of this process has. Starts the runtime where one is given.
    """
    if n is not None:
        _adapter.load().device_count()
        if not 0 <= n < runtime.addressable_device_count():
            raise IndexError(f"device(): expected a number below {runtime.addressable_device_count()}, the count of this process's xla devices, got {n}")
    return xla_go.device(n)


def xla_device_hw(device: Any) -> str:
    """The platform behind an xla device: "CPU", "CUDA", "TPU", ..."""
    return runtime.device_type()


def get_xla_supported_devices(devkind: str | None = None, max_devices: int | None = None) -> list[str]:
    """The xla devices of this process, of the given platform where one is given."""
    if devkind is not None and devkind.upper() != runtime.device_type():
        return []
    return [f"xla:{index}" for index in range(runtime.addressable_runtime_device_count())][:max_devices]


def is_xla_tensor(tensor: torch.Tensor) -> bool:
    """Whether a tensor lives on an xla device."""
    return tensor.device.type == "xla"


def mark_step(wait: bool = False, reset_scope: bool = True) -> None:
    """xla_go.sync."""
    xla_go.sync(wait, cause="mark_step()")


def wait_device_ops(devices: Sequence[Any] | None = None) -> None:
    """Waits for all queued work of the devices, of all local ones by default. BLOCKING."""
    runtime.wait_device_ops(list(devices) if devices else None)


def unlazy(tensors: Sequence[torch.Tensor]) -> None:
    """Ends the step and waits until the tensors have values. BLOCKING."""
    xla_go.sync(wait=True)


def get_ordinal() -> int:
    return runtime.global_ordinal()


def get_local_ordinal() -> int:
    return runtime.local_ordinal()


def xrt_world_size() -> int:
    return runtime.world_size()


def is_master_ordinal(local: bool = True) -> bool:
    """Whether this is the first replica, of the host or of all."""
    return (runtime.local_ordinal() if local else runtime.global_ordinal()) == 0


def master_print(*arguments: Any, fd: Any = None, local: bool = False, flush: bool = False) -> None:
    """Prints on the first replica, to standard output by default."""
    if is_master_ordinal(local=local):
        print(*arguments, file=fd or sys.stdout, flush=flush)


def rendezvous(tag: str, payload: bytes = b"", replicas: Sequence[int] | None = None) -> list[bytes]:
    """The payloads of all replicas, in order. BLOCKING until all have come. TypeError for a payload that is not bytes."""
    if not isinstance(payload, (bytes, bytearray)):
        raise TypeError(f"rendezvous(): expected a payload of bytes, got {type(payload).__name__}: encode it first")
    return distributed.rendezvous(tag, payload)


def mesh_reduce(tag: str, data: Any, reduce_fn: Callable[[list[Any]], Any]) -> Any:
    """`reduce_fn` of every replica's `data`. BLOCKING until all have come."""
    replica = _replica.current()
    if replica is None:
        return reduce_fn([copy.deepcopy(data)])
    return reduce_fn(distributed.gather_objects(tag, _to_cpu(data)))


def reduce_gradients(optimizer: torch.optim.Optimizer, groups: Any = None, pin_layout: bool = True) -> None:
    """Averages the gradients over all replicas."""
    gradients = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
    all_reduce(REDUCE_SUM, gradients, scale=1.0 / runtime.world_size(), groups=groups, pin_layout=pin_layout)


def all_reduce_bucketized_gradients(gradients: list[torch.Tensor], scale: float, groups: Any, pin_layout: bool, bucket_cap_mb: int = 0) -> None:
    """`all_reduce` of gradients in place. XLA puts neighbours into one exchange: bucket_cap_mb bounds nothing here."""
    all_reduce(REDUCE_SUM, gradients, scale=scale, groups=groups, pin_layout=pin_layout)


def bucketed_reduce_gradients(optimizer: torch.optim.Optimizer, groups: Any = None, pin_layout: bool = True) -> None:
    """`reduce_gradients`."""
    reduce_gradients(optimizer, groups, pin_layout)


def all_gather_bucketized(
    input_list: list[torch.Tensor], dim: int = 0, groups: Any = None, output: Any = None, pin_layout: bool = False, bucket_cap_mb: int = 160
) -> list[torch.Tensor]:
    """`all_gather` of each tensor. XLA puts neighbours into one exchange: bucket_cap_mb bounds nothing here."""
    return all_gather(input_list, dim, groups, output, pin_layout)


def reduce_scatter_bucketized(
    reduce_type: str,
    input_list: list[torch.Tensor],
    scale: float,
    scatter_dim: int,
    shard_count: int,
    groups: Any = None,
    output: Any = None,
    pin_layout: bool = False,
    bucket_cap_mb: int = 160,
) -> list[torch.Tensor]:
    """`reduce_scatter` of each tensor. XLA puts neighbours into one exchange: bucket_cap_mb bounds nothing here."""
    return reduce_scatter(reduce_type, input_list, scale, scatter_dim, shard_count, groups, output, pin_layout)


def send(value: torch.Tensor, channel_id: int) -> NoReturn:
    """Raises: all replicas run one program, in which nobody sends alone."""
    raise errors.UnimplementedError("send(): expected a collective that all replicas call: use collective_permute(value, [[source, target]]), or torch.distributed.send between processes")


def recv(output: torch.Tensor, channel_id: int) -> NoReturn:
    """Raises: all replicas run one program, in which nobody receives alone."""
    raise errors.UnimplementedError("recv(): expected a collective that all replicas call: use collective_permute(value, [[source, target]]), or torch.distributed.recv between processes")


def optimizer_step(
    optimizer: torch.optim.Optimizer,
    barrier: bool = False,
    optimizer_args: dict[str, Any] | None = None,
    groups: Any = None,
    pin_layout: bool = True,
) -> Any:
    """Averages the gradients over all replicas and steps; `barrier` ends the step as well."""
    reduce_gradients(optimizer, groups, pin_layout)
    loss = optimizer.step(**(optimizer_args or {}))
    if barrier:
        mark_step()
    return loss


_pool = ThreadPoolExecutor(1, thread_name_prefix="xla_go-step_closure")
_asynchronous: list[Future[Any]] = []


def _start(closure: Callable[..., Any], args: tuple[Any, ...]) -> None:
    ended = [one for one in _asynchronous if one.done()]
    _asynchronous[:] = [one for one in _asynchronous if not one.done()]
    for one in ended:
        one.result()  # raises what it raised
    _asynchronous.append(_pool.submit(closure, *args))


def add_step_closure(closure: Callable[..., Any], args: Sequence[Any] = (), run_async: bool = False) -> None:
    """Runs `closure(*args)` after the next sync; with `run_async` on another thread, one after the other.

    What one of those raises is raised by the sync after which the next one would begin, in its place.
    """
    if run_async:
        _step.after_next_sync(lambda: _start(closure, tuple(args)))
    else:
        _step.after_next_sync(lambda: closure(*args))


def _to_cpu(data: Any) -> Any:
    if isinstance(data, torch.Tensor):
        return data.cpu()
    if isinstance(data, dict):
        return type(data)((key, _to_cpu(value)) for key, value in data.items())
    if isinstance(data, (list, tuple)):
        items = [_to_cpu(item) for item in data]
        return type(data)(*items) if hasattr(data, "_fields") else type(data)(items)
    return data


def save(data: Any, file_or_path: Any, master_only: bool = True, global_master: bool = False) -> None:
    """Saves with the tensors on the CPU. BLOCKING."""
    cpu = _to_cpu(data)
    if not master_only or is_master_ordinal(local=not global_master):
        torch.save(cpu, file_or_path)


def send_cpu_data_to_device(datas: Any, device: Any, input_sharding: Any = None) -> list[Any]:
    """The tensors, alone or at any depth of lists, tuples and dicts, on the device; with an input_sharding divided over all."""
    target = torch.device(device)
    if isinstance(datas, DataWrapper):
        return datas.from_tensors([to_device(data, target, input_sharding) for data in datas.get_tensors()])
    if isinstance(datas, torch.Tensor):
        datas = [datas]
    moved = [to_device(data, target, input_sharding) for data in datas]
    for before, after in zip(datas, moved, strict=True):
        if isinstance(before, torch.Tensor):
            after.requires_grad_(before.requires_grad)
    return moved


def get_memory_info(device: Any = None) -> dict[str, Any]:
    """xla_go.runtime.memory_info."""
    return runtime.memory_info(device)


_SEEDS = 2**64  # how many there are


def set_rng_state(seed: int, device: Any = None) -> None:
    """Sets the seed of the xla devices' random numbers, or what `get_rng_state` gave: they go on as they did from there."""
    xla_go.manual_seed(seed % _SEEDS)
    if seed >= _SEEDS:
        adapter = _adapter.load()
        for index in range(adapter.device_count()):
            adapter.set_rng_state(index, seed % _SEEDS, seed // _SEEDS)


class RateTracker:
    """Samples a second, smoothed: the newest interval counts with 1 - smooth_factor."""

    def __init__(self, smooth_factor: float = 0.8) -> None:
        self._smooth_factor = smooth_factor
        self._start = self._last = time.time()
        self._total = self._marked = 0.0
        self._rate = 0.0

    def add(self, count: float) -> None:
        self._total += count

    def rate(self) -> float:
        """Samples a second since the last call, mixed with what it was before."""
        now = time.time()
        elapsed = now - self._last
        if elapsed > 0:
            current = (self._total - self._marked) / elapsed
            self._rate = current if self._marked == 0 else self._smooth_factor * self._rate + (1 - self._smooth_factor) * current
            self._last, self._marked = now, self._total
        return self._rate

    def global_rate(self) -> float:
        """Samples a second since the tracker was made."""
        elapsed = time.time() - self._start
        return self._total / elapsed if elapsed > 0 else 0.0


@contextmanager
def fork_rng(device: Any = None, enabled: bool = True) -> Iterator[None]:
    """Gives a device's random numbers the seed that they have now back at the end of the block; with enabled=False it does nothing."""
    if not enabled:
        yield
        return
    adapter = _adapter.load()
    index = torch.device(device or xla_go.device()).index or 0
    adapter.device_count()
    before = adapter.get_rng_state(index)
    try:
        yield
    finally:
        adapter.set_rng_state(index, *before)


def get_rng_state(device: Any = None) -> int:
    """The state of a device's random numbers: their seed where none was drawn since it was set, else a larger number. Starts the runtime."""
    adapter = _adapter.load()
    adapter.device_count()
    seed, offset = adapter.get_rng_state(torch.device(device or xla_go.device()).index or 0)
    return seed + offset * _SEEDS


def xla_real_devices(devices: Sequence[Any] | None = None) -> list[str]:
    """The runtime's names of xla devices, for example "CPU:0"; of all of this process by default."""
    return xlac._xla_real_devices([str(device) for device in devices] if devices else None)


def xla_replication_devices(local_devices: Sequence[str] | None = None) -> list[str]:
    """The runtime's names of the devices that take part when those of this process are replicas."""
    return xla_real_devices(local_devices)


def broadcast_master_param(model: torch.nn.Module) -> None:
    """Gives parameters and buffers of all replicas the values of the first one's, and ends the step."""
    collective_broadcast([value.detach() for value in (*model.parameters(), *model.buffers())])
    mark_step()


def _fetch_gradients(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    """The gradients of an optimizer's parameters, without those that have none."""
    return [p.grad.data for group in optimizer.param_groups for p in group["params"] if p.grad is not None]


_maybe_convert_to_cpu = _to_cpu


class ToXlaTensorArena:
    """Replaces the selected objects of a structure, all of them by one call of `convert_fn`."""

    def __init__(self, convert_fn: Callable[[list[Any]], list[Any]], select_fn: Callable[[Any], bool]) -> None:
        self._convert, self._select = convert_fn, select_fn

    def transform(self, inputs: Any) -> Any:
        """The structure with them replaced; see `torch_xla.utils.utils.for_each_instance_rewrite`."""
        found: list[Any] = []
        for_each_instance(inputs, self._select, found.append)
        converted = dict(zip(map(id, found), self._convert(found) if found else [], strict=True))
        return for_each_instance_rewrite(inputs, self._select, lambda one: converted[id(one)])


def check_view_sharing(obj: Any) -> None:
    """RuntimeError where two tensors in a structure look at one memory: each would be saved on its own."""
    first: dict[Any, torch.Tensor] = {}

    def check(tensor: torch.Tensor) -> None:
        other = first.setdefault(tensor.untyped_storage()._cdata, tensor)
        if other is not tensor:
            raise RuntimeError(f"check_view_sharing(): expected tensors with memory of their own, got {tensor.dtype} {list(tensor.shape)} and {other.dtype} {list(other.shape)} over the same")

    for_each_instance(obj, lambda one: type(one) is torch.Tensor, check)


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(f"xla_go.compat: torch_xla.core.xla_model.{name} is not provided")
