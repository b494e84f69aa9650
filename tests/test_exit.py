"""The end of the process, while compiles and programs are going on."""

from __future__ import annotations

import pytest
import torch

import xla_go
from support import Child
from xla_go import _runtime, metrics

LONG = """
    import sys, torch, xla_go
    from xla_go import _runtime
    value = torch.ones(64, 64, device="xla")
    for number in range({length}):
        value = torch.softmax(value @ value, -1) + torch.sin(value) * number
    xla_go.sync()
    print("asked for")
    {then}
    sys.exit(3)
"""


def test_compiles_and_programs_end_before_the_process() -> None:
    value = torch.ones(16, 16, device="xla")
    for number in range(60):
        value = torch.softmax(value @ value, -1) + torch.sin(value) * number
    before = (metrics.metric_data("CompileTime") or [0])[0]
    xla_go.sync()
    _runtime._end()  # what runs at the end of the process
    assert metrics.metric_data("CompileTime")[0] == before + 1
    xla_go.sync()
    assert xla_go._adapter.buffer_pointer(value)  # it has a value without a wait


def test_the_status_is_kept(child: Child) -> None:
    done = child(LONG.format(length=30, then=""), check=False)
    assert (done.returncode, done.stdout, done.stderr) == (3, "asked for\n", "")


def test_an_interrupted_wait_ends_the_process_with_its_status(child: Child) -> None:
    # Long enough for the compile to go on when the libraries' destructors would run.
    interrupt = """
    def wait(*arguments, **keywords):
        raise KeyboardInterrupt
    _runtime.wait = wait"""
    done = child(LONG.format(length=600, then=interrupt.strip()), check=False)
    assert (done.returncode, done.stdout) == (3, "asked for\n"), done.stderr
    assert "KeyboardInterrupt" in done.stderr


DAEMONS = """
    import sys, threading, time, torch, xla_go

    def work(number):
        for turn in range(1 << 30):
            x = torch.ones(8 + (number + turn) % 5, device="xla")
            for _ in range(20):
                x = x * 1.01 + turn
            x.sum().item()
            if turn % 3 == 0:
                xla_go.sync(wait=True)

    for number in range(6):
        threading.Thread(target=work, args=(number,), daemon=True).start()
    time.sleep({seconds})
    print("the end", flush=True)
    sys.exit(3)
"""


@pytest.mark.parametrize("seconds", [0.15, 0.7, *(pytest.param(tenths / 10, marks=pytest.mark.slow) for tenths in range(1, 25, 3))])
def test_daemon_threads_that_use_the_device(child: Child, seconds: float) -> None:
    """Python ends them where they ask for its lock, which aborts the process if they are in torch's or our C++ then: early on in
    the first use, where C++ calls Python, which loads the runtime."""
    done = child(DAEMONS.format(seconds=seconds), check=False)
    assert (done.returncode, done.stdout, done.stderr) == (3, "the end\n", "")
