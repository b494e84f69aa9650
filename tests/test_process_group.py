"""torch.distributed with the backend "xla": processes that torchrun starts, each with a device of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from test_coordinator import environment, free_port

START = """
    import json, os, warnings, torch, torch.distributed as dist, xla_go

    dist.init_process_group("xla")
    rank, size = dist.get_rank(), dist.get_world_size()

    def tell(value):
        with open(f"told-{rank}.json", "w") as file:
            json.dump(value, file)
"""


def torchrun(tmp_path: Path, processes: int, code: str) -> list[Any]:
    """What each process told."""
    (tmp_path / "script.py").write_text(textwrap.dedent(START) + textwrap.dedent(code))
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--nnodes=1", f"--nproc-per-node={processes}", "--master-addr=127.0.0.1",
         f"--master-port={free_port()}", "script.py"],
        cwd=tmp_path, env=environment(OMP_NUM_THREADS="1"), capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [json.loads((tmp_path / f"told-{rank}.json").read_text()) for rank in range(processes)]


def test_every_collective(tmp_path: Path) -> None:
    told = torchrun(
        tmp_path,
        2,
        """
        def full(value, *sizes):
            return torch.full(sizes or (2,), float(value), device="xla")

        out = {}
        for name in ("SUM", "PRODUCT", "MIN", "MAX", "AVG"):
            x = full(rank + 1)
            dist.all_reduce(x, getattr(dist.ReduceOp, name))
            out[name] = x.tolist()
        x = full(rank)
        dist.broadcast(x, 1)
        out["broadcast"] = x.tolist()
        parts = [full(9) for _ in range(size)]
        dist.all_gather(parts, full(rank))
        out["all_gather"] = [part.tolist() for part in parts]
        whole = full(9, 4)
        dist.all_gather_into_tensor(whole, full(rank))
        out["all_gather_into_tensor"] = whole.tolist()
        part = full(9)
        dist.reduce_scatter_tensor(part, torch.arange(4.0, device="xla") + rank)
        out["reduce_scatter_tensor"] = part.tolist()
        dist.reduce_scatter(part, [full(rank), full(rank + 10)])
        out["reduce_scatter"] = part.tolist()
        swapped = full(9, 2)
        dist.all_to_all_single(swapped, torch.arange(2.0, device="xla") + 10 * rank)
        out["all_to_all_single"] = swapped.tolist()
        x = full(rank + 1)
        dist.reduce(x, 0)
        out["reduce"] = x.tolist() if rank == 0 else None
        gathered = [full(9) for _ in range(size)] if rank == 0 else None
        dist.gather(full(rank), gathered)
        out["gather"] = [part.tolist() for part in gathered] if rank == 0 else None
        x = full(9)
        dist.scatter(x, [full(5), full(6)] if rank == 0 else None)
        out["scatter"] = x.tolist()
        if rank == 0:
            dist.send(full(7), 1)
        else:
            dist.recv(x, 0)
            out["recv"] = x.tolist()
        view = torch.zeros(3, 2, device="xla")
        dist.all_reduce(view[1].fill_(1))
        out["view"] = view.tolist()
        bits = torch.tensor([rank == 0, True], device="xla")
        dist.all_reduce(bits, dist.ReduceOp.MIN)
        out["bool"] = bits.tolist()
        objects = [None] * size
        dist.all_gather_object(objects, {"rank": rank})
        out["objects"] = objects
        work = dist.all_reduce(full(1), async_op=True)
        work.wait()
        dist.barrier()
        out["counted"] = xla_go.metrics.counter_value("HostCollective") > 10
        tell(out)
        dist.destroy_process_group()
        """,
    )
    both = {
        "SUM": [3, 3], "PRODUCT": [2, 2], "MIN": [1, 1], "MAX": [2, 2], "AVG": [1.5, 1.5], "broadcast": [1, 1],
        "all_gather": [[0, 0], [1, 1]], "all_gather_into_tensor": [0, 0, 1, 1], "view": [[0, 0], [2, 2], [0, 0]],
        "bool": [False, True], "objects": [{"rank": 0}, {"rank": 1}], "counted": True,
    }  # fmt: skip
    first = {
        "reduce_scatter_tensor": [1, 3], "reduce_scatter": [1, 1], "all_to_all_single": [0, 10], "reduce": [3, 3],
        "gather": [[0, 0], [1, 1]], "scatter": [5, 5],
    }  # fmt: skip
    second = {
        "reduce_scatter_tensor": [5, 7], "reduce_scatter": [21, 21], "all_to_all_single": [1, 11], "reduce": None,
        "gather": None, "scatter": [6, 6], "recv": [7, 7],
    }  # fmt: skip
    assert told == [{**both, **first}, {**both, **second}]


DDP = """
    from torch.distributed.optim import ZeroRedundancyOptimizer
    from torch.utils.data import DataLoader, TensorDataset
    from torch.utils.data.distributed import DistributedSampler

    def model():
        torch.manual_seed(rank)  # DDP gives all of them rank 0's
        return torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.GELU(), torch.nn.Linear(16, 3)).to("xla")

    def train(optimizer_of, steps=5):
        net = torch.nn.parallel.DistributedDataParallel(model())
        optimizer = optimizer_of(net.parameters())
        points = TensorDataset(torch.randn(40, 6, generator=torch.Generator().manual_seed(1)), torch.randint(0, 3, (40,), generator=torch.Generator().manual_seed(2)))
        loader = DataLoader(points, batch_size=8 // size, sampler=DistributedSampler(points, shuffle=False))
        losses = []
        for x, y in loader:
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(net(x.to("xla")), y.to("xla"))
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        mean = torch.stack(losses)
        dist.all_reduce(mean, dist.ReduceOp.AVG)
        weights = [p.flatten()[:4].tolist() for p in net.parameters()]
        return mean.tolist(), weights

    plain = train(lambda p: torch.optim.AdamW(p, lr=1e-2))
    sharded = train(lambda p: ZeroRedundancyOptimizer(p, torch.optim.AdamW, lr=1e-2))
    tell([plain, sharded])
    dist.destroy_process_group()
"""


def alone() -> tuple[list[float], list[list[float]]]:
    """The same training in one process on the CPU: five batches of eight, in the samplers' order."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.GELU(), torch.nn.Linear(16, 3))
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
    x = torch.randn(40, 6, generator=torch.Generator().manual_seed(1))
    y = torch.randint(0, 3, (40,), generator=torch.Generator().manual_seed(2))
    losses = []
    for batch in range(5):
        mine = slice(8 * batch, 8 * batch + 8)
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(x[mine]), y[mine])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, [p.flatten()[:4].tolist() for p in net.parameters()]


