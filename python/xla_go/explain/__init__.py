"""`python -m xla_go explain SCRIPT`: runs a script and tells what its time went to, what was compiled and why, and which lines wait."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from types import FrameType

from xla_go.explain import page, text
from xla_go.explain.report import Report

__all__ = ["add_arguments", "main"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("--html", metavar="FILE", help="the page to write (default: explain.html), which holds all it needs")
    parser.add_argument("--no-html", action="store_true", help="write no page")
    parser.add_argument("--json", metavar="FILE", help="also write what was recorded")
    parser.add_argument("--compat", action="store_true", help="give torch_xla's module names to the script")
    parser.add_argument("--top", type=int, default=20, metavar="N", help="rows of each table (default: %(default)s)")
    parser.add_argument("script", help="the Python file to run, as `python SCRIPT` would")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")


def main(arguments: argparse.Namespace) -> int:
    """Runs the script, reports on standard error, writes the page, and gives the script's exit status; 2 for wrong arguments."""
    if not os.path.isfile(arguments.script):
        print(f"explain: expected a Python file, got {arguments.script!r}", file=sys.stderr)
        return 2
    html = None if arguments.no_html else arguments.html or "explain.html"
    missing = page.missing() if html else ""
    if missing and arguments.html:
        print(f"explain: {missing}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="xla_go-explain-") as directory:
        path = Path(directory) / "record.json"
        status = _run(arguments, path)
        if not path.exists():
            print(f"explain: nothing to tell: {_how_it_ended(status)} before it could be recorded", file=sys.stderr)
            return _exit_status(status)
        recorded = path.read_text(encoding="utf-8")
    report = Report(json.loads(recorded), _exit_status(status))
    print(text.render(report, arguments.top), file=sys.stderr)
    try:
        if arguments.json:
            Path(arguments.json).write_text(recorded, encoding="utf-8")
        if missing:
            print(f"explain: no page: {missing}", file=sys.stderr)
        elif html:
            Path(html).write_text(page.render(report, arguments.top), encoding="utf-8")
            print(f"explain: page written to {html}", file=sys.stderr)
    except OSError as error:
        print(f"explain: {error}", file=sys.stderr)
    return _exit_status(status)


def _run(arguments: argparse.Namespace, path: Path) -> int:
    """The script's process, from its start to its end; a negative number is the signal that has ended it."""
    flags = ["-O"] * sys.flags.optimize + [f"-W{option}" for option in sys.warnoptions]
    flags += [f"-X{name}" if value is True else f"-X{name}={value}" for name, value in sys._xoptions.items()]
    command = [sys.executable, *flags, "-m", "xla_go.explain.record", str(path), "compat" if arguments.compat else "plain", arguments.script, *arguments.arguments]
    with subprocess.Popen(command) as process:

        def forward(number: int, _: FrameType | None) -> None:
            process.send_signal(number)

        # Ctrl-C reaches the script by itself.
        previous = {signal.SIGINT: signal.signal(signal.SIGINT, signal.SIG_IGN), signal.SIGTERM: signal.signal(signal.SIGTERM, forward)}
        try:
            return process.wait()
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)


def _exit_status(status: int) -> int:
    return 128 - status if status < 0 else status


def _how_it_ended(status: int) -> str:
    return f"signal {signal.Signals(-status).name} has ended the script" if status < 0 else f"the script has ended with status {status}"
