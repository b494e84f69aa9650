"""What a record says: the split of time, tables, and what stands out."""

from __future__ import annotations

import linecache
import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from xla_go.explain import intervals
from xla_go.explain.intervals import Intervals

# Metrics by what their spans mean.
_WAITS = ("ReadTime", "RunAheadWaitTime", "ShardingWaitTime", "DeviceWaitTime", "BatchWaitTime")
_COMPILES = ("LoweringTime", "CompileTime", "EagerOpCompileTime")
_RUNS = ("ExecuteTime", "ExecuteReplicatedTime", "EagerOpExecuteTime")

_SITE = re.compile(r"(.*):(\d+) in .*")
_MANY = 3  # compiles of one line, reads that end the graph: from this many on they are told
_MANY_MODULES = 100  # imported after the device's start: from this many on they are told
_SLOW_DATA = 0.1  # share of the time that waits for batches, from which on it is told


@dataclass(frozen=True)
class Share:
    """A part of the script's time."""

    name: str
    seconds: float
    meaning: str


@dataclass(frozen=True)
class Table:
    """Rows of text, of which the first has the columns' names. numbers: columns that are flushed right."""

    title: str
    about: str
    head: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    numbers: frozenset[int]


class Report:
    """Built from what `record` has written. Times are in seconds, moments count from the script's begin."""

    def __init__(self, record: dict[str, Any], status: int) -> None:
        self.record, self.status = record, status
        self.script = record["arguments"][0]
        self.seconds: float = record["ended"] - record["begun"]
        self.used_device = record["device_begun"] is not None
        self.compiles: list[dict[str, Any]] = record.get("compiles", [])
        self.places: list[dict[str, Any]] = record.get("places", [])
        self.fallbacks = sorted(
            ((name.removeprefix("aten::"), count) for name, count in record.get("counters", {}).items() if name.startswith("aten::")), key=lambda item: -item[1]
        )
        self.waits, self.compiling, self.running = self.spans(_WAITS), self.spans(_COMPILES), self.spans(_RUNS)

    def spans(self, names: Iterable[str]) -> Intervals:
        """When any of the metrics' spans was going on, in seconds since the script's begin."""
        begun = self.record["begun"]
        recorded = self.record.get("spans", {})
        found = ((start - begun, start - begun + took) for name in names for start, took in recorded.get(name, ()))
        return intervals.intersection(intervals.union(found), [(0.0, self.seconds)])

    def observed(self, name: str) -> tuple[int, float]:
        """How many observations a metric has, and their sum."""
        count, total = self.record.get("metrics", {}).get(name, (0, 0.0))
        return int(count), float(total)

    def split(self) -> list[Share]:
        """The whole time of the script, each moment counted once, by what the script's threads do."""
        if not self.used_device:
            return [Share("Python", self.seconds, "the script did not use the device")]
        before = max(0.0, min(self.record["device_begun"] - self.record["begun"], self.seconds))
        starting = min(self.record["device_seconds"], self.seconds - before)
        data = self.spans(("BatchWaitTime",))
        for_compiles = intervals.intersection(self.waits, self.compiling)
        rest = intervals.difference(self.waits, self.compiling)
        for_runs = intervals.intersection(rest, self.running)
        rest = intervals.difference(rest, self.running)
        for_data = intervals.intersection(rest, data)
        other = intervals.difference(rest, data)
        busy = intervals.difference(self.spans(("TransferToDeviceTime",)), self.waits)
        cutting = intervals.difference(intervals.difference(self.spans(("GraphCutTime",)), self.waits), busy)
        known = [before, starting, *map(intervals.length, (for_compiles, for_runs, for_data, other, busy, cutting))]
        rows = [
            Share("before the device", before, "imports, reading data: everything before the first device use"),
            Share("start of the device", starting, "loading the plugin and making its client"),
            Share("Python and tracing", max(0.0, self.seconds - sum(known)), f"the script's own code, operators that are traced{self.imports()}"),
            Share("ends of steps", known[7], "gathering the graph and looking its program up"),
            Share("transfers to the device", known[6], "copies from the host"),
            Share("waiting for compiles", known[2], "a read or a sync waits while a program is compiled"),
            Share("waiting for runs", known[3], "a read or a sync waits while the device computes"),
            Share("waiting for data", known[4], "MpDeviceLoader has no batch yet, and the device has nothing to do"),
            Share("other waits", known[5], "copies to the host, and ends that have not been told yet"),
        ]
        return [row for row in rows if row.seconds > 0]

    def imports(self) -> str:
        """What was imported after the device's start, where it is enough to cost time: torch loads parts of itself at their first use."""
        imported: list[str] = self.record.get("imported", [])
        if len(imported) < _MANY_MODULES:
            return ""
        packages = Counter(".".join(name.split(".")[:2]) if name.startswith("torch.") else name.partition(".")[0] for name in imported)
        return f", and imports on the way: {len(imported)} modules, most of {' and '.join(name for name, _ in packages.most_common(2))}"

    # ---- tables ----

    def compile_table(self) -> Table:
        """A row for each line and reason, the costliest first."""
        groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
        for one in self.compiles:
            groups.setdefault((one["site"], _without_numbers(one["reason"])), []).append(one)
        rows = []
        for (site, _), found in sorted(groups.items(), key=lambda item: -sum(one["seconds"] for one in item[1])):
            last = found[-1]
            disk = sum(1 for one in found if one["from_disk"])
            how = f"{len(found)}" + (f" ({disk} from disk)" if disk else "")
            reason = last["reason"] + (f"; error: {last['error']}" if last["error"] else "")
            rows.append((how, f"{sum(one['seconds'] for one in found):.2f}", str(max(one["nodes"] for one in found)), *self.place(site), reason))
        return Table(
            "Compiles", "programs that were not known, by line and reason (that of the last one)", ("programs", "seconds", "nodes", "line", "code", "reason"), rows, frozenset({0, 1, 2})
        )

    def step_table(self) -> Table:
        """Which lines end steps."""
        rows = [
            (str(p["count"]), str(p["compiled"]), str(p["nodes"]), p["cause"], *self.place(p["site"]))
            for p in self.places
            if p["kind"] == "step"
        ]  # fmt: skip
        return Table("Ends of steps", "where the traced graph becomes a program and is queued", ("times", "compiled", "nodes", "cause", "line", "code"), rows, frozenset({0, 1, 2}))

    def read_table(self) -> Table:
        """Which lines read values."""
        found = sorted((p for p in self.places if p["kind"] == "read"), key=lambda p: -p["seconds"])
        rows = [(str(p["count"]), f"{p['seconds']:.3f}", *self.place(p["site"])) for p in found]
        return Table("Reads", "values that the script waits for: item(), cpu(), print, bool()", ("times", "seconds", "line", "code"), rows, frozenset({0, 1}))

    def fallback_table(self) -> Table:
        """Operators that ran on the CPU."""
        return Table("Fallbacks", "operators that ran on the CPU, their arguments read and their results sent back", ("times", "operator"), [(str(n), name) for name, n in self.fallbacks], frozenset({0}))

    def transfer_table(self) -> Table:
        """What went between host and device."""
        rows = []
        for way, size, took in (("to the device", "OutboundData", "TransferToDeviceTime"), ("to the host", "InboundData", "TransferFromDeviceTime")):
            count, total = self.observed(size)
            if count:
                rows.append((way, str(count), represent_bytes(total), f"{self.observed(took)[1] / 1e9:.3f}"))
        return Table("Transfers", "copies between host and device", ("way", "times", "bytes", "seconds"), rows, frozenset({1, 2, 3}))

    def tables(self) -> list[Table]:
        """Those that have rows."""
        return [table for table in (self.compile_table(), self.step_table(), self.read_table(), self.fallback_table(), self.transfer_table()) if table.rows]

    def place(self, site: str) -> tuple[str, str]:
        """A site, and the text of its line, "" where the file cannot be read."""
        match = _SITE.fullmatch(site)
        if match is None:
            return site or "(no Python code)", ""
        path = os.path.join(self.record["directory"], match.group(1))
        return site, linecache.getline(path, int(match.group(2))).strip()

    # ---- what stands out ----

    def findings(self) -> list[str]:
        """Sentences on what costs time and can be helped."""
        if not self.used_device:
            return ["The script did not use the device: no tensor was on xla."]
        return [*self._of_compiles(), *self._of_reads(), *self._of_fallbacks(), *self._of_data()]

    def _of_compiles(self) -> list[str]:
        sites: dict[str, list[dict[str, Any]]] = {}
        for one in self.compiles:
            sites.setdefault(one["site"], []).append(one)
        told = []
        for site, found in sorted(sites.items(), key=lambda item: -sum(one["seconds"] for one in item[1])):
            if len(found) < _MANY:
                continue
            seconds = sum(one["seconds"] for one in found)
            shapes = [one for one in found if one["reason"].startswith("input ")]
            text = f"{site or '(no Python code)'}: {len(found)} programs were compiled, {seconds:.1f} s"
            if len(shapes) * 2 >= len(found):
                text += f"; {len(shapes)} of them because inputs have other sizes or types (the last: {shapes[-1]['reason']}). Pad to a few sizes: xla_go.pad_to_bucket"
            else:
                text += f". The last: {found[-1]['reason']}. Each step should trace the same operators: see the reasons below"
            told.append(text)
        return told

    def _of_reads(self) -> list[str]:
        return [
            f"{p['site'] or '(no Python code)'}: a read has ended the graph {p['count']} times. Call xla_go.sync() where the step ends, and read after it, or only every n-th step"
            for p in self.places
            if p["kind"] == "step" and p["cause"] == "read of a value" and p["count"] >= _MANY
        ]

    def _of_fallbacks(self) -> list[str]:
        if not self.fallbacks:
            return []
        shown = ", ".join(name for name, _ in self.fallbacks[:5]) + (", ..." if len(self.fallbacks) > 5 else "")
        return [f"Operators ran on the CPU {times(sum(n for _, n in self.fallbacks))} ({shown}): each reads its arguments and ends the graph"]

    def _of_data(self) -> list[str]:
        waited = next((share.seconds for share in self.split() if share.name == "waiting for data"), 0.0)
        if waited < _SLOW_DATA * self.seconds:
            return []
        return [f"The loop waits {waited:.1f} s ({percent(waited, self.seconds)}) for batches while the device has nothing to do: give the DataLoader more workers"]


def _without_numbers(reason: str) -> str:
    return re.sub(r"\d+", "N", reason)


def times(count: int) -> str:
    """How often, in words."""
    return "once" if count == 1 else f"{count} times"


def percent(part: float, whole: float) -> str:
    """A share, told apart from nothing."""
    return "<1%" if 0 < part < 0.005 * whole else f"{part / whole:.0%}"


def represent_bytes(count: float) -> str:
    """A size in its largest unit."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"