@pytest.mark.parametrize("processes", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_data_parallel_training_is_that_of_one_process(tmp_path: Path, processes: int) -> None:
    told = torchrun(tmp_path, processes, DDP)
    losses, weights = alone()
    for plain, sharded in told:
        for kind, (got, parameters) in (("AdamW", plain), ("ZeroRedundancyOptimizer", sharded)):
            assert got == pytest.approx(losses, rel=1e-4), kind
            for mine, expected in zip(parameters, weights, strict=True):
                assert mine == pytest.approx(expected, rel=1e-4, abs=1e-6), kind


LONELY = """
    import datetime, sys, time
    import torch, torch.distributed as dist, xla_go

    dist.init_process_group("xla", timeout=datetime.timedelta(seconds=20))
    dist.all_reduce(torch.ones(2, device="xla"))
    print("met", flush=True)
    if dist.get_rank() == 1:
        time.sleep(600)  # until it is killed
    begun = time.monotonic()
    try:
        while True:
            dist.all_reduce(torch.ones(2, device="xla"))
    except RuntimeError as error:
        print(f"raised after {time.monotonic() - begun:.1f}: {type(error).__name__}", flush=True)
        sys.exit(3)
"""


def test_a_killed_process_raises_on_the_others(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(textwrap.dedent(LONELY))
    variables = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "3"}
    processes = [
        subprocess.Popen(
            [sys.executable, "script.py"],
            cwd=tmp_path,
            env=environment(RANK=str(rank), **variables),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(3)
    ]
    try:
        assert processes[1].stdout is not None
        line = ""
        while line != "met\n":  # beside what the plugin logs
            line = processes[1].stdout.readline()
            assert line, "the second process ended before all had met"
        os.kill(processes[1].pid, signal.SIGKILL)
        killed = time.monotonic()
        for rank in (0, 2):
            output, _ = processes[rank].communicate(timeout=60)
            assert processes[rank].returncode == 3 and "raised after" in output, output
        assert time.monotonic() - killed < 40
    finally:
        for process in processes:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
