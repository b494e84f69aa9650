"""A report as one HTML page that holds all it needs: no scripts, and its plots as pictures inside."""

from __future__ import annotations

import importlib.util
from html import escape

from xla_go.explain import text
from xla_go.explain.report import Report, Table, represent_bytes

_STYLE = """
:root { color-scheme: light; --ink: #1c2330; --soft: #5b6676; --line: #dde2ea; --ground: #f6f7f9; --mark: #b8500a; }
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink); font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", sans-serif; }
main { max-width: 1180px; margin: 0 auto; padding: 28px 24px 60px; }
h1 { font-size: 24px; margin: 0 0 4px; overflow-wrap: anywhere; }
h2 { font-size: 18px; margin: 34px 0 2px; }
p.about { color: var(--soft); margin: 0 0 10px; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 12px; margin: 22px 0 8px; }
.card { background: #fff; border: 1px solid var(--line); border-radius: 8px; padding: 12px 14px; }
.card b { display: block; font-size: 22px; line-height: 1.25; font-variant-numeric: tabular-nums; }
.card span { color: var(--soft); font-size: 13px; }
ul.findings { margin: 8px 0 0; padding: 0; list-style: none; }
ul.findings li { background: #fff; border: 1px solid var(--line); border-left: 4px solid var(--mark); border-radius: 4px; padding: 9px 14px; margin: 8px 0; overflow-wrap: anywhere; }
figure { margin: 12px 0 0; background: #fff; border: 1px solid var(--line); border-radius: 8px; padding: 10px; }
figure img { display: block; width: 100%; height: auto; }
.scroll { overflow-x: auto; background: #fff; border: 1px solid var(--line); border-radius: 8px; }
table { border-collapse: collapse; width: 100%; font-size: 14px; }
th, td { text-align: left; vertical-align: top; padding: 7px 12px; border-bottom: 1px solid var(--line); }
tr:last-child td { border-bottom: 0; }
th { color: var(--soft); font-weight: 600; white-space: nowrap; background: #fbfcfd; }
td.number, th.number { width: 1%; text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
td.code { font: 13px/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, "Liberation Mono", monospace; overflow-wrap: anywhere; min-width: 230px; }
td.reason { min-width: 260px; }
td.line { white-space: nowrap; }
footer { margin-top: 36px; color: var(--soft); font-size: 13px; }
"""


def missing() -> str:
    """What a page cannot be made without and is not installed, with what to do; "" where all is there."""
    if importlib.util.find_spec("matplotlib") is None:
        return "the page's plots need matplotlib, which is not installed: pip install 'xla-go[explain]', or use --no-html"
    return ""


def render(report: Report, top: int) -> str:
    """The page, each table with `top` rows at most."""
    parts = [
        "<!DOCTYPE html>", '<html lang="en">', "<head>", '<meta charset="utf-8">', '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(report.script)} explained</title>", f"<style>{_STYLE}</style>", "</head>", "<body>", "<main>",
        f"<h1>{escape(report.script)}</h1>", f'<p class="about">{escape(text.summary(report))}</p>', _cards(report), _findings(report, top), _plots(report),
        *(_table(table, top) for table in report.tables()), _footer(report), "</main>", "</body>", "</html>",
    ]  # fmt: skip
    return "\n".join(part for part in parts if part) + "\n"


def _cards(report: Report) -> str:
    cards = [(f"{report.seconds:.2f} s", "from begin to end")]
    if report.used_device:
        steps = sum(p["count"] for p in report.places if p["kind"] == "step")
        reads = [p for p in report.places if p["kind"] == "read"]
        seconds = sum(one["seconds"] for one in report.compiles)
        moved = sum(report.observed(name)[1] for name in ("OutboundData", "InboundData"))
        cards += [
            (str(len(report.compiles)), f"programs compiled, {seconds:.2f} s of work"), (str(steps), "steps queued"),
            (str(sum(p["count"] for p in reads)), f"reads, {sum(p['seconds'] for p in reads):.2f} s waited"),
            (str(sum(n for _, n in report.fallbacks)), "operators run on the CPU"), (represent_bytes(moved), "moved between host and device"),
        ]  # fmt: skip
        peaks = [one["peak"] for one in report.record["memory"] if one.get("peak")]
        if peaks:
            cards.append((represent_bytes(max(peaks)), "most memory of a device"))
    return '<div class="cards">' + "".join(f'<div class="card"><b>{escape(value)}</b><span>{escape(name)}</span></div>' for value, name in cards) + "</div>"


def _findings(report: Report, top: int) -> str:
    found = report.findings()
    if not found:
        return '<h2>What stands out</h2><p class="about">Nothing.</p>'
    more = f'<p class="about">and {len(found) - top} more</p>' if len(found) > top else ""
    return '<h2>What stands out</h2><ul class="findings">' + "".join(f"<li>{escape(one)}</li>" for one in found[:top]) + "</ul>" + more


def _plots(report: Report) -> str:
    from xla_go.explain import plots

    return "".join(
        f'<h2>{escape(plot.title)}</h2><p class="about">{escape(plot.about)}</p><figure><img alt="{escape(plot.title)}" src="data:image/svg+xml;base64,{plot.svg}"></figure>'
        for plot in plots.draw(report)
    )


def _table(table: Table, top: int) -> str:
    def cell(tag: str, index: int, value: str) -> str:
        kind = "number" if index in table.numbers else table.head[index]  # as the style sheet has them
        return f'<{tag} class="{kind}">{escape(value)}</{tag}>'

    head = "".join(cell("th", i, name) for i, name in enumerate(table.head))
    rows = "".join("<tr>" + "".join(cell("td", i, value) for i, value in enumerate(row)) + "</tr>" for row in table.rows[:top])
    more = f'<p class="about">and {len(table.rows) - top} more rows (--top)</p>' if len(table.rows) > top else ""
    return f'<h2>{escape(table.title)}</h2><p class="about">{escape(table.about)}</p><div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>{more}'


def _footer(report: Report) -> str:
    from xla_go import __version__

    lost = report.record.get("lost_spans", 0)
    note = f" {lost} spans of time were lost: the run was too long for the split of time to be whole." if lost else ""
    return f"<footer>Written by python -m xla_go explain, xla_go {escape(__version__)}.{note}</footer>"
