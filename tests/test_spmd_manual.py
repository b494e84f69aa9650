"""Partitioned programs: parts that each device computes for itself, values that lie alike, and where every value lies."""

from __future__ import annotations

from pathlib import Path

import pytest

from support import REFUSES, Child, Eight

pytestmark = pytest.mark.once

START = REFUSES + """
    import torch, xla_go
    from xla_go import debug, distributed, errors, metrics, runtime, spmd
    runtime.use_spmd()
    mesh = spmd.Mesh(range(8), (4, 2), ("data", "model"))
    host = torch.arange(32.0).reshape(8, 4)

    def divided(value, *spec):
        tensor = value.to("xla")
        spmd.mark_sharding(tensor, mesh, spec)
        return tensor

"""


@pytest.fixture(params=["0", "1"], ids=["pjrt", "ifrt"])
def eight(child: Child, request: pytest.FixtureRequest) -> Eight:
    """Runs code after START in a process with eight devices, with either client."""
    return lambda code: child(START + code, env={"CPU_NUM_DEVICES": "8", "XLA_USE_IFRT": request.param})


def test_each_device_computes_with_its_own_shard(eight: Eight) -> None:
    eight("""
    x = divided(host, "data", None)
    mine = spmd.enable_manual_sharding(x, ("data", "model"), mesh=mesh)
    assert mine.shape == (2, 2)
    columns = [[0, 2, 4, 6], [1, 3, 5, 7]]
    total = distributed.all_reduce("sum", mine.global_tensor * 2 + 1, groups=columns)
    full = spmd.disable_manual_sharding(total, ("data", "model"), (8, 4), mesh=mesh)
    pieces = (host * 2 + 1).reshape(4, 2, 4)
    assert torch.equal(full.cpu(), pieces.sum(0).repeat(4, 1)), full
    # The same as a gather, a scatter, an exchange and a shift; each within the devices that have the same columns.
    def through(function, shape=(8, 4)):
        part = spmd.enable_manual_sharding(x, ("data", "model"), mesh=mesh).global_tensor
        return spmd.disable_manual_sharding(function(part), ("data", "model"), shape, mesh=mesh).cpu()
    assert torch.equal(through(lambda t: distributed.all_gather(t, 0, columns), (32, 4)), host.repeat(4, 1))
    scattered = through(lambda t: distributed.reduce_scatter("max", t.repeat(2, 1), 1.0, 0, 4, columns), (4, 4))
    assert torch.equal(scattered, host.reshape(4, 2, 4).amax(0).repeat(2, 1)), scattered
    shifted = through(lambda t: distributed.collective_permute(t, [(d, (d + 2) % 8) for d in range(8)]))
    assert torch.equal(shifted, host.roll(2, 0)), shifted
    exchanged = through(lambda t: distributed.all_to_all(t.repeat(2, 1), 0, 0, 4, columns), (16, 4))
    want = torch.stack([host.reshape(4, 2, 4)[:, i % 2] for i in range(4)])
    assert torch.equal(exchanged, want.reshape(16, 4)), exchanged
    """)


def test_a_manual_value_outlives_its_step_and_is_refused_to_the_host(eight: Eight) -> None:
    eight("""
    x = divided(host, "data", None)
    mine = spmd.enable_manual_sharding(x, ("data", None), mesh=mesh).global_tensor * 2
    xla_go.sync()
    assert spmd.wrap_as_sharded_tensor(mine).sharding_spec == "{manual}"
    assert spmd.wrap_as_sharded_tensor(mine).sharding_type is spmd.ShardingType.MANUAL
    refuses(errors.InvalidArgumentError, "value of its own", mine.cpu)
    full = spmd.disable_manual_sharding(mine + 1, ("data", None), host.shape, mesh=mesh)
    assert torch.equal(full.cpu(), host * 2 + 1)
    shards = spmd.wrap_as_sharded_tensor(mine).local_shards
    assert [tuple(s.data.shape) for s in shards] == [(2, 4)] * 8 and torch.equal(shards[2].data, host[2:4] * 2)
    """)


