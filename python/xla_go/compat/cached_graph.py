"""Graphs of torch_xla's dynamo bridge: the device values that one takes, and its program, compiled once and run on other values."""

from __future__ import annotations

import atexit
import json
import re
from collections import OrderedDict
from collections.abc import Sequence

import torch

from xla_go import _adapter, _graph, _runtime, client
from xla_go._torch_dlpack import _TORCH
from xla_go.client.data import Data
from xla_go.client.device import devices
from xla_go.compat import graph_text

# torch_xla's number of the random generator's state among a graph's device values.
SEED_NUMBER = -127389
# Programs that are kept; beyond it those that nobody has run the longest go.
KEPT = 2048

_PARAMETER = re.compile(r"%\d+ = parameter\(\) : (\w+)\[([\d,]*)\]")
_programs: OrderedDict[bytes, _Program] = OrderedDict()
atexit.register(_programs.clear)  # while there is a runtime to give them back to


def _storages(tensors: Sequence[torch.Tensor]) -> tuple[int, str]:
    """The tensors' device, and their storages' ids as the runtime's functions take them."""
    storages = _graph.storages_of("device data", tensors)
    return tensors[-1].device.index or 0, storages


def device_data(tensors: Sequence[torch.Tensor]) -> tuple[list[int], list[torch.Tensor]]:
    """The values in device memory that the tensors' program takes: the ids of storages that hold them, and new tensors of them.

    A value that nobody holds any more has the id of its new tensor. Scalars and the state of the random generator are not
    among them: they come with each run. Nothing is run.
    """
    tensors = graph_text.whole_values([one for one in tensors if one.device.type == "xla"])
    if not tensors:
        return [], []
    device, storages = _storages(tensors)
    ir = _runtime.call("GraphText", device, storages, "ir")
    shapes = [(match[1], [int(size) for size in match[2].split(",") if size]) for line in ir.splitlines() if (match := _PARAMETER.match(line))]
    held = [int(number) for number in _runtime.call("ParameterStorages", device, storages).split(",") if number]
    # torch's own memory of these is never used: each storage gets the parameter's value.
    values = [torch.zeros(sizes, dtype=_TORCH[element], device=tensors[-1].device) for element, sizes in shapes]
    numbers = [_adapter.storage_id(one) for one in values]
    _runtime.call("ShareParameters", device, storages, ",".join(map(str, numbers)))
    order = graph_text.last_operand_first(ir)
    return [held[i] or numbers[i] for i in order], [values[i] for i in order]


def need_materialization(tensors: Sequence[torch.Tensor]) -> list[bool]:
    """Which of the tensors a graph has still to compute."""
    return [one.device.type == "xla" and graph_text.state(one) == "pending" for one in tensors]


class _Program:
    """The compiled program of tensors that were pending."""

    def __init__(self, tensors: Sequence[torch.Tensor]) -> None:
        """BLOCKING: it compiles."""
        unique = {_adapter.storage_id(one): one for one in tensors}
        self._results = [(tuple(one.shape), one.dtype) for one in unique.values()]
        device, storages = _storages(list(unique.values()))
        self._device = torch.device("xla", device)
        self._order = graph_text.last_operand_first(_runtime.call("GraphText", device, storages, "ir"))
        built = json.loads(_runtime.call("GraphModule", device, storages, "graph"))
        self._name = str(devices()[device])
        self._scalars = bytes.fromhex(built["scalars"])
        module = _runtime.take_bytes(built["module"])
        self._computation = client.compile(module, "hlo", name="graph", device=self._name, tupled_parameters=built["tupled"])

    def run(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Its results on these values, in the order of device_data. Random numbers are those of when it was compiled.

        BLOCKING until the inputs are on their way.
        """
        if len(inputs) != len(self._order):
            raise ValueError(f"_run_cached_graph(): expected {len(self._order)} inputs, got {len(inputs)}")
        with _runtime.measured("RunCachedGraphInputData"):
            arguments: list[Data | None] = [None] * len(inputs)
            tensors = [one.to(self._device).contiguous() for one in inputs]
            whole = graph_text.whole_values(tensors)
            sync_only(whole, wait=True, cause="inputs of a compiled function")
            for place, tensor in zip(self._order, whole, strict=True):
                arguments[place] = Data(_runtime.call("ShareData", _adapter.storage_id(tensor)))
            given = [one for one in arguments if one is not None]
            if self._scalars:
                words = torch.frombuffer(bytearray(self._scalars), dtype=torch.uint32)
                given.append(client.upload(words.numpy(), device=self._name))
        results = self._computation(*given)
        with _runtime.measured("RunCachedGraphOutputData"):
            return [self._tensor(shape, dtype, data) for (shape, dtype), data in zip(self._results, results, strict=False)]

    def _tensor(self, shape: tuple[int, ...], dtype: torch.dtype, data: Data) -> torch.Tensor:
        tensor = torch.zeros(shape, dtype=dtype, device=self._device)
        handle, data._handle = data._handle, 0
        _runtime.call("AdoptData", _adapter.storage_id(tensor), handle)
        return tensor


def sync_only(tensors: Sequence[torch.Tensor], wait: bool, cause: str) -> None:
    """Queues a step for these tensors alone; what else is pending stays so. BLOCKING with `wait`."""
    from xla_go import _compiles

    by_device: dict[int, list[str]] = {}
    for tensor in tensors:
        if tensor.device.type == "xla" and (storage := _adapter.storage_id(tensor)):
            by_device.setdefault(tensor.device.index or 0, []).append(str(storage))
    for device, storages in by_device.items():
        if _runtime.call("CutStorages", device, ",".join(storages), cause):
            _compiles.locate()
    if wait:
        _runtime.wait("QueueWaitBegin")


def warm_up(tensors: Sequence[torch.Tensor]) -> None:
    """Compiles the program of those of the tensors that are pending, for `run` with their `graph_text.graph_hash`. BLOCKING."""
    pending = [one for one, needs in zip(tensors, need_materialization(tensors), strict=True) if needs]
    if not pending:
        return
    number = graph_text.graph_hash([one for one in tensors if one.device.type == "xla"])
    if number not in _programs:
        _programs[number] = _Program(graph_text.whole_values(pending))
        if len(_programs) > KEPT:
            _programs.popitem(last=False)


def run(number: bytes, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The results of a program that was warmed up. KeyError for another."""
    if number not in _programs:
        raise KeyError("_run_cached_graph(): expected the hash of tensors that _xla_warm_up_cache was called with, got another")
    _programs.move_to_end(number)
    return _programs[number].run(inputs)
