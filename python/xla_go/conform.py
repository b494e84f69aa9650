"""The conformance suite of the client contract, for anyone who makes a PJRT plugin or packages one.

    python -m xla_go conform --plugin libpjrt_mydevice.so

runs every case with both clients (`pjrt` and `ifrt`) over the plugin and prints a table. The same from Python:

    from xla_go import conform

    report = conform.run(["libpjrt_mydevice.so"], case="Transfer*")
    print(report.text())
    assert not report.failed

Each client over each plugin gets a process of its own, since a plugin may crash or hang and two plugins may not
bear each other. A case that ends its process, or takes longer than the time limit, fails, and the next case goes
on in a new process. A case ends in one of four ways:

- `pass`;
- `fail`, with what was found;
- `unsupported`: the plugin said that it lacks what the case needs; the text is the plugin's own;
- `skip`: the case does not apply, for example one for several devices where there is one.
"""

from __future__ import annotations

import argparse
import fnmatch
import importlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

from xla_go import _plugins, _runtime, errors

__all__ = ["CLIENTS", "Column", "Report", "Result", "cases", "main", "run"]

CLIENTS = ("pjrt", "ifrt")
OUTCOMES = ("pass", "fail", "unsupported", "skip")

# The last row of the table: whether the process that ran the cases ended as it should.
PROCESS_END = "ProcessEnd"

# How many lines of a process's error output tell why it ended.
_LINES_OF_LOG = 12


@dataclass(frozen=True)
class Result:
    """How one case ended: `outcome` is one of OUTCOMES, `text` what was found or why, `seconds` how long it took."""

    case: str
    outcome: str
    text: str = ""
    seconds: float = 0.0


@dataclass
class Column:
    """The results of one client over one plugin. `device_type` and `platform_version` are the plugin's words."""

    client: str
    plugin: str
    device_type: str = ""
    platform_version: str = ""
    results: list[Result] = field(default_factory=list)

    def of(self, case: str) -> Result | None:
        """The result of one case, None where it was not run."""
        return next((result for result in self.results if result.case == case), None)

    def counts(self) -> dict[str, int]:
        """How many cases ended in each outcome."""
        counted = Counter(result.outcome for result in self.results)
        return {outcome: counted[outcome] for outcome in OUTCOMES}


