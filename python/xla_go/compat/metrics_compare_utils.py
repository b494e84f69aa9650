"""What `torch_xla.debug.metrics_compare_utils` gives after `xla_go.compat.install()`: numbers of metrics reports, and what has changed in them."""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

_METRIC = re.compile(r"Metric: (\S+)\n((?:  .+\n?)*)")
_COUNTER = re.compile(r"Counter: (\S+)\s+Value: (\d+)")
_QUANTILE = re.compile(r"(\d+)%=([^;\s]+)")
_PART = re.compile(r"([\d.]+)([a-zA-Z]+)")
_SECONDS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6}
_MEGABYTES = {"pb": 1e9, "tb": 1e6, "gb": 1e3, "mb": 1.0, "kb": 1e-3, "b": 1e-6}

Config = Mapping[str, str]
_AS_BEFORE = "v <= v_mean + (v_stddev * 2.0)"


def _number(text: str) -> tuple[float, str]:
    """A number of a report, and what it counts: "sec", "mb", or "" for a plain one."""
    try:
        return float(text), ""
    except ValueError:
        pass
    parts = [(float(number), unit.lower()) for number, unit in _PART.findall(text)]
    for units, name in ((_SECONDS, "sec"), (_MEGABYTES, "mb")):
        if parts and all(unit in units for _, unit in parts):
            return sum(number * units[unit] for number, unit in parts), name
    raise ValueError(f"expected a number, a time or a size in a metrics report, got {text!r}")


def parse_metrics_report(report: str, dehumanize: bool = True) -> dict[str, Any]:
    """The numbers of a report by names such as CompileTime__Accumulator_sec and CreateDataHandles__Value.

    Times are in seconds and sizes in megabytes; with dehumanize=False each of a metric is a pair with what the report says.
    """
    points: dict[str, Any] = {}
    for name, body in _METRIC.findall(report):
        values = dict(re.findall(r"(TotalSamples|Accumulator): (\S+)", body))
        values.update({f"Percentile_{rank}": value for rank, value in _QUANTILE.findall(body)})
        for what, text in values.items():
            number, unit = _number(text)
            points[f"{name}__{what}{'_' if unit else ''}{unit}"] = number if dehumanize else (number, text)
    points.update({f"{name}__Value": int(value) for name, value in _COUNTER.findall(report)})
    return points


def get_data_points_from_metrics_reports(metrics_reports: Sequence[str]) -> dict[str, list[Any]]:
    """Each number over the reports, in their order; None where a report does not have it."""
    parsed = [parse_metrics_report(report) for report in metrics_reports]
    return {name: [one.get(name) for one in parsed] for name in dict.fromkeys(name for one in parsed for name in one)}


def compare_metrics(data_points: Mapping[str, Sequence[Any]], metrics_report: str, config: Config | None = None) -> str:
    """A line for each number of the report that is not as it was, "" where all are.

    data_points: what get_data_points_from_metrics_reports gave. config: Python expressions of v, the number, and of v_mean and v_stddev, over
    the data points, that are true where it is as it was: "NAME_expression" for one, "base_expression" for the others (by default: at most
    two deviations above the mean). A counter of an
    operator on the CPU that no report before had is told of too.
    """
    config = config or {"base_expression": _AS_BEFORE}
    lines = []
    for name, value in sorted(parse_metrics_report(metrics_report).items()):
        known = [point for point in data_points.get(name, ()) if point is not None]
        if not known:
            if name.startswith("aten::"):
                lines.append(f"Found new aten counter: {name}: {value}\n")
            continue
        mean, deviation = statistics.fmean(known), statistics.pstdev(known)
        expression = config.get(f"{name}_expression", config["base_expression"])
        if not eval(expression, None, {"v": value, "v_mean": mean, "v_stddev": deviation}):
            lines.append(f"{name} failed its expression check. Expression: {expression}. Mean: {mean}. Stddev: {deviation}. Actual value: {value}\n")
    return "".join(lines)
