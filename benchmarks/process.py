"""A worker of a benchmark: a process that answers each line of JSON with one, alive over all rounds."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from typing import Any


class WorkerProcess:
    """Its messages go to this process's standard error."""

    def __init__(self, command: list[str], environment: Mapping[str, str]) -> None:
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)

    def poll_answer(self) -> Any:
        """The next answer, None where the process has ended. BLOCKING."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        return json.loads(line) if line else None

    def answer(self) -> Any:
        """The next answer; ends the benchmark where the process has ended. BLOCKING."""
        found = self.poll_answer()
        if found is None:
            raise SystemExit(f"a worker ended with status {self.process.wait()}; its messages are above")
        return found

    def ask(self, question: Any) -> Any:
        """Sends a question and gives its answer. BLOCKING."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        return self.answer()

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(timeout=60)
