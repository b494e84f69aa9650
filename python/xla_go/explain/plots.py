"""The plots of a report, drawn by matplotlib."""

from __future__ import annotations

import base64
import io
import itertools
import os
from dataclasses import dataclass
from typing import Any

from xla_go.explain.intervals import Intervals
from xla_go.explain.report import Report, percent

_COLOURS = {
    "before the device": "#c3cad5",
    "start of the device": "#8f9bad",
    "Python and tracing": "#4477aa",
    "Python": "#4477aa",
    "ends of steps": "#66ccee",
    "transfers to the device": "#ccbb44",
    "waiting for compiles": "#ee6677",
    "waiting for runs": "#228833",
    "waiting for data": "#aa3377",
    "other waits": "#777777",
}
_WIDTH = 11.0  # inches
_RESOLUTION = 1500  # pieces of a row; what is closer together is drawn as one
_PIECES = 60  # programs of a line; where there are more they are not told apart


@dataclass(frozen=True)
class Plot:
    """A picture: SVG in base64."""

    title: str
    about: str
    svg: str


def draw(report: Report) -> list[Plot]:
    """The plots that there is something to draw for."""
    import matplotlib

    with matplotlib.rc_context({"font.size": 10, "axes.spines.top": False, "axes.spines.right": False, "svg.hashsalt": "explain"}):
        return [plot for plot in (_split(report), _timeline(report), _steps(report), _compiles(report)) if plot is not None]


def _figure(height: float) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_WIDTH, height), layout="constrained")
    return figure, figure.add_subplot()


def _plot(title: str, about: str, figure: Any) -> Plot:
    file = io.BytesIO()
    figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    return Plot(title, about, base64.b64encode(file.getvalue()).decode())


def _split(report: Report) -> Plot:
    shares = report.split()
    figure, axes = _figure(0.55 + 0.34 * len(shares))
    names = [share.name for share in shares]
    bars = axes.barh(names, [share.seconds for share in shares], color=[_COLOURS[name] for name in names])
    axes.bar_label(bars, [f" {share.seconds:.2f} s, {percent(share.seconds, report.seconds)}" for share in shares])
    axes.invert_yaxis()
    axes.set_xlabel("seconds")
    axes.margins(x=0.12)
    return _plot("Where the time went", "each moment counted once, by what the script's threads do", figure)


def _timeline(report: Report) -> Plot | None:
    rows = [
        ("waiting", report.waits, "#777777"),
        ("compiling", report.compiling, _COLOURS["waiting for compiles"]),
        ("running", report.running, _COLOURS["waiting for runs"]),
        ("to the device", report.spans(("TransferToDeviceTime",)), _COLOURS["transfers to the device"]),
        ("ends of steps", report.spans(("GraphCutTime",)), _COLOURS["ends of steps"]),
        ("reading batches", report.spans(("BatchLoadTime",)), _COLOURS["waiting for data"]),
    ]
    rows = [row for row in rows if row[1]]
    if not rows:
        return None
    begin, end = report.record["device_begun"] - report.record["begun"], report.seconds
    figure, axes = _figure(0.7 + 0.36 * len(rows))
    for i, (_, spans, colour) in enumerate(rows):
        axes.broken_barh([(a, b - a) for a, b in _coarse(spans, (end - begin) / _RESOLUTION)], (i - 0.38, 0.76), color=colour)
    axes.set_yticks(range(len(rows)), [name for name, _, _ in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlim(begin, end)
    axes.set_xlabel("seconds since the script's begin")
    axes.grid(axis="x", color="#e6e9ee")
    axes.set_axisbelow(True)
    return _plot("What happened when", "from the first device use on; rows run side by side, so compiles and runs that no wait lies above cost the script nothing", figure)


def _coarse(spans: Intervals, least: float) -> Intervals:
    """Spans that are closer together than `least` as one, and none shorter than that."""
    drawn: Intervals = []
    for begin, end in spans:
        end = max(end, begin + least)
        if drawn and begin - drawn[-1][1] < least:
            drawn[-1] = (drawn[-1][0], max(end, drawn[-1][1]))
        else:
            drawn.append((begin, end))
    return drawn


def _steps(report: Report) -> Plot | None:
    begun = report.record["begun"]
    cuts = sorted(start - begun for start, _ in report.record.get("spans", {}).get("GraphCutTime", ()))
    if len(cuts) < 4:
        return None
    compiles = sorted(start - begun for name in ("CompileTime", "EagerOpCompileTime") for start, _ in report.record["spans"].get(name, ()))
    known: list[tuple[int, float]] = []
    compiled: list[tuple[int, float]] = []
    position = 0
    for number, (a, b) in enumerate(itertools.pairwise(cuts), 1):
        new = False
        while position < len(compiles) and compiles[position] < b:
            new = new or compiles[position] >= a
            position += 1
        (compiled if new else known).append((number, b - a))
    figure, axes = _figure(2.9)
    size = 18 if len(cuts) < 500 else 5
    for points, text, colour, extra, marker in (
        (known, "program known", "Python and tracing", 0, "o"), (compiled, "a compile began", "waiting for compiles", 8, "D"),
    ):  # fmt: skip
        axes.scatter([x for x, _ in points], [y for _, y in points], s=size + extra, color=_COLOURS[colour], label=text, marker=marker, rasterized=len(points) > 5000)
    axes.set_yscale("log")
    axes.set_xlabel("step")
    axes.set_ylabel("seconds to the next")
    axes.grid(axis="y", color="#e6e9ee")
    axes.set_axisbelow(True)
    axes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=2, frameon=False)
    return _plot("From step to step", "the time between the end of one step and that of the next", figure)


def _compiles(report: Report) -> Plot | None:
    by_site: dict[str, list[float]] = {}
    for one in report.compiles:
        by_site.setdefault(one["site"], []).append(one["seconds"])
    if not by_site:
        return None
    shown = sorted(by_site.items(), key=lambda item: -sum(item[1]))[:12]
    figure, axes = _figure(0.6 + 0.34 * len(shown))
    names = [f"{os.path.basename(site.partition(' in ')[0]) or '(no Python code)'}" for site, _ in shown]
    left = [0.0] * len(shown)
    pieces = [seconds if len(seconds) <= _PIECES else [sum(seconds)] for _, seconds in shown]
    for i in range(max(map(len, pieces))):
        widths = [seconds[i] if i < len(seconds) else 0.0 for seconds in pieces]
        axes.barh(range(len(shown)), widths, left=left, color=_COLOURS["waiting for compiles"], edgecolor="white", linewidth=0.6)
        left = [a + b for a, b in zip(left, widths, strict=True)]
    for i, (_, seconds) in enumerate(shown):
        axes.text(left[i], i, f"  {sum(seconds):.2f} s, {len(seconds)} program{'s' if len(seconds) != 1 else ''}", va="center")
    axes.set_yticks(range(len(shown)), names)
    axes.invert_yaxis()
    axes.set_xlabel("seconds")
    axes.margins(x=0.18)
    return _plot("Compiles by line", "a piece is a program; programs that are compiled at the same time count each", figure)
