"""xla_go.distributed: replicas on the threads of a process with eight virtual CPU devices, and collectives between them."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Any

import pytest

from support import REFUSES, Child, Eight

pytestmark = pytest.mark.once

START = REFUSES + """
    import json, threading, time, torch, xla_go, replica_programs
    from xla_go import distributed, errors, metrics, runtime

"""


IFRT = pytest.mark.parametrize("eight", ["0", pytest.param("1", marks=pytest.mark.slow)], ids=["pjrt", "ifrt"], indirect=True)


@pytest.fixture(params=["0", "1"], ids=["pjrt", "ifrt"])
def eight(child: Child, request: pytest.FixtureRequest) -> Eight:
    """Runs code after START in a process with eight devices, with either client; where a test is marked so, with the second in
    `make test-full` only.
    """
    base = {"CPU_NUM_DEVICES": "8", "XLA_USE_IFRT": request.param, "PYTHONPATH": str(Path(__file__).parent)}

    def run(code: str, timeout: float = 300, **environment: str) -> Any:
        return child(textwrap.dedent(START) + textwrap.dedent(code), env={**base, **environment}, timeout=timeout)

    return run


@IFRT
def test_every_collective_is_numpys(eight: Eight) -> None:
    done = eight("""
    print(replica_programs.every_collective())
    assert not any(name.startswith("aten::") for name in metrics.counter_names())
    assert xla_go.debug.live_counts()["storages"] == 0
    """)
    assert int(done.stdout) > 5000


@IFRT
def test_collectives_in_random_order(eight: Eight) -> None:
    eight("replica_programs.random_collectives(400, 20261130)")


@pytest.mark.slow
def test_ten_thousand_collectives_in_random_order(eight: Eight) -> None:
    eight("replica_programs.random_collectives(10_000, 7)", timeout=1800)


def test_a_nan_in_one_collective_is_not_in_the_next(eight: Eight) -> None:
    eight("replica_programs.nan_stays()")


def test_gradients_flow_back_through_collectives(eight: Eight) -> None:
    eight("""
    replica_programs.gradients()

    def product(ordinal):
        x = torch.ones(2, device="xla", requires_grad=True)
        distributed.all_reduce("mul", x).sum().backward()

    refuses(NotImplementedError, "sum", distributed.launch, product)
    """)


@IFRT
@pytest.mark.parametrize("replicas", [pytest.param(2, marks=pytest.mark.slow), pytest.param(4, marks=pytest.mark.slow), 8])
def test_training_with_averaged_gradients_is_that_of_one_device(eight: Eight, replicas: int) -> None:
    done = eight(f"print(json.dumps(replica_programs.training({replicas})))")
    losses, expected, compiles, donors = json.loads(done.stdout)
    assert losses == pytest.approx(expected, rel=1e-5)
    # Two programs with collectives for all replicas together, and what each replica runs alone before the first step.
    assert compiles <= 4 + 3 * replicas
    assert donors >= 12  # four parameters and their moments


def test_replicas_run_the_same_program_once_compiled(eight: Eight) -> None:
    eight("""
    def run(ordinal):
        x = torch.ones(4, device="xla") * ordinal
        xla_go.sync(wait=True)
        distributed.rendezvous("ready")
        before = metrics.counter_value("UncachedCompile") or 0
        distributed.rendezvous("read")
        for _ in range(5):
            x = distributed.all_reduce("mean", x) + 1
            xla_go.sync()
        return before, x.tolist()

    outcomes = distributed.launch(run)
    assert all(values == [3.5 + 5] * 4 for _, values in outcomes), outcomes
    after = metrics.counter_value("UncachedCompile")
    assert after - outcomes[0][0] <= 2, (after, outcomes)
    """)


def test_a_replica_that_raises_or_ends_or_differs_raises_on_all(eight: Eight) -> None:
    eight(
        """
    seen = []

    def watched(function):
        def run(ordinal):
            try:
                return function(ordinal)
            except Exception as error:
                seen.append((ordinal, type(error).__name__))
                raise
        seen.clear()
        return run

    def raises(ordinal):
        if ordinal == 1:
            raise ValueError("on replica 1")
        return distributed.all_reduce("sum", torch.ones(2, device="xla")).tolist()

    begun = time.monotonic()
    refuses(ValueError, "on replica 1", distributed.launch, watched(raises), (), 4)
    assert sorted(seen) == [(0, "AbortedError"), (1, "ValueError"), (2, "AbortedError"), (3, "AbortedError")], seen

    def ends(ordinal):
        if ordinal != 2:
            return distributed.all_reduce("sum", torch.ones(2, device="xla")).tolist()

    refuses(errors.AbortedError, "replica 2 takes part no more: it has returned", distributed.launch, watched(ends), (), 4)
    assert time.monotonic() - begun < 60  # nobody waits for the timeout

    def differs(ordinal):
        return distributed.all_reduce("max" if ordinal == 1 else "sum", torch.ones(2, device="xla")).tolist()

    refuses(errors.FailedPreconditionError, "replicas 0 and 1 brought different programs", distributed.launch, watched(differs), (), 3)
    assert len(seen) == 3

    assert distributed.launch(lambda i: distributed.all_reduce("sum", torch.ones(2, device="xla")).tolist()) == [[8.0, 8.0]] * 8
    for _ in range(100):  # the books of the last step are closed a moment after its values are there
        if xla_go.debug.live_counts()["buffers"] == 0:
            break
        time.sleep(0.05)
    assert xla_go.debug.live_counts()["buffers"] == 0, xla_go.debug.live_counts()
    """
    )


@IFRT
def test_a_replica_that_does_not_come_is_named_after_the_timeout(eight: Eight) -> None:
    eight(
        """
    late = threading.Event()

    def run(ordinal):
        if ordinal == 2:
            late.wait(60)
            return
        try:
            return distributed.all_reduce("sum", torch.ones(2, device="xla")).tolist()
        finally:
            if ordinal == 0:
                late.set()

    refuses(errors.DeadlineExceededError, "waited 2s for replicas 2", distributed.launch, run, (), 4)

    def meets(ordinal):
        if ordinal != 1:
            distributed.rendezvous("here", timeout=1)
        else:
            time.sleep(3)

    refuses(errors.DeadlineExceededError, "'here'", distributed.launch, meets, (), 3)
    """,
        XLA_GO_REPLICA_TIMEOUT="2",
    )


@IFRT
def test_bad_arguments_are_refused_before_anything_runs(eight: Eight) -> None:
    eight("""
    x = torch.ones(8, 2, device="xla")
    for kind, part, call in (
        (ValueError, "median", lambda: distributed.all_reduce("median", x)),
        (ValueError, "groups of one size", lambda: distributed.all_reduce("sum", x, groups=[[0, 1], [2]])),
        (ValueError, "shard_count", lambda: distributed.reduce_scatter("sum", x, 1.0, 0, 3)),
        (IndexError, "dimension", lambda: distributed.all_gather(x, 2)),
        (ValueError, "pairs", lambda: distributed.collective_permute(x, [[0, 9]])),
        (RuntimeError, "integers or bool", lambda: distributed.all_reduce("and", x)),
        (ValueError, "nprocs", lambda: distributed.launch(print, (), 9)),
        (errors.FailedPreconditionError, "outside of a replica", lambda: distributed.launch(lambda i: distributed.launch(print), (), 2)),
    ):
        refuses(kind, part, call)
    assert distributed.all_reduce("sum", x).tolist() == x.tolist()  # one replica
    assert distributed.all_gather(x).shape == (8, 2)

    def uneven(ordinal):
        return distributed.reduce_scatter("sum", torch.ones(7, device="xla"), 1.0, 0, 2)

    refuses(RuntimeError, "multiple", distributed.launch, uneven, (), 2)
    """)


@IFRT
def test_each_replica_has_its_device_seed_and_number(eight: Eight) -> None:
    eight("""
    def run(ordinal):
        torch.manual_seed(ordinal % 2)
        drawn = torch.rand(3, device="xla")
        assert drawn.device.index == ordinal == xla_go.device().index == runtime.global_ordinal() == torch.xla.current_device()
        assert runtime.world_size() == 4
        met = distributed.gather_objects("numbers", ordinal)
        return drawn.tolist(), met

    outcomes = distributed.launch(run, nprocs=4)
    drawn = [values for values, _ in outcomes]
    assert drawn[0] == drawn[2] != drawn[1] == drawn[3], drawn
    assert all(met == [0, 1, 2, 3] for _, met in outcomes)
    assert runtime.world_size() == 1 and runtime.global_ordinal() == 0
    """)


def test_torch_xlas_names_run_on_replicas(eight: Eight) -> None:
    eight("""
    xla_go.compat.install()
    import torch_xla, torch_xla.core.xla_model as xm, torch_xla.distributed.xla_multiprocessing as xmp

    lines = []

    def run(ordinal, factor):
        written = torch.zeros(2, 3, device=xm.xla_device())
        written[1, :] = torch.tensor([1.0, 2.0, 3.0], device="xla")
        reduced = xm.all_reduce(xm.REDUCE_SUM, written)
        torch_xla.sync()
        parts = xm.reduce_scatter(xm.REDUCE_SUM, torch.arange(8.0, device="xla"), 0.5, 0, xm.xrt_world_size())
        xm.mark_step()
        assert xm.mesh_reduce("sum", ordinal, sum) == sum(range(xm.xrt_world_size()))
        count, each = xm.xrt_world_size(), [torch.full((count_of,), ordinal + 1.0, device="xla") for count_of in (8, 16)]
        total = sum(range(1, count + 1))
        assert [t.tolist() for t in xm.all_gather_bucketized(each)] == [[i + 1.0 for i in range(count) for _ in range(n)] for n in (8, 16)]
        assert [t.tolist() for t in xm.reduce_scatter_bucketized(xm.REDUCE_SUM, each, 1.0, 0, count)] == [[total] * (n // count) for n in (8, 16)]
        xm.all_reduce_bucketized_gradients(each, 0.5, None, True, 10)
        assert [t.tolist() for t in each] == [[total * 0.5] * n for n in (8, 16)]
        for function in (xm.send, xm.recv):
            try:
                function(each[0], 1)
            except errors.UnimplementedError as error:
                assert "collective_permute" in str(error)
            else:
                raise AssertionError("expected an error")
        lines.append((ordinal, factor, reduced.tolist(), written.tolist(), parts.tolist()))

    for count in (2, 4, 8):
        lines.clear()
        xmp.spawn(run, (10,), nprocs=count)
        for ordinal, factor, reduced, written, parts in sorted(lines):
            assert factor == 10 and written == [[0, 0, 0], [1, 2, 3]], written
            assert reduced == [[0, 0, 0], [count, 2 * count, 3 * count]], reduced
            width = 8 // count
            assert parts == [count * 0.5 * i for i in range(ordinal * width, (ordinal + 1) * width)], parts
    torch_xla.launch(run, (1,))
    """)


def test_what_runs_after_a_sync_is_the_replicas_own(eight: Eight) -> None:
    eight("""
    from xla_go import _step
    ran = []

    def run(ordinal):
        _step.after_next_sync(lambda: ran.append((ordinal, runtime.global_ordinal())))
        distributed.rendezvous("noted")
        if ordinal:
            xla_go.sync()  # what replica 0 noted may read a value that waits for replica 0
        distributed.rendezvous("others")
        xla_go.sync()

    distributed.launch(run, nprocs=2)
    assert ran == [(1, 1), (0, 0)], ran
    """)


def test_the_same_program_runs_on_every_device(eight: Eight) -> None:
    eight("""
    for index in range(8):
        x = torch.full((4,), float(index), device=f"xla:{index}")
        for _ in range(2):
            x = x * 2 + 1
            xla_go.sync()
        assert x.tolist() == [4 * index + 3] * 4 and x.device.index == index
    """)
