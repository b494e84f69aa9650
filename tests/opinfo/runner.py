"""Runs units of the database in child processes, and goes on where one dies or hangs."""

from __future__ import annotations

import json
import os
import random
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from opinfo.entry import DTYPES, Outcome

# A unit that takes longer hangs; and a worker that takes longer to start, which is mostly torch's import.
LIMIT = 900.0
START_LIMIT = 300.0

# The database is cut into as many chunks. The first SAMPLE of them are the fixed sample that `make test` runs.
CHUNKS = 48
SAMPLE = 1

Unit = tuple[str, str]


def units(dtypes: Iterable[str] = tuple(DTYPES)) -> list[Unit]:
    """All (entry, dtype) that the database has, in the order of names."""
    from torch.testing._internal.common_methods_invocations import op_db

    return sorted((op.full_name, d) for op in op_db for d in dtypes if DTYPES[d] in op.supported_dtypes("cpu"))


def chunk(number: int) -> list[Unit]:
    """The units of one chunk: whole entries, dealt out in an order that depends on their names only."""
    every = units()
    names = sorted({name for name, _ in every})
    random.Random(20240229).shuffle(names)
    mine = set(names[number::CHUNKS])
    return [unit for unit in every if unit[0] in mine]


def run(work: list[Unit], limit: float = LIMIT) -> Iterator[Outcome]:
    """Runs the units one after the other in a child process, and in another one after it has died or was killed."""
    while work:
        child = _Child(limit)
        yield from child.run(work)
        work = work[child.finished :]
        if work:
            yield Outcome(*work[0], "forward", failures=[child.death])
            work = work[1:]


class _Child:
    """One child process: how many units it finished, and how it ended where it did not finish all."""

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self.finished = 0
        self.death = ""

    def run(self, work: list[Unit]) -> Iterator[Outcome]:
        tests = str(Path(__file__).resolve().parent.parent)
        environment = {**os.environ, "PYTHONPATH": tests, "XLA_GO_PERSISTENT_CACHE": "0", "XLA_GO_LOG": "none"}
        with tempfile.TemporaryFile("w+") as orders, tempfile.TemporaryFile("w+") as log:
            orders.writelines(f"{name}\t{dtype}\n" for name, dtype in work)
            orders.seek(0)
            reading, writing = os.pipe()
            process = subprocess.Popen(
                [sys.executable, "-m", "opinfo.worker", str(writing)],
                env=environment, stdin=orders, stdout=log, stderr=log, pass_fds=(writing,),
            )  # fmt: skip
            os.close(writing)
            try:
                yield from self._read(reading)
            finally:
                os.close(reading)
                process.kill() if self.death else None  # it hangs; otherwise it is ending by itself
                status = process.wait()
            if self.finished < len(work) and not self.death:
                log.seek(0)
                how = signal.Signals(-status).name if status < 0 else f"status {status}"
                self.death = f"the process ended with {how}: {' '.join(log.read().split())[-300:]}"

    def _read(self, fd: int) -> Iterator[Outcome]:
        buffer = b""
        deadline = time.monotonic() + START_LIMIT
        while True:
            ready, _, _ = select.select([fd], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                self.death = f"no result after {self.limit:.0f} s"
                return
            data = os.read(fd, 1 << 16)
            if not data:
                return
            *lines, buffer = (buffer + data).split(b"\n")
            for line in lines:
                deadline = time.monotonic() + self.limit
                if not line.startswith(b"begin\t"):
                    self.finished += 1
                    yield from (Outcome(**fields) for fields in json.loads(line))
