"""A graph that runs on the device: traced at its first call, and from then on replayed by its recording."""

from __future__ import annotations

import logging
import weakref
from typing import Any

import torch

from xla_go import _adapter, _recording, _runtime, _step, errors
from xla_go._dynamo import config

logger = logging.getLogger("xla_go")

# Recordings that one graph keeps: for other numbers among its arguments, or tensors that lie otherwise.
RECORDINGS = 16
# A graph that could not be recorded so often is traced at each call. Another thread that traces may be why, so once is not enough.
ATTEMPTS = 8

_programs: weakref.WeakSet[Program] = weakref.WeakSet()


class Program:
    """One graph. Called with a list of its arguments, it gives a list of its results and waits for nothing.

    It holds recordings (no tensors but the graph's own constants) until `clear`.
    """

    def __init__(self, graph: torch.fx.GraphModule, device: int, *, record: bool = True) -> None:
        self._graph = graph
        self._device = device
        self._adapter = _adapter.load()
        self._replay = self._adapter.replay
        self._attempts = ATTEMPTS if record else 0
        self._recordings: dict[tuple[Any, ...], list[Any]] = {}
        values = [node.meta.get("val") for node in graph.graph.nodes if node.op == "placeholder"]
        self._numbers = [i for i, value in enumerate(values) if not isinstance(value, torch.Tensor) and value is not None]
        self._host = [i for i, value in enumerate(values) if isinstance(value, torch.Tensor) and value.device.type == "cpu"]
        _programs.add(self)

    def __call__(self, arguments: list[Any]) -> list[Any]:
        if self._host:
            self._upload(arguments)
        if _step.is_eager_mode():
            with _step.no_eager_mode():
                return self._replayed(arguments)
        return self._replayed(arguments)

    def _replayed(self, arguments: list[Any]) -> list[Any]:
        key = tuple(map(arguments.__getitem__, self._numbers)) if self._numbers else ()
        recordings = self._recordings.get(key, ())
        if recordings and config.skip_input_data_check:
            _expect_no_pending(arguments)
        for recording in recordings:
            results: list[Any] | None = self._replay(recording, arguments)
            if results is not None:
                return results
        if recordings and _runtime.call("IsPartitioned"):  # it may be that a compile was waited for
            _runtime.wait("ShardingsWaitBegin")
            for recording in recordings:
                results = self._replay(recording, arguments)
                if results is not None:
                    return results
        return self._trace(arguments, key)

    def clear(self) -> None:
        """Lets go of all recordings; the next call makes one again."""
        self._recordings.clear()

    def _upload(self, arguments: list[Any]) -> None:
        """Brings arguments on the CPU to the device: numbers of one type in one transfer, which comes last in the arguments."""
        device = torch.device("xla", self._device)
        scalars: dict[torch.dtype, list[int]] = {}
        for i in self._host:
            if arguments[i].dim() == 0:
                scalars.setdefault(arguments[i].dtype, []).append(i)
            else:
                arguments[i] = arguments[i].to(device)
        for positions in scalars.values():
            packed = torch.stack([arguments[i] for i in positions]).to(device)
            for i, value in zip(positions, packed.unbind(0), strict=True):
                arguments[i] = value

    def _trace(self, arguments: list[Any], key: tuple[Any, ...]) -> list[Any]:
        recording = None
        known = sum(map(len, self._recordings.values()))
        if self._attempts > 0 and known < RECORDINGS:
            try:
                recording = _recording.begin(self._device, arguments)
            except errors.UnavailableError as error:
                logger.debug("torch.compile: a graph is traced and not recorded: %s", error)
        if recording is None:
            return self._run(arguments)
        try:
            results = self._run(arguments)
            try:
                self._adapter.record_end(recording, arguments, results)
            except errors.UnavailableError as error:
                self._attempts -= 1
                if self._attempts == 0:
                    logger.warning("torch.compile: a graph is traced at each call, which takes the host longer: %s", error)
                return results
        finally:
            self._adapter.record_cancel(recording)
        self._recordings.setdefault(key, []).append(recording)
        return results

    def _run(self, arguments: list[Any]) -> list[Any]:
        with torch.no_grad():
            return list(self._graph(*arguments))


def _expect_no_pending(arguments: list[Any]) -> None:
    for argument in arguments:
        if not isinstance(argument, torch.Tensor) or argument.device.type != "xla":
            continue
        storage = _adapter.storage_id(argument)
        if storage and _runtime.call("StorageState", storage) == "pending":
            raise errors.FailedPreconditionError(
                f"torch.compile: input data to dynamo graph can not be a pending ir while config.skip_input_data_check is set, got one of shape {tuple(argument.shape)}: "
                "call xla_go.sync() before the compiled function"
            )


def clear_all() -> None:
    """Lets go of the recordings of all graphs."""
    for program in list(_programs):
        program.clear()
