"""Streams and events of torch.xla: names for the one order in which a device runs what is queued on it.

Code that is written for CUDA asks for streams and has one wait for another. Here every step of a device comes after those
queued before, so that nothing has to wait: a stream is the device's order, whichever is asked for.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any

import torch

from xla_go import _adapter, _runtime

_GLANCE = 0.001  # seconds: the runtime tells from another thread whether a wait is over


def _all_has_run(index: int) -> bool:
    from xla_go import runtime

    name = runtime.runtime_device_attributes(index)["name"]
    return _runtime.wait("QueueWaitBegin", timeout=_GLANCE) and _runtime.wait("WaitDeviceOpsBegin", name, timeout=_GLANCE)


class Stream:
    """A device's order. All streams of a device are equal; `priority` is taken for the caller's sake.

    As a context manager it makes its device the current one.
    """

    def __init__(self, device: Any = None, priority: int = 0, **_: Any) -> None:
        from xla_go import _device_module

        self.device = torch.device("xla", _device_module._index(device))
        self.priority = 0
        self._entered: list[Any] = []

    @property
    def device_index(self) -> int:
        return self.device.index

    @property
    def stream_id(self) -> int:
        """0: a device has one order."""
        return 0

    def synchronize(self) -> None:
        """torch.xla.synchronize of the stream's device. BLOCKING; raises the error that the work ended with."""
        from xla_go import _device_module

        _device_module.synchronize(self.device)

    def query(self) -> bool:
        """Whether all that is queued has run, as far as a millisecond or two tell; what is traced and not queued yet is not looked at."""
        return _all_has_run(self.device.index)

    def wait_stream(self, stream: Any) -> None:
        """Nothing: what comes later runs later. Of another device's stream, values that are used are waited for by themselves."""

    def wait_event(self, event: Any) -> None:
        """Nothing, as `wait_stream`."""

    def record_event(self, event: Event | None = None) -> Event:
        """Records the event, a new one by default, and gives it."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def __enter__(self) -> Stream:
        from xla_go import _device_module

        context = _device_module.device(self.device)
        self._entered.append(context)
        context.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self._entered.pop().__exit__(kind, value, trace)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and self.device == other.device

    def __hash__(self) -> int:
        return hash(("xla stream", self.device))

    def __repr__(self) -> str:
        return f"<torch.xla.Stream device={self.device}>"


class Event:
    """A point in a device's order. NotImplementedError for `enable_timing`: what runs when is xla_go.profiler's to tell."""

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> None:
        if enable_timing:
            raise NotImplementedError("torch.xla.Event(enable_timing=True): expected an event without times; take them with xla_go.profiler")
        if interprocess:
            raise NotImplementedError("torch.xla.Event(interprocess=True): expected an event of one process; between processes use torch.distributed")
        self._index: int | None = None
        self._has_run = True

    def record(self, stream: Stream | None = None) -> None:
        """Queues what is traced on the stream's device, the current one by default. Not blocking."""
        from xla_go import _device_module

        self._index = _device_module.current_device() if stream is None else stream.device_index
        adapter = _adapter.loaded()
        if token := adapter.sync(self._index, "torch.xla.Event.record()"):
            adapter.cancel(token)
        self._has_run = False

    def wait(self, stream: Stream | None = None) -> None:
        """Nothing: what comes later in a device's order runs later."""

    def query(self) -> bool:
        """Whether what was queued at `record` has run; True before it. Work that was queued since may count as well.

        Takes a millisecond or two at most, after which it is False.
        """
        if not self._has_run and self._index is not None:
            self._has_run = _all_has_run(self._index)
        return self._has_run

    def synchronize(self) -> None:
        """Waits until what was queued at `record` has run, and what was queued since. BLOCKING; Ctrl-C breaks the wait."""
        if self._index is not None and not self._has_run:
            from xla_go import runtime

            runtime.wait_device_ops([f"xla:{self._index}"])
            self._has_run = True

    def elapsed_time(self, end: Event) -> float:
        """Raises NotImplementedError: events keep no times."""
        raise NotImplementedError("torch.xla.Event.elapsed_time(): expected no times of events; take them with xla_go.profiler")


def current_stream(device: Any = None) -> Stream:
    """The device's order; the current device's by default."""
    return Stream(device)


def default_stream(device: Any = None) -> Stream:
    """The device's order; the current device's by default."""
    return Stream(device)


def set_stream(stream: Stream) -> None:
    """Makes the stream's device the current one."""
    from xla_go import _device_module

    _device_module.set_device(stream.device)


def stream(stream: Stream | None) -> Any:
    """A context in which the stream's device is the current one; None changes nothing."""
    import contextlib

    return contextlib.nullcontext() if stream is None else stream