def test_a_manual_value_is_refused_to_a_checkpoint(eight: Eight) -> None:
    eight("""
    import pathlib, torch.distributed.checkpoint as dcp
    from xla_go.distributed import checkpoint
    x = divided(host, "data", None)
    mine = spmd.enable_manual_sharding(x, ("data", None), mesh=mesh).global_tensor * 2
    def save(state):
        dcp.save(state, storage_writer=dcp.FileSystemWriter("state"), planner=checkpoint.SPMDSavePlanner(), no_dist=True)
    for part in (mine, mine[:1]):  # a view of it as well
        refuses(BaseException, "disable_manual_sharding", save, {"x": x, "part": part})
    save({"x": x, "part": spmd.disable_manual_sharding(mine, ("data", None), host.shape, mesh=mesh), "mine": torch.ones(2, 4)})
    def load(state):
        dcp.load(state, storage_reader=dcp.FileSystemReader("state"), planner=checkpoint.SPMDLoadPlanner(), no_dist=True)
    refuses(BaseException, "disable_manual_sharding", load, {"mine": mine})
    read = {"part": torch.zeros(8, 4, device="xla")}
    load(read)
    assert torch.equal(read["part"].cpu(), host * 2)
    """)


def test_gradients_flow_through_manual_parts(eight: Eight) -> None:
    eight("""
    w = divided(host, "data", "model").requires_grad_()
    mine = spmd.enable_manual_sharding(w, ("data", "model"), mesh=mesh)
    loss = spmd.disable_manual_sharding(mine * mine, ("data", "model"), (8, 4), mesh=mesh) * 3
    loss.sum().backward()
    assert torch.equal(w.grad.cpu(), host * 6)
    a, b = (torch.ones(8, 4, device="xla", requires_grad=True) for _ in range(2))
    first, second = spmd.shard_as(a * 2, b * 3)
    (first * second).sum().backward()
    assert torch.equal(a.grad.cpu(), torch.full((8, 4), 6.0)) and torch.equal(b.grad.cpu(), torch.full((8, 4), 6.0))
    """)


def test_two_values_lie_alike(eight: Eight) -> None:
    eight("""
    x = divided(host, "data", None)
    first, second = spmd.shard_as(x * 1, torch.ones(8, 4, device="xla") * 3)
    third, fourth = spmd.shard_as(divided(host, None, "model") * 2, torch.ones(8, 4, device="xla") * 5)
    xla_go.sync()
    specs = [spmd.wrap_as_sharded_tensor(t).sharding_spec for t in (first, second, third, fourth)]
    assert specs[0] == specs[1] and "[4,1,2]" in specs[0] and specs[2] == specs[3] and "[1,2,4]" in specs[2], specs
    assert torch.equal(second.cpu(), torch.full((8, 4), 3.0)) and torch.equal(first.cpu(), host)
    before = metrics.counter_value("UncachedCompile")
    for factor in (4, 6):
        spmd.shard_as(x * 1, torch.ones(8, 4, device="xla") * factor)
        xla_go.sync()
    assert metrics.counter_value("UncachedCompile") == before
    """)


def test_what_does_not_fit_is_refused(eight: Eight) -> None:
    eight("""
    x = divided(host, "data", None)
    enter, leave = spmd.enable_manual_sharding, spmd.disable_manual_sharding
    refuses(ValueError, "mesh", enter, x, ("data", None))
    refuses(ValueError, "2 entries", enter, x, ("data",), mesh=mesh)
    refuses(ValueError, "on device xla", enter, host, ("data", None), mesh=mesh)
    refuses(ValueError, "multiple of 4 in dimension 0", enter, x[:6], ("data", None), mesh=mesh)
    refuses(ValueError, "a shard of [2 4]", leave, x, ("data", None), (8, 4), mesh=mesh)
    refuses(ValueError, "one shape", spmd.shard_as, x, x[:2])
    refuses(ValueError, "8 devices", distributed.all_reduce, "sum", x, groups=[[0, 1]])
    refuses(ValueError, "base64", torch.ops.xla_go.full_to_shard_shape, x, "?")
    spmd.set_global_mesh(mesh)
    assert enter(x, ("data", None)).shape == (2, 4)
    """)


def test_without_spmd_it_is_refused(child: Child) -> None:
    child("""
    import torch, xla_go
    from xla_go import errors, spmd
    x = torch.ones(8, device="xla")
    for call in (lambda: spmd.enable_manual_sharding(x, (0,), mesh=spmd.Mesh([0], (1,))), lambda: spmd.shard_as(x, x), lambda: spmd.program_shardings(x + 1)):
        try:
            call()
        except errors.FailedPreconditionError as error:
            assert "use_spmd" in str(error)
        else:
            raise AssertionError("expected FailedPreconditionError")
    """)


