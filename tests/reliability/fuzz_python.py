"""Fuzzes the calls of Python that take what comes from outside: texts, bytes, files, variables of the environment, arguments.

    python tests/reliability/fuzz_python.py 3m [target ...] [--note]

Needs the package atheris beside xla_go and torch. Each target runs in a process and a directory of its own, build/fuzz-python/TARGET,
and keeps the inputs that reached new code there. An outcome is a result or an exception of the target's kinds; another exception, a
signal, an exit and an input that takes more than 30 seconds end the run with status 1 and leave the input in TARGET/last. `--input FILE`
tries one input again.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import mmap
import os
import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
NOTED = Path(__file__).with_name("fuzz_python.tsv")
LONGEST_INPUT = 8192
HANG_SECONDS = 30


class LastInput:
    """The input that is tried, in a file that outlives the process, whatever ends it."""

    def __init__(self, path: Path) -> None:
        path.write_bytes(bytes(8 + LONGEST_INPUT))
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), 0)

    def set(self, data: bytes) -> None:
        self._memory[: 8 + len(data)] = len(data).to_bytes(8, "little") + data

    @staticmethod
    def read(path: Path) -> bytes:
        whole = path.read_bytes()
        return whole[8 : 8 + int.from_bytes(whole[:8], "little")]


def seconds(text: str) -> int:
    match = re.fullmatch(r"(\d+)([smh])", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"expected a time as 30s or 10m, got {text!r}")
    return int(match.group(1)) * {"s": 1, "m": 60, "h": 3600}[match.group(2)]


def fuzz(name: str, limit: int) -> None:
    """Tries inputs for a time, in the working directory. Ends the process."""
    import atheris

    with atheris.instrument_imports(include=["xla_go"]):
        from python_targets import TARGETS

        make, seeds, allowed = TARGETS[name]
        attempt = make()
    last = LastInput(Path("last"))
    corpus = Path("corpus")
    corpus.mkdir(exist_ok=True)
    for number, seed in enumerate(seeds()):
        (corpus / f"seed{number}").write_bytes(seed)
    armed = 0.0

    def one(data: bytes) -> None:
        nonlocal armed
        last.set(data)
        now = time.monotonic()
        if now - armed > HANG_SECONDS / 10:
            faulthandler.dump_traceback_later(HANG_SECONDS, exit=True)
            armed = now
        with contextlib.suppress(*allowed):
            attempt(atheris.FuzzedDataProvider(data))

    # faulthandler tells of an input that takes too long, and signals are left to it and to the runtime: libFuzzer's handlers take the stack of the thread that they come on,
    # which may be a small one of Go's.
    signals = [f"-handle_{signal}=0" for signal in ("abrt", "bus", "fpe", "ill", "segv", "int", "term", "xfsz", "usr1", "usr2")]
    faulthandler.enable()
    options = [f"-max_total_time={limit}", f"-max_len={LONGEST_INPUT}", "-timeout=1000000", "-rss_limit_mb=8192", "-print_final_stats=1", *signals]
    atheris.Setup([sys.argv[0], *options, str(corpus)], one)
    atheris.Fuzz()


def try_again(name: str, path: Path) -> None:
    """Tries one input, and raises what comes of it."""
    import atheris
    from python_targets import TARGETS

    make, _, allowed = TARGETS[name]
    try:
        make()(atheris.FuzzedDataProvider(path.read_bytes()))
    except allowed as error:
        print(f"{type(error).__name__}: {error}")


def run(name: str, limit: int) -> int | None:
    """Inputs that a target tried, None where one failed, whose report has been printed. BLOCKING for that time."""
    directory = ROOT / "build" / "fuzz-python" / name
    directory.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "CPU_NUM_DEVICES": "4", "TF_CPP_MIN_LOG_LEVEL": "3", "XLA_GO_PERSISTENT_CACHE": "0", "XLA_GO_LOG": "none"}
    command = [sys.executable, str(Path(__file__).resolve()), str(limit) + "s", name, "--here"]
    done = subprocess.run(command, cwd=directory, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    output = done.stdout.decode(errors="replace")
    tried = re.search(r"stat::number_of_executed_units: (\d+)", output)
    if done.returncode == 0 and tried is not None:
        return int(tried.group(1))
    print(output[-6000:])
    if (directory / "last").exists():
        (directory / "input").write_bytes(LastInput.read(directory / "last"))
        print(f"status {done.returncode}; the input is in {directory / 'input'}: {(directory / 'input').read_bytes()!r}")
    return None


def main() -> int:
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("time", type=seconds, help="for each target: 30s, 10m")
    parser.add_argument("targets", nargs="*")
    parser.add_argument("--note", action="store_true", help="writes the numbers into fuzz_python.tsv")
    parser.add_argument("--here", action="store_true", help="one target, in this process")
    parser.add_argument("--input", type=Path, help="one input of one target, in this process")
    arguments = parser.parse_args()
    if arguments.input is not None:
        try_again(arguments.targets[0], arguments.input)
        return 0
    if arguments.here:
        fuzz(arguments.targets[0], arguments.time)
        return 0
    from python_targets import TARGETS

    noted = dict(line.split("\t", 1) for line in NOTED.read_text().splitlines()[1:]) if NOTED.exists() else {}
    failed = False
    for name in arguments.targets or TARGETS:
        tried = run(name, arguments.time)
        print(f"{name}: {'FAILED' if tried is None else f'{tried:,} inputs'}", flush=True)
        failed = failed or tried is None
        if tried is not None:
            noted[name] = f"{tried}\t{arguments.time}s\t{TARGETS[name][0].__doc__}"
    if arguments.note:
        lines = [f"{name}\t{noted[name]}\n" for name in TARGETS if name in noted]
        NOTED.write_text("# target\tinputs\ttime\twhat it takes\n" + "".join(lines), encoding="utf-8")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
