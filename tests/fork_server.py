"""Processes for tests, forked from one that has imported torch, which alone takes 3 s of processor time.

The server imports torch and nothing else, so that xla_go, and Go with it, begin in the forked process. That one has the
environment, the folder, the module `__main__` and the end of an ordinary `python -c`. It differs in what Python and torch
read while they start (PREPARED_TOO_LATE), and its stack has two frames more at the bottom.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import types
from pathlib import Path
from typing import IO

# Variables that are read before a forked process could have its own value.
PREPARED_TOO_LATE = ("PYTHON", "LD_", "TORCH", "OMP_", "MKL_", "OPENBLAS_", "KMP_", "ATEN_", "CUDA_", "GLIBC_", "MALLOC_")


class ForkServer:
    """The server's end of the tests: start with ForkServer(), end with close(). One process runs at a time."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen([sys.executable, str(Path(__file__)), str(theirs.fileno())], stdin=subprocess.DEVNULL, pass_fds=(theirs.fileno(),))
        self._answers = self._socket.makefile("r", encoding="utf-8")

    def close(self) -> None:
        """Ends the server. May be called again."""
        self._answers.close()
        self._socket.close()
        self._process.wait()

    def run(self, code: str, environment: dict[str, str], folder: Path, timeout: float) -> subprocess.CompletedProcess[str]:
        """Runs code like `python -c code`. BLOCKING. Raises subprocess.TimeoutExpired, after it has killed the process."""
        command = [sys.executable, "-c", code]
        with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
            request = json.dumps({"code": code, "environment": environment, "folder": str(folder)}).encode()
            # The length goes with the files, so that neither waits for the other.
            socket.send_fds(self._socket, [len(request).to_bytes(8, "little")], [output.fileno(), errors.fileno()])
            self._socket.sendall(request)
            pid = int(self._answer())
            self._socket.settimeout(timeout)
            try:
                status = int(self._answer())
            except TimeoutError:
                os.kill(pid, 9)
                self._socket.settimeout(None)
                # After a timeout the file object refuses to go on: a new one reads what is left.
                self._answers = self._socket.makefile("r", encoding="utf-8")
                self._answer()
                raise subprocess.TimeoutExpired(command, timeout, _text(output), _text(errors)) from None
            finally:
                self._socket.settimeout(None)
            return subprocess.CompletedProcess(command, status, _text(output), _text(errors))

    def _answer(self) -> str:
        line = self._answers.readline()
        if not line:
            raise RuntimeError(f"the fork server ended with status {self._process.wait()}")
        return line


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


def serve(server: socket.socket) -> str | None:
    """Forks a process for each request. Gives None at the tests' end, and in a forked process the code that it is to run."""
    while True:
        size, files, _, _ = socket.recv_fds(server, 8, 2)
        if not size:
            return None
        request = json.loads(server.recv(int.from_bytes(size, "little"), socket.MSG_WAITALL))
        pid = os.fork()
        if pid == 0:
            server.close()
            for number, file in enumerate(files, 1):
                os.dup2(file, number)
                os.close(file)
            os.chdir(request["folder"])
            os.environ.clear()
            os.environ.update(request["environment"])
            return str(request["code"])
        for file in files:
            os.close(file)
        server.sendall(f"{pid}\n".encode())
        _, status = os.waitpid(pid, 0)
        server.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())


def main() -> None:
    import torch  # noqa: F401

    server = socket.socket(fileno=int(sys.argv[1]))
    code = serve(server)
    if code is None:
        return
    sys.argv, sys.path[0] = ["-c"], ""
    sys.modules["__main__"] = module = types.ModuleType("__main__")
    exec(compile(code, "<string>", "exec"), module.__dict__)


if __name__ == "__main__":
    main()
