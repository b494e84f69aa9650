"""What befalls the whole process: signals, forks at every stage, other interpreters, more memory than there is."""

from __future__ import annotations

import signal
import sys

import pytest
import torch

import xla_go
from support import Child
from xla_go import _compiles, errors

pytestmark = pytest.mark.once

# A program that takes a while to compile is waited for, and then a signal comes.
SIGNALLED = """
    import faulthandler, os, signal, threading, torch, xla_go
    value = torch.ones(64, 64, device="xla")
    value.cpu()
    {prepare}
    for number in range(200):
        value = torch.softmax(value @ value, -1) + torch.sin(value) * number
    threading.Timer(0.2, os.kill, (os.getpid(), signal.{name})).start()
    value.cpu()
    print("came through")
"""


def test_sigterm_ends_a_process_that_waits(child: Child) -> None:
    done = child(SIGNALLED.format(prepare="", name="SIGTERM"), check=False)
    assert (done.returncode, done.stdout) == (-signal.SIGTERM, ""), done


def test_ctrl_c_while_a_compile_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    """What looks for the line of a compile must not fail the step, and must not swallow the user's Ctrl-C."""

    def interrupted() -> None:
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr(_compiles, "locate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        torch.arange(5.0, device="xla").mul(7).erf().cpu()
        for _ in range(1000):  # the handler runs between two instructions of Python
            pass
    assert torch.arange(3.0, device="xla").mul(7).tolist() == [0, 7, 14]


@pytest.mark.parametrize("first", [True, False], ids=["before", "after"])
def test_faulthandler_tells_of_a_crash(child: Child, first: bool) -> None:
    """Go has a handler of its own: whoever came first, the user's traceback is written and the signal ends the process."""
    done = child(
        f"""
    import ctypes, faulthandler
    if {first}:
        faulthandler.enable()
    import torch, xla_go
    torch.ones(3, device="xla").sum().item()
    if not {first}:
        faulthandler.enable()
    torch.ones(4, device="xla").sum().item()
    ctypes.string_at(0)
    """,
        check=False,
    )
    assert done.returncode == -signal.SIGSEGV and "Fatal Python error: Segmentation fault" in done.stderr and "string_at" in done.stderr, done


# In each child of each stage: what uses the device is refused, what does not works, and it ends by itself.
FORKS = """
    import gc, os, sys, threading, time, torch

    def forked(stage, used):
        for way in (os._exit, sys.exit):
            started, child = time.monotonic(), os.fork()
            if child == 0:
                leaf = torch.ones(3, requires_grad=True)
                (leaf * 2).sum().backward()
                gc.collect()
                calls = [lambda: torch.ones(2, device="xla").sum().item()]
                if used:
                    calls += [lambda: value.cpu(), xla_go.sync, xla_go.metrics.counter_names]
                for call in calls:
                    try:
                        call()
                        good = not used
                    except RuntimeError as error:
                        good = used and type(error) is xla_go.errors.FailedPreconditionError and "spawn" in str(error)
                    if not good:
                        os._exit(4)
                way(0 if leaf.grad.sum() == 6 else 5)
            while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0):
                if time.monotonic() - started > 60:
                    os.kill(child, 9)
                    raise AssertionError(f"{stage}: the child hangs")
                time.sleep(0.01)
            assert ended[1] == 0, (stage, way, ended)
        print(stage, flush=True)

    import xla_go
    forked("imported", False)
    value = torch.ones(64, 64, device="xla")
    value.cpu()
    forked("used", True)
    other = value * 2
    forked("pending", True)
    for number in range(15):
        other = torch.softmax(other @ value, -1) + torch.sin(other) * number
    xla_go.sync()
    forked("compiling", True)
    at_work = True
    def work():
        while at_work:
            (value @ value).sum().item()
    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    forked("threads at work", True)
    at_work = False
    for thread in threads:
        thread.join()
    assert value.sum().item() == 4096 and torch.isfinite(other.cpu()).all()
"""


def test_forks_at_every_stage(child: Child) -> None:
    done = child(FORKS)
    assert done.stdout.splitlines() == ["imported", "used", "pending", "compiling", "threads at work"]


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="the module that makes sub-interpreters has another name and other calls")
def test_a_sub_interpreter_is_refused(child: Child) -> None:
    done = child("""
    import _xxsubinterpreters as interpreters
    import torch, xla_go
    assert torch.ones(2, device="xla").sum().item() == 2
    other = interpreters.create()
    try:
        interpreters.run_string(other, "import xla_go")
    except interpreters.RunFailedError as error:
        print(error)
    interpreters.destroy(other)
    assert (torch.ones(2, device="xla") * 3).sum().item() == 6
    """)
    assert "ImportError" in done.stdout and "xla_go: expected the main interpreter, got a sub-interpreter" in done.stdout


def test_a_free_threaded_build_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "abiflags", "t")
    with pytest.raises(ImportError, match="got a free-threaded build"):
        xla_go._refuse_interpreter()


def test_more_memory_than_there_is() -> None:
    with pytest.raises(errors.ResourceExhaustedError, match="Out of memory"):
        torch.zeros(1 << 46, device="xla")[5].item()
    with pytest.raises(errors.ResourceExhaustedError, match="Out of memory"):
        kept = torch.ones(1 << 22, 1, device="xla") * torch.ones(1, 1 << 22, device="xla")
        xla_go.sync(wait=True)
    with pytest.raises(errors.ResourceExhaustedError, match="Out of memory"):
        kept.sum(0).cpu()  # what could not be made is not made of something else
    assert (torch.ones(3, device="xla") + 1).tolist() == [2, 2, 2]
