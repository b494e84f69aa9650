"""Threads, forks and signals."""

from __future__ import annotations

import threading

import torch

from support import Child


def test_a_backward_runs_on_its_caller() -> None:
    seen: list[int] = []
    x = torch.ones(3, device="xla", requires_grad=True)
    y = x * 2
    x.register_hook(lambda gradient: seen.append(threading.get_ident()))
    gradient = torch.ones(3, device="xla")
    callers: list[int] = []

    def work() -> None:
        # Of this thread the backward is the first call on the device.
        y.backward(gradient)
        callers.append(threading.get_ident())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == callers


def test_backwards_of_many_threads() -> None:
    results: dict[int, float] = {}

    def work(number: int) -> None:
        x = torch.full((8,), float(number), device="xla", requires_grad=True)
        for _ in range(20):
            x.grad = None
            (x * x).sum().backward()
        results[number] = x.grad.sum().item()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {number: 16.0 * number for number in range(6)}


def test_a_forked_child_may_use_the_cpu_and_not_the_device(child: Child) -> None:
    done = child(
        """
        import gc, os
        import torch, xla_go

        x = torch.ones(3, device="xla", requires_grad=True)
        (x * 2).sum().backward()
        pending = x * 3
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                for use in (lambda: x + 1, lambda: x[0], lambda: pending.cpu(), lambda: torch.ones(1, device="xla")):
                    try:
                        use()
                    except RuntimeError as error:
                        assert type(error) is xla_go.errors.FailedPreconditionError and "spawn" in str(error), error
                    else:
                        raise AssertionError("expected an error")
                del x, pending
                gc.collect()
                w = torch.ones(3, requires_grad=True)
                (w * 2).sum().backward()
                assert w.grad.tolist() == [2.0] * 3
                assert torch.xla._is_in_bad_fork()
                torch.manual_seed(0)
                status = 0
            finally:
                os._exit(status)
        assert os.waitpid(pid, 0)[1] == 0
        assert pending.cpu().tolist() == [3.0] * 3
        print("ok")
        """
    )
    assert done.stdout.strip() == "ok"


def test_a_child_forked_before_the_first_use_may_use_the_device(child: Child) -> None:
    done = child(
        """
        import os
        import torch, xla_go

        w = torch.ones(3, requires_grad=True)
        (w * 2).sum().backward()
        pid = os.fork()
        if pid == 0:
            ok = torch.ones(3, device="xla").sum().item() == 3
            os._exit(0 if ok else 1)
        assert os.waitpid(pid, 0)[1] == 0
        print(torch.ones(4, device="xla").sum().item())
        """
    )
    assert done.stdout.strip() == "4.0"


def test_data_loader_workers(child: Child) -> None:
    done = child(
        """
        import torch, xla_go
        from torch.utils.data import DataLoader, TensorDataset

        torch.ones(3, device="xla").sum().item()
        loader = DataLoader(TensorDataset(torch.arange(8.0)), batch_size=4, num_workers=2)
        print([batch.to("xla").sum().item() for (batch,) in loader])
        """
    )
    assert done.stdout.strip() == "[6.0, 22.0]"


SLOW_READ = """
import os, signal, sys, threading, time
import torch, xla_go

a = torch.rand(1500, 1500, device="xla") / 1500

def heavy():
    x = a
    for _ in range(60):
        x = x @ a
    return x

heavy()[0, 0].item()  # compiled now
"""


def test_ctrl_c_ends_a_read(child: Child) -> None:
    done = child(
        SLOW_READ
        + """
pending = heavy()
xla_go.sync()
interrupted = threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT))
begin = time.monotonic()
interrupted.start()
try:
    pending[0, 0].item()
except KeyboardInterrupt:
    waited = time.monotonic() - begin
else:
    print("the read was too fast to be interrupted")
    sys.exit(0)
again = pending[0, 0].item()
whole = time.monotonic() - begin
assert waited < 0.6, waited
print("interrupted")
"""
    )
    assert done.stdout.strip() in ("interrupted", "the read was too fast to be interrupted")


def test_other_threads_run_during_a_read(child: Child) -> None:
    done = child(
        SLOW_READ
        + """
count, stop = [0], False

def spin():
    while not stop:
        count[0] += 1
        time.sleep(0.001)

thread = threading.Thread(target=spin)
thread.start()
pending = heavy()
begin, before = time.monotonic(), count[0]
pending[0, 0].item()
waited, during = time.monotonic() - begin, count[0] - before
stop = True
thread.join()
assert during > 50 * waited, (during, waited)
print("ok")
"""
    )
    assert done.stdout.strip() == "ok"


def test_the_process_ends_cleanly(child: Child) -> None:
    for ending in (
        "y = x * 2",
        "y = x * 2; xla_go.sync()",
        "(x * x).sum().backward(); y = x.grad.cpu()",
        "import sys; c = [x * 2]; c.append(c); sys.modules['kept'] = c",
    ):
        child(f"import torch, xla_go\nx = torch.ones(3, device='xla', requires_grad=True)\n{ending}\n")