@dataclass
class Report:
    """All columns of a table."""

    columns: list[Column] = field(default_factory=list)

    @property
    def failed(self) -> bool:
        """Whether any case of any column failed."""
        return any(result.outcome == "fail" for column in self.columns for result in column.results)

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON has it."""
        return {"columns": [{**asdict(column), "counts": column.counts()} for column in self.columns]}

    def text(self) -> str:
        """The table, and below it what failed and what is unsupported."""
        return "\n".join([*self._plugins(), "", *self._table(), *self._details("fail"), *self._details("unsupported")])

    def _names(self) -> dict[str, str]:
        """A short name for each plugin: that of its file, with a number where two have the same."""
        names: dict[str, str] = {}
        for path in dict.fromkeys(column.plugin for column in self.columns):
            name, number = Path(path).stem, 2
            while name in names.values():
                name, number = f"{Path(path).stem}-{number}", number + 1
            names[path] = name
        return names

    def _plugins(self) -> Iterator[str]:
        for path, name in self._names().items():
            column = next((column for column in self.columns if column.plugin == path and column.device_type), None)
            about = f" ({column.device_type}, {' '.join(column.platform_version.split())})" if column else ""
            yield f"{name}: {path}{about}"

    def _table(self) -> Iterator[str]:
        names = self._names()
        rows = [["", *(column.client for column in self.columns)], ["case", *(names[column.plugin] for column in self.columns)]]
        for case in dict.fromkeys(result.case for column in self.columns for result in column.results):
            found = [column.of(case) for column in self.columns]
            rows.append([case, *("" if result is None else "FAIL" if result.outcome == "fail" else result.outcome for result in found)])
        for outcome in OUTCOMES:
            rows.append([f"{outcome} (count)", *(str(column.counts()[outcome]) for column in self.columns)])
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        for number, row in enumerate(rows):
            if number in (2, len(rows) - len(OUTCOMES)):
                yield "  ".join("-" * width for width in widths)
            yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()

    def _details(self, outcome: str) -> Iterator[str]:
        names = self._names()
        where: dict[tuple[str, str], list[str]] = {}
        for column in self.columns:
            for result in column.results:
                if result.outcome == outcome:
                    where.setdefault((result.case, result.text), []).append(f"{column.client} on {names[column.plugin]}")
        if where:
            yield from ("", f"{outcome}:")
        for (case, text), columns in where.items():
            yield f"  {case} ({', '.join(columns)})"
            yield from (f"    {line}" for line in text.splitlines())


def cases(pattern: str = "*") -> list[str]:
    """The names of the cases that match a shell pattern, in the order in which they run."""
    return [name for name in _runtime.lines(_runtime.call("ConformanceCases")) if fnmatch.fnmatch(name.lower(), pattern.lower())]


def run(
    plugins: Sequence[str | os.PathLike[str]] = (),
    clients: Sequence[str] = CLIENTS,
    case: str = "*",
    timeout: float = 120.0,
    options: Mapping[str, Any] | None = None,
    several_options: Mapping[str, Any] | None = None,
    devices: int = 4,
    progress: Callable[[Column, Result], None] | None = None,
) -> Report:
    """Runs the suite and gives its report. BLOCKING.

    plugins: paths of plugin libraries; none for the one that xla_go finds.
    clients: "pjrt", "ifrt" or both.
    case: a shell pattern of case names.
    timeout: seconds that one case may take.
    options: options that the plugin's client is made with, in every case.
    several_options: more of them, for the cases of several devices.
    devices: how many devices those cases get, where the number is an option of the plugin (of CPU plugins it is).
    progress: called after each case.

    Raises ValueError for an unknown client or a pattern that no case matches, NotFoundError for a plugin
    that is not there.
    """
    names = cases(case)
    if not names:
        raise ValueError(f"run(): expected a pattern of case names, got {case!r}, which matches none of {', '.join(cases())}")
    for client in clients:
        if client not in CLIENTS:
            raise ValueError(f"run(): expected clients among {', '.join(CLIENTS)}, got {client!r}")
    report = Report()
    for path, found in _paths(plugins):
        settings = {"plugin": path, "devices": devices, "options": {**found, **(options or {})}, "several_options": dict(several_options or {})}
        for client in clients:
            column = Column(client, path)
            report.columns.append(column)
            _Runner(column, {**settings, "client": client}, names, timeout, progress).run()
    return report


def _paths(plugins: Sequence[str | os.PathLike[str]]) -> list[tuple[str, dict[str, Any]]]:
    """Where the plugins are, and options that were found with them."""
    if not plugins:
        plugin = _plugins.choose(os.environ, _plugins.search(os.environ))
        return [(plugin.path, {name: value for name, value in plugin.options.items() if name != "cpu_device_count"})]
    for plugin_path in plugins:
        if not os.path.isfile(plugin_path):
            raise errors.NotFoundError(f"expected a PJRT plugin at {os.fspath(plugin_path)!r}, got no such file")
    return [(os.path.abspath(path), {}) for path in plugins]


class _Runner:
    """Runs the cases of one column in child processes."""

    def __init__(
        self,
        column: Column,
        settings: Mapping[str, Any],
        names: Sequence[str],
        timeout: float,
        progress: Callable[[Column, Result], None] | None,
    ) -> None:
        self.column = column
        self.settings = settings
        self.left = list(names)
        self.timeout = timeout
        self.progress = progress

    def run(self) -> None:
        while self.left:
            before = len(self.left)
            self._run_child()
            if len(self.left) == before:  # a child that cannot even start will not do so the next time
                break

    def _add(self, result: Result) -> None:
        if result.case in self.left:
            self.left.remove(result.case)
        self.column.results.append(result)
        if self.progress is not None:
            self.progress(self.column, result)

    def _run_child(self) -> None:
        with tempfile.TemporaryFile() as log, _Child(self.settings, self.left, log) as child:
            running, begun, log_start = "", time.monotonic(), 0
            # The limit holds for loading the plugin as well.
            while (line := child.read_line(begun + self.timeout)) is not None:
                if "begin" in line:
                    running, begun, log_start = line["begin"], time.monotonic(), line["log"]
                elif "case" in line:
                    self._add(Result(line["case"], line["outcome"], line["text"], line["seconds"]))
                    running, begun = "", time.monotonic()
                elif "failure" in line:
                    self._fail_all(line["failure"])
                else:
                    self.column.device_type, self.column.platform_version = line["device_type"], line["platform_version"]
            took = time.monotonic() - begun
            ended = child.end(grace=max(0.0, begun + self.timeout - time.monotonic()))
            text = "\n".join([ended, *_lines_from(log, log_start)]) if ended else ""
            if running:
                self._add(Result(running, "fail", text or "the process ended in the middle of the case, with status 0", took))
            elif not self.left:
                self._add(Result(PROCESS_END, "fail" if ended else "pass", text, took))
            elif not self.column.results:
                self._fail_all(text or "the process ended before the first case, with status 0")

    def _fail_all(self, text: str) -> None:
        for name in list(self.left):
            self._add(Result(name, "fail", f"the client could not be made: {text}"))


class _Child:
    """A process that runs cases and writes a JSON line at the beginning and the end of each."""

    def __init__(self, settings: Mapping[str, Any], names: Sequence[str], log: IO[bytes]) -> None:
        self._read, write = os.pipe()
        self._rest = b""
        self._timed_out = ""
        command = [sys.executable, "-m", "xla_go", "conform", "--child", str(write), json.dumps(dict(settings))]
        environment = {"TF_CPP_MIN_LOG_LEVEL": "1", **os.environ}
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=log, stderr=log, pass_fds=(write,), env=environment
            )  # fmt: skip
        except BaseException:
            os.close(self._read)
            raise
        finally:
            os.close(write)
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(list(names)).encode())
            self._process.stdin.close()
        except BrokenPipeError:
            pass  # it has ended; reading says so

    def __enter__(self) -> _Child:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        os.close(self._read)

    def read_line(self, deadline: float) -> dict[str, Any] | None:
        """The next line; None where the process has ended or the deadline has passed."""
        while b"\n" not in self._rest:
            ready, _, _ = select.select([self._read], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                self._timed_out = "the time limit has passed"
                return None
            chunk = os.read(self._read, 1 << 16)
            if not chunk:
                return None
            self._rest += chunk
        line, _, self._rest = self._rest.partition(b"\n")
        decoded: dict[str, Any] = json.loads(line)
        return decoded

    def end(self, grace: float) -> str:
        """Waits for the process, or kills it, and says what was wrong with its end; "" for nothing."""
        if not self._timed_out:
            try:
                status = self._process.wait(grace)
            except subprocess.TimeoutExpired:
                self._timed_out = "the process does not end"
        if self._timed_out:
            self._process.kill()
            self._process.wait()
            return self._timed_out
        if status < 0:
            try:
                name = signal.Signals(-status).name
            except ValueError:
                name = f"signal {-status}"
            return f"the process was ended by {name}"
        return f"the process ended with status {status}" if status else ""


def _lines_from(log: IO[bytes], start: int) -> list[str]:
    """The first lines of a log after a position: a crash tells its cause first."""
    log.seek(start)
    lines = [line for line in log.read(1 << 16).decode(errors="replace").splitlines() if line.strip()]
    return lines[:_LINES_OF_LOG]


def _run_as_child(descriptor: int, settings: str) -> int:
    """What a child process does: cases by name from standard input, lines of JSON to the descriptor."""
    names = json.load(sys.stdin)
    with os.fdopen(descriptor, "w") as out:

        def tell(line: Any) -> None:
            out.write(json.dumps(line) + "\n")
            out.flush()

        try:
            opened = json.loads(_runtime.call("OpenConformance", settings))
        except Exception as error:
            tell({"failure": str(error)})
            return 0
        tell({"device_type": opened["device_type"], "platform_version": opened["platform_version"]})
        for name in names:
            tell({"begin": name, "log": os.fstat(sys.stderr.fileno()).st_size})
            tell(json.loads(_runtime.call("RunConformanceCase", opened["handle"], name)))
    return 0


def _value(text: str) -> Any:
    """An option's value: a number, a boolean or a list of integers as JSON has them, else text."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, bool | int | float | list) else text


