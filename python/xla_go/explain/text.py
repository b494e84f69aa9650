"""A report as text."""

from __future__ import annotations

import textwrap

from xla_go.explain.report import Report, Table, percent

_WIDEST = 70  # of a column


def summary(report: Report) -> str:
    """One line: what ran, how long, where."""
    text = f"{' '.join(report.record['arguments'])}: {report.seconds:.2f} s, exit status {report.status}"
    if report.used_device:
        count = report.record["devices"]
        text += f", {report.record['platform']}, {count} device{'s' if count != 1 else ''} ({report.record['version']})"
    return text


def render(report: Report, top: int) -> str:
    """The report, each table with `top` rows at most."""
    lines = ["", f"explain: {summary(report)}", ""]
    findings = report.findings()
    lines.append("What stands out" if findings else "Nothing stands out.")
    for finding in findings[:top]:
        lines += textwrap.wrap(finding, 118, initial_indent="- ", subsequent_indent="  ")
    if len(findings) > top:
        lines.append(f"- and {len(findings) - top} more")
    lines += ["", "Time, each moment once"]
    for share in report.split():
        lines.append(f"  {share.seconds:9.3f} s {percent(share.seconds, report.seconds):>4}  {share.name:<24} {share.meaning}")
    for table in report.tables():
        lines += ["", f"{table.title}: {table.about}", *_rows(table, top)]
    if report.record.get("lost_spans"):
        lines += ["", f"{report.record['lost_spans']} spans of time were lost: the run was too long for the split of time to be whole"]
    return "\n".join(lines)


def _rows(table: Table, top: int) -> list[str]:
    shown = [table.head, *table.rows[:top]]
    widths = [min(_WIDEST, max(len(row[i]) for row in shown)) for i in range(len(table.head))]
    lines = []
    for row in shown:
        cells = []
        for i, (cell, width) in enumerate(zip(row, widths, strict=True)):
            last = i == len(row) - 1
            cut = cell if last or len(cell) <= _WIDEST else cell[: _WIDEST - 3] + "..."
            cells.append(cut.rjust(width) if i in table.numbers else cut if last else cut.ljust(width))
        lines.append("  " + "  ".join(cells).rstrip())
    if len(table.rows) > top:
        lines.append(f"  and {len(table.rows) - top} more rows (--top)")
    return lines