def test_every_value_of_a_program_tells_how_it_lies(eight: Eight) -> None:
    eight("""
    debug.record_stacks()
    x, up, down = divided(torch.randn(16, 8), "data", None), divided(torch.randn(8, 32), None, "model"), divided(torch.randn(32, 8), "model", None)
    y = torch.relu(x @ up) @ down
    compiles = metrics.counter_value("UncachedCompile")
    pending = spmd.program_shardings(y)
    rows, both = "{devices=[4,1,2]0,1,2,3,4,5,6,7 last_tile_dim_replicate}", "{devices=[4,2]0,1,2,3,4,5,6,7}"
    found = {(p.operator, p.shape): p.sharding for p in pending}
    assert found[("aten::mm", (16, 32))] == found[("aten::relu", (16, 32))] == both and found[("aten::mm", (16, 8))] == rows, str(pending)
    assert found[("parameter", (8, 32))].startswith("{devices=[1,2,4]")
    assert all(p.line for p in pending if p.operator != "parameter") and "aten::relu" in str(pending)
    assert metrics.counter_value("UncachedCompile") == compiles  # it is no step
    xla_go.sync()
    number = debug.compiles()[-1]["number"]
    again = spmd.program_shardings(compile=number)
    assert {(p.operator, p.shape): p.sharding for p in again} == found
    assert spmd.wrap_as_sharded_tensor(y).sharding_spec == rows
    assert spmd.program_shardings() == []
    refuses(errors.NotFoundError, "newest", spmd.program_shardings, compile=number + 1)
    refuses(ValueError, "on device xla", spmd.program_shardings, host)
    refuses(ValueError, "got both", spmd.program_shardings, y, compile=1)
    """)


def test_drawings(eight: Eight, tmp_path: Path) -> None:
    eight(f"""
    import matplotlib
    matplotlib.use("Agg")
    ax = spmd.draw_sharding(divided(host, "data", "model"))
    assert sorted(text.get_text() for text in ax.texts) == list("01234567") and "[8, 4]" in ax.get_title()
    ax.figure.savefig({str(tmp_path / "tiles.png")!r})
    same = spmd.draw_sharding("{{replicated}}", ax=ax)
    assert same is ax and ax.texts[-1].get_text() == "0, 1, 2, 3, 4, 5, 6, 7"
    refuses(ValueError, "sharding_spec", spmd.draw_sharding, "rows")
    """)
    assert (tmp_path / "tiles.png").stat().st_size > 1000


def test_shardy_divides_as_the_older_partitioner(child: Child) -> None:
    code = START + """
    twisted = spmd.Mesh([7, 6, 5, 4, 3, 2, 1, 0], (2, 2, 2), ("a", "b", "c"))
    rows, columns = divided(torch.randn(16, 8), "data", None), divided(torch.randn(8, 32), None, "model")
    y = torch.relu(rows @ columns)
    print(spmd.program_shardings(y))
    first, second = spmd.shard_as(rows * 2, torch.ones(16, 8, device="xla") * 3)
    xla_go.sync()
    print(spmd.wrap_as_sharded_tensor(y).sharding_spec, spmd.wrap_as_sharded_tensor(second).sharding_spec)
    # A mesh with an order of its own, in a program of its own: the tiles have its devices.
    del rows, columns, y, first, second
    t = torch.arange(32.0).reshape(8, 4).to("xla")
    spmd.mark_sharding(t, twisted, (("c", "a"), None))
    u = spmd.annotate_custom_sharding(t + 1, twisted, (None, "b"))
    assert torch.equal(u.cpu(), host + 1)
    print(u.sharding_spec)
    CHECK
    """
    ours = child(code.replace("CHECK", ""), env={"CPU_NUM_DEVICES": "8"})
    check = 'refuses(errors.UnimplementedError, "manual", lambda: spmd.enable_manual_sharding(t, (("c", "a"), None), mesh=twisted).cpu())'
    shardy = child(code.replace("CHECK", check), env={"CPU_NUM_DEVICES": "8", "CONVERT_SHLO_TO_SHARDY": "1"})
    assert shardy.stdout == ours.stdout and "devices=[4,2]" in ours.stdout
    # The older partitioner tells that it will go; what the text says of it is the plugin's.
    assert "GSPMD sharding propagation" not in shardy.stderr