def _option(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"expected NAME=VALUE, got {text!r}")
    return name, _value(value)


@contextmanager
def _progress_bar(total: int) -> Iterator[Callable[[Column, Result], None] | None]:
    """Shows how far it has come, where standard error is a terminal and tqdm is installed."""
    if not sys.stderr.isatty():
        yield None
        return
    try:
        tqdm = importlib.import_module("tqdm")
    except ImportError:
        yield None
        return
    with tqdm.tqdm(total=total, unit="case", leave=False) as bar:

        def show(column: Column, result: Result) -> None:
            bar.set_postfix_str(f"{column.client} {Path(column.plugin).stem} {result.case}")
            bar.update(result.case != PROCESS_END)

        yield show


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `python -m xla_go conform`."""
    parser.add_argument("--plugin", action="append", default=[], metavar="PATH", help="a plugin library; may be given several times; without it, the one that xla_go finds")
    parser.add_argument("--client", choices=[*CLIENTS, "both"], default="both", help="the client to test (both)")
    parser.add_argument("--case", default="*", metavar="PATTERN", help="run the cases whose names match, for example 'Transfer*'")
    parser.add_argument("--json", metavar="FILE", help="write the report to FILE as JSON")
    parser.add_argument("--timeout", type=float, default=120.0, metavar="SECONDS", help="how long one case may take (120)")
    parser.add_argument("--option", action="append", type=_option, default=[], metavar="NAME=VALUE", help="an option for the plugin's client; may be given several times")
    parser.add_argument("--several-option", action="append", type=_option, default=[], metavar="NAME=VALUE", help="an option more for the cases of several devices")
    parser.add_argument("--devices", type=int, default=4, metavar="N", help="devices in the cases of several devices, where the number is the plugin's option, as it is of CPU plugins (4)")
    parser.add_argument("--list", action="store_true", help="list the cases and run none")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)


def main(arguments: argparse.Namespace) -> int:
    """Runs what the command line asks for; gives 0 where nothing failed, 1 where something did, 2 for a wrong command line."""
    if arguments.child:
        return _run_as_child(int(arguments.child[0]), arguments.child[1])
    try:
        names = cases(arguments.case)
        if arguments.list:
            print("\n".join(names))
            return 0
        clients: Iterable[str] = CLIENTS if arguments.client == "both" else (arguments.client,)
        with _progress_bar(len(names) * len(list(clients)) * max(1, len(arguments.plugin))) as progress:
            report = run(
                arguments.plugin, tuple(clients), arguments.case, arguments.timeout,
                dict(arguments.option), dict(arguments.several_option), arguments.devices, progress,
            )  # fmt: skip
    except (ValueError, errors.NotFoundError) as error:
        print(f"python -m xla_go conform: {error}", file=sys.stderr)
        return 2
    print(report.text())
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(report.as_dict(), indent=2) + "\n", encoding="utf-8")
    return 1 if report.failed else 0
