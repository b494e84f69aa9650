"""Counters and metrics of the runtime, under torch_xla's names.

None of these starts the runtime: before the first device use everything is empty.

Compiling and running go on after `sync` has returned. What reads or clears metrics waits for the steps that are queued,
so that it sees all of them (BLOCKING; other threads run, Ctrl-C breaks it). Counters of steps are set by `sync` itself.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from xla_go import _runtime

__all__ = [
    "clear_all",
    "clear_counters",
    "clear_metrics",
    "counter_names",
    "counter_value",
    "executed_fallback_ops",
    "metric_data",
    "metric_names",
    "metrics_report",
    "short_metrics_report",
]

SHORT_COUNTERS = ("CachedCompile", "MarkStep", "DynamoSyncInputExecuteTime")
SHORT_METRICS = ("CompileTime", "ExecuteTime", "ExecuteReplicatedTime", "TransferToDeviceTime", "TransferFromDeviceTime")


def _settled() -> bool:
    """Waits for queued steps; False where the runtime has not been started and there is nothing to see."""
    if not _runtime.loaded():
        return False
    _runtime.wait("QueueWaitBegin")
    return True


def counter_names() -> list[str]:
    """Names of the counters that have counted something, sorted."""
    return _runtime.lines(_runtime.call("CounterNames")) if _runtime.loaded() else []


def counter_value(name: str) -> int | None:
    """A counter's value, None where it has counted nothing."""
    if not _runtime.loaded() or not _runtime.call("HasCounter", name):
        return None
    return _runtime.call("CounterValue", name)


def metric_names() -> list[str]:
    """Names of the metrics that have observed something, sorted."""
    return _runtime.lines(_runtime.call("MetricNames")) if _settled() else []


def metric_data(name: str) -> tuple[int, float, list[tuple[float, float]]] | None:
    """(number of samples, their sum, [(seconds since 1970, value), ...]), None where nothing was observed.

    Number and sum cover everything since the last clear, the list the newest XLA_METRICS_SAMPLES (1024).
    Times are in nanoseconds, sizes in bytes.
    """
    if not _settled():
        return None
    data = json.loads(_runtime.call("MetricData", name))
    if data is None:
        return None
    total, accumulator, samples = data
    return total, accumulator, [(time, value) for time, value in samples]


def metrics_report() -> str:
    """Every metric, then every counter, as text."""
    return _runtime.call("MetricsReport") if _settled() else ""


def short_metrics_report(counter_names: Sequence[str] | None = None, metric_names: Sequence[str] | None = None) -> str:
    """The named counters and metrics as text; those that matter most where none are named, with all `aten::` counters."""
    if not _settled():
        return ""
    if counter_names is None:
        counter_names = [*SHORT_COUNTERS, *executed_fallback_ops()]
    if metric_names is None:
        metric_names = SHORT_METRICS
    return _runtime.call("ShortMetricsReport", "\n".join(counter_names), "\n".join(metric_names))


def executed_fallback_ops() -> list[str]:
    """The ops that ran on the CPU because the device has no implementation of them, as `aten::name`."""
    return [name for name in counter_names() if name.startswith("aten::")]


def clear_counters() -> None:
    """Sets every counter to 0."""
    if _settled():
        _runtime.perform("ClearCounters")


def clear_metrics() -> None:
    """Forgets every observation."""
    if _settled():
        _runtime.perform("ClearMetrics")


def clear_all() -> None:
    """clear_counters and clear_metrics."""
    clear_counters()
    clear_metrics()
