"""xla_go.spmd: tensors divided over eight virtual CPU devices, each case in a process of its own."""

from __future__ import annotations

import json

import pytest

from support import REFUSES, Child, Eight

START = REFUSES + """
    import json, torch, xla_go
    from xla_go import errors, metrics, runtime, spmd
    runtime.use_spmd()
    mesh = spmd.Mesh(range(8), (4, 2), ("data", "model"))

"""


@pytest.fixture(params=["0", "1"], ids=["pjrt", "ifrt"])
def eight(child: Child, request: pytest.FixtureRequest) -> Eight:
    """Runs code after START in a process with eight devices, with either client."""
    return lambda code: child(START + code, env={"CPU_NUM_DEVICES": "8", "XLA_USE_IFRT": request.param})


def test_one_device_runs_the_same_code(child: Child) -> None:
    child("""
    import torch, xla_go
    from xla_go import runtime, spmd
    runtime.use_spmd()
    mesh = spmd.Mesh(range(1), (1, 1), ("data", "model"))
    host = torch.arange(12.0).reshape(4, 3)
    x = spmd.mark_sharding(host.to("xla"), mesh, ("data", "model"))
    assert [shard.data.tolist() for shard in x.local_shards] == [host.tolist()]
    y = host.to("xla")
    spmd.mark_sharding(y, mesh, ("data", None))
    for _ in range(3):
        y.mul_(2)
        xla_go.sync()
    assert y.tolist() == (host * 8).tolist() and (y @ y.T).sum().item() == ((host * 8) @ (host * 8).T).sum().item()
    """)


def test_steps_that_run_ahead_take_each_others_memory(eight: Eight) -> None:
    eight("""
    tensors = [torch.zeros(32).to("xla") for _ in range(8)]
    for tensor in tensors:
        spmd.mark_sharding(tensor, mesh, (("data", "model"),))
    for _ in range(300):
        for tensor in tensors:
            tensor.add_(1)
        xla_go.sync()
    assert all(tensor.tolist() == [300.0] * 32 for tensor in tensors)
    """)


def test_tensors_from_the_host_go_over_in_shards_and_come_back_without_a_program(eight: Eight) -> None:
    eight("""
    host = torch.arange(48.0).reshape(8, 6)
    for spec, text in (
        (("data", "model"), "{devices=[4,2]0,1,2,3,4,5,6,7}"),
        (("model", None), "{devices=[2,1,4]0,2,4,6,1,3,5,7 last_tile_dim_replicate}"),
        ((("data", "model"), None), "{devices=[8,1]0,1,2,3,4,5,6,7}"),
        ((("model", "data"), None), "{devices=[8,1]0,2,4,6,1,3,5,7}"),
        ((None, 0), "{devices=[1,4,2]0,1,2,3,4,5,6,7 last_tile_dim_replicate}"),
        ((None, -1), "{devices=[1,2,4]0,2,4,6,1,3,5,7 last_tile_dim_replicate}"),
        ((None, None), "{replicated}"),
    ):
        before = metrics.metric_data("OutboundData")
        t = host.to("xla")
        assert metrics.metric_data("OutboundData") == before, "transferred before it was annotated"
        marked = spmd.mark_sharding(t, mesh, spec)
        assert marked.sharding_spec == text and isinstance(marked, spmd.XLAShardedTensor), marked.sharding_spec
        assert torch.equal(t.cpu(), host)
        count, total, samples = metrics.metric_data("OutboundData")
        shards = marked.local_shards
        moved = total - (before[1] if before else 0)
        assert moved == sum(shard.data.numel() * 4 for shard in shards), (spec, moved)
        for shard in shards:
            assert torch.equal(host[shard.indices], shard.unpadded_data), spec
        assert torch.equal(marked.cpu(), host) and marked[2, 3].item() == 15
    assert metrics.metric_data("CompileTime") is None, "something was compiled"
    plain = host.to("xla")
    assert torch.equal(plain.cpu(), host) and spmd.XLAShardedTensor(plain).sharding_spec == ""
    """)


def test_padding_is_never_seen(eight: Eight) -> None:
    eight("""
    host = torch.arange(1.0, 36.0).reshape(7, 5)
    t = host.to("xla")
    marked = spmd.mark_sharding(t, mesh, ("data", "model"))
    shards = marked.local_shards
    assert all(tuple(shard.data.shape) == (2, 3) for shard in shards)
    assert tuple(shards[7].unpadded_data.shape) == (1, 2) and shards[7].shard_device == "CPU:7"
    assert shards[7].data.sum() == shards[7].unpadded_data.sum()
    assert torch.equal(t.sum().cpu(), host.sum()) and torch.equal(t.min().cpu(), host.min())
    torch.testing.assert_close((t * t).mean(0).cpu(), (host * host).mean(0))
    assert torch.equal((t + 1).cpu(), host + 1) and torch.equal(t.t().contiguous().cpu(), host.t())
    for size in (1, 3, 9):
        line = torch.arange(float(size))
        on = line.to("xla")
        divided = spmd.mark_sharding(on, mesh, (("data", "model"),))
        assert torch.equal(on.cpu(), line)
        torch.testing.assert_close(on.exp().sum().cpu(), line.exp().sum())
        assert sum(shard.unpadded_data.numel() for shard in divided.local_shards) == size
    """)


def test_values_are_those_of_one_device(eight: Eight) -> None:
    eight("""
    torch.manual_seed(0)
    a, b = torch.randn(16, 12), torch.randn(12, 8)
    for left, right in (
        (("data", None), (None, "model")), ((None, "model"), ("model", None)), (("data", "model"), ("model", "data")),
        ((("data", "model"), None), (None, None)), ((None, None), ("data", None)),
    ):
        x, y = a.to("xla"), b.to("xla")
        spmd.mark_sharding(x, mesh, left)
        spmd.mark_sharding(y, mesh, right)
        product, total = x @ y, x.sum(0)
        both = product.relu() + product.softmax(-1)
        xla_go.sync()
        torch.testing.assert_close(product.cpu(), a @ b, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(both.cpu(), (a @ b).relu() + (a @ b).softmax(-1), rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(total.cpu(), a.sum(0), rtol=1e-5, atol=1e-5)
    assert not metrics.counter_value("ExecuteComputation") and metrics.counter_value("ExecuteReplicated") > 0
    """)


def test_random_numbers_are_those_of_one_device(child: Child) -> None:
    code = """
    import torch, xla_go
    torch.manual_seed(5)
    x = torch.randn(16, 4, device="xla")
    if xla_go.runtime.is_spmd():
        spmd = xla_go.spmd
        spmd.mark_sharding(x, spmd.get_1d_mesh("x"), ("x", None))
    print(torch.nn.functional.dropout(x).cpu().flatten().tolist(), torch.randperm(9, device="xla").tolist())
    """
    one = child(code, env={"CPU_NUM_DEVICES": "1"}).stdout
    assert child(code, env={"CPU_NUM_DEVICES": "8", "XLA_USE_SPMD": "1"}).stdout == one


def test_annotations(eight: Eight) -> None:
    eight("""
    t = torch.arange(32.0).reshape(8, 4).to("xla")
    marked = spmd.mark_sharding(t, mesh, ("data", None))
    assert marked.sharding_type is spmd.ShardingType.PARTIAL and marked.mesh_shape == (4, 2)
    spmd.mark_sharding(t, mesh, ("data", None))  # the same again
    refuses(errors.FailedPreconditionError, "clear_sharding", spmd.mark_sharding, t, mesh, ("model", None))
    t.add_(1)
    xla_go.sync()
    assert marked.sharding_spec == spmd.XLAShardedTensor(t).sharding_spec == "{devices=[4,1,2]0,1,2,3,4,5,6,7 last_tile_dim_replicate}"
    assert len({tuple(shard.data.shape) for shard in marked.local_shards}) == 1 and marked.local_shards[1].replica_id == 1
    plain = spmd.clear_sharding(marked)
    assert plain is t and marked.sharding_spec == "" and marked.sharding_type is None and marked.partition_spec is None
    assert torch.equal(t.cpu(), torch.arange(32.0).reshape(8, 4) + 1)
    assert all(tuple(shard.data.shape) == (8, 4) and shard.indices is ... for shard in marked.local_shards)
    spmd.mark_sharding(t, mesh, (None, "model"))
    assert torch.equal(t.cpu(), torch.arange(32.0).reshape(8, 4) + 1)
    # The value only: what is written later lies as it comes.
    u = torch.ones(8, 4, device="xla") * 3
    v = spmd.annotate_custom_sharding(u, mesh, ("data", "model"))
    assert v.sharding_spec == "{devices=[4,2]0,1,2,3,4,5,6,7}" and v.sharding_type is spmd.ShardingType.TILED
    assert torch.equal(v.cpu(), torch.full((8, 4), 3.0)) and v.sharding_spec == "{devices=[4,2]0,1,2,3,4,5,6,7}"
    # With gradients.
    w = torch.ones(8, 4, device="xla", requires_grad=True)
    (spmd.mark_sharding_with_gradients(w, mesh, ("data", None)) * 2).sum().backward()
    xla_go.sync()
    assert torch.equal(w.grad.cpu(), torch.full((8, 4), 2.0))
    assert spmd.XLAShardedTensor(w.grad).sharding_spec == "{devices=[4,1,2]0,1,2,3,4,5,6,7 last_tile_dim_replicate}"
    # A part of a tensor.
    whole = torch.zeros(8, 4, device="xla")
    spmd.mark_sharding(whole[:, :2], mesh, ("data", None))
    assert torch.equal(whole.cpu(), torch.zeros(8, 4))
    # torch.empty, and nothing at all.
    spmd.mark_sharding(torch.empty(8, device="xla"), mesh, ("data",))
    assert spmd.mark_sharding(torch.empty(0, 4, device="xla"), mesh, ("data", None)).sharding_spec == ""

    refuses(ValueError, "2 entries", spmd.mark_sharding, t, mesh, ("data",))
    refuses(ValueError, "at most once", spmd.mark_sharding, t, mesh, ("data", "data"))
    refuses(ValueError, "axis", spmd.mark_sharding, t, mesh, ("rows", None))
    refuses(ValueError, "axis", spmd.mark_sharding, t, mesh, (2, None))
    refuses(ValueError, "on device xla", spmd.mark_sharding, torch.ones(2, 2), mesh, (None, None))
    refuses(ValueError, "8 device ids", spmd.Mesh, range(7), (8,))
    refuses(ValueError, "once", spmd.Mesh, [0] * 8, (8,))
    refuses(ValueError, "axis names", spmd.Mesh, range(8), (4, 2), ("a", "a"))
    """)


def test_sharded_tensors_are_tensors(eight: Eight) -> None:
    eight("""
    host = torch.arange(16.0).reshape(8, 2)
    t = spmd.mark_sharding(host.to("xla"), mesh, ("data", "model"))
    assert t.shape == (8, 2) and t.dtype == torch.float32 and t.device.type == "xla" and t.partition_spec == ("data", "model")
    twice = t * 2
    assert isinstance(twice, spmd.XLAShardedTensor) and torch.equal(twice.cpu(), host * 2) and type(t.cpu()) is torch.Tensor
    t += 1
    assert isinstance(t, spmd.XLAShardedTensor) and torch.equal(t.global_tensor.cpu(), host + 1)
    layer = torch.nn.Linear(2, 3).to("xla")
    loss = layer(t).sum()
    loss.backward()
    torch.testing.assert_close(layer.weight.grad.cpu(), (host + 1).sum(0).expand(3, 2))
    assert "sharding=" in repr(t)
    assert spmd.unwrap_sharded_tensor(t) is t.global_tensor and spmd.wrap_as_sharded_tensor(t) is t
    assert isinstance(spmd.wrap_if_sharded(t.global_tensor), spmd.XLAShardedTensor)
    assert type(spmd.wrap_if_sharded(torch.ones(1, device="xla"))) is torch.Tensor

    shards = t.local_shards
    for shard in shards:
        shard.unpadded_data = shard.unpadded_data * 10
    t.load_local_shards_(shards)
    assert torch.equal(t.cpu(), (host + 1) * 10) and t.sharding_spec == "{devices=[4,2]0,1,2,3,4,5,6,7}"
    t.add_(1)
    assert torch.equal(t.cpu(), (host + 1) * 10 + 1)
    refuses(ValueError, "CPU:0", t.load_local_shards_, shards[1:])
    shards[0].data = torch.ones(3, 1)
    refuses(ValueError, "(2, 1)", t.load_local_shards_, shards)
    """)


def test_meshes(eight: Eight) -> None:
    eight("""
    assert mesh.size() == 8 and dict(mesh.shape()) == {"data": 4, "model": 2} and mesh.get_axis_name_idx("model") == 1
    assert mesh.get_logical_mesh().tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]] and mesh == spmd.Mesh(range(8), (4, 2), ("data", "model"))
    line = spmd.get_1d_mesh("x")
    assert line.mesh_shape == (8,) and line.axis_names == ("x",) and line.device_ids == list(range(8))
    assert spmd.get_global_mesh() is None
    spmd.set_global_mesh(line)
    assert spmd.get_global_mesh() is line
    hybrid = spmd.HybridMesh(ici_mesh_shape=(4, 2), axis_names=("data", "model"))
    assert hybrid.mesh_shape == (4, 2) and hybrid.device_ids == list(range(8))
    refuses(ValueError, "slices", lambda: spmd.HybridMesh(ici_mesh_shape=(2, 2), dcn_mesh_shape=(2, 1)))
    # Three axes, in the order of another's devices.
    cube = spmd.Mesh([7, 6, 5, 4, 3, 2, 1, 0], (2, 2, 2), ("a", "b", "c"))
    t = spmd.mark_sharding(torch.arange(8.0).reshape(2, 4).to("xla"), cube, ("c", ("b", "a")))
    assert t.sharding_spec == "{devices=[2,4]7,3,5,1,6,2,4,0}", t.sharding_spec
    assert t.local_shards[3].unpadded_data.tolist() == [[1.0]] and torch.equal(t.cpu(), torch.arange(8.0).reshape(2, 4))
    spec = spmd.ShardingSpec(mesh, ("data", None))
    x = torch.ones(8, 3, device="xla")
    assert spec.can_apply(x) and not spec.can_apply(x[0])
    spec.apply(x)
    assert "[4,1,2]" in spmd.wrap_as_sharded_tensor(x).sharding_spec
    """)


def test_fully_sharded_data_parallel(child: Child, tmp_path_factory: pytest.TempPathFactory) -> None:
    directory = tmp_path_factory.mktemp("dump")
    code = START + """
    import copy, functools, pathlib
    from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy
    from xla_go.spmd import SpmdFullyShardedDataParallel as FSDP

    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.up, self.down, self.scale = torch.nn.Linear(8, 24), torch.nn.Linear(24, 8), torch.nn.Parameter(torch.tensor(1.0))
        def forward(self, x):
            return x + self.down(self.up(x).relu()) * self.scale

    torch.manual_seed(0)
    plain = torch.nn.Sequential(Layer(), Layer(), torch.nn.Linear(8, 1))
    x, y = torch.randn(16, 8), torch.randn(16, 1)
    grid = spmd.Mesh(range(8), (2, 4), ("data", "fsdp"))

    def train(model, x, y):
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        for _ in range(5):
            optimizer.zero_grad()
            ((model(x) - y) ** 2).mean().backward()
            optimizer.step()
            xla_go.sync()
        return ((model(x) - y) ** 2).mean().item()

    policy = functools.partial(transformer_auto_wrap_policy, transformer_layer_cls={Layer})
    wrapped = FSDP(copy.deepcopy(plain).to("xla"), mesh=grid, auto_wrap_policy=policy, extra_data_axis="data")
    assert isinstance(wrapped.module[0], FSDP) and isinstance(wrapped.module[0].module, Layer) and not isinstance(wrapped.module[2], FSDP)
    assert all(name.startswith("_orig_module.") for name in wrapped.state_dict())
    batch = spmd.mark_sharding(x.to("xla"), grid, (("data", "fsdp"), None)).global_tensor
    loss = train(wrapped, batch, y.to("xla"))
    assert abs(loss - train(plain, x, y)) < 1e-4 * loss
    rows = "{devices=[4,1,2]0,4,1,5,2,6,3,7 last_tile_dim_replicate}"
    up = wrapped.module[0].up.weight
    assert [spmd.XLAShardedTensor(t.detach()).sharding_spec for t in (up, up.grad)] == [rows, rows]
    assert spmd.XLAShardedTensor(wrapped.module[0].down.weight.detach()).sharding_spec.startswith("{devices=[1,4,2]")
    output = wrapped(batch)
    xla_go.sync()
    assert spmd.XLAShardedTensor(output.detach()).sharding_spec == "{devices=[8,1]0,1,2,3,4,5,6,7}"
    assert any("all-gather" in json.loads(p.read_text()) for p in pathlib.Path(DIRECTORY).glob("*.opcodes.json"))

    refuses(ValueError, "'fsdp'", lambda: FSDP(plain, mesh=mesh))
    refuses(ValueError, "set_global_mesh", lambda: FSDP(plain))
    refuses(ValueError, "wrapped", lambda: FSDP(wrapped, mesh=grid))
    class Named(torch.nn.Module):
        def forward(self, x):
            return {"out": x}
    refuses(TypeError, "shard_output", FSDP(Named(), mesh=grid), batch)
    seen = []
    assert FSDP(Named(), mesh=grid, shard_output=lambda out, m: seen.append(m))(batch)["out"] is batch and seen == [grid]
    """
    child(code.replace("DIRECTORY", repr(str(directory))), env={"CPU_NUM_DEVICES": "8", "XLA_GO_DUMP_DIRECTORY": str(directory)})


def test_pictures(eight: Eight) -> None:
    picture = eight("""
    t = spmd.mark_sharding(torch.ones(8, 8).to("xla"), mesh, ("model", None))
    print(spmd.visualize_tensor_sharding(t))
    print(spmd.visualize_sharding("{devices=[2,4]0,1,2,3,4,5,6,7}", min_width=5))
    refuses(ValueError, "sharding_spec", spmd.visualize_sharding, "rows")
    """).stdout
    assert picture.splitlines() == [
        "+---------------+",
        "| CPU [0,2,4,6] |",
        "+---------------+",
        "| CPU [1,3,5,7] |",
        "+---------------+",
        "+-------+-------+-------+-------+",
        "| CPU 0 | CPU 1 | CPU 2 | CPU 3 |",
        "+-------+-------+-------+-------+",
        "| CPU 4 | CPU 5 | CPU 6 | CPU 7 |",
        "+-------+-------+-------+-------+",
    ]


def test_one_device_stands_for_all(eight: Eight) -> None:
    eight("""
    assert runtime.is_spmd() and runtime.global_runtime_device_count() == runtime.addressable_runtime_device_count() == 8
    assert runtime.global_device_count() == runtime.addressable_device_count() == torch.xla.device_count() == 1
    refuses(RuntimeError, "xla:1", lambda: torch.ones(2).to("xla:1"))
    refuses(errors.UnimplementedError, "mark_sharding", runtime.use_spmd, True)
    runtime.use_spmd()
    runtime.wait_device_ops()
    xla_go.eager_mode(True)
    t = spmd.mark_sharding(torch.arange(8.0).to("xla"), mesh, ("data",))
    assert torch.equal((t * 2 + 1).cpu(), torch.arange(8.0) * 2 + 1)
    xla_go.eager_mode(False)
    assert torch.equal((t - 1).cpu(), torch.arange(8.0) - 1)
    """)


def test_switching_over_takes_tensors_along(child: Child) -> None:
    code = """
    import torch, xla_go
    from xla_go import errors, metrics, runtime, spmd
    assert not runtime.is_spmd()
    x = torch.arange(8.0, device="xla")
    y = x + 1
    xla_go.sync()
    pending = y * 2
    elsewhere = torch.ones(2, device="xla:1")
    try:
        spmd.mark_sharding(x, spmd.get_1d_mesh(), (0,))
    except errors.FailedPreconditionError as error:
        assert "use_spmd" in str(error)
    else:
        raise AssertionError("expected an error")
    elsewhere_value = elsewhere + 1
    xla_go.sync()
    try:
        runtime.use_spmd()
    except errors.FailedPreconditionError as error:
        assert "other devices" in str(error), error
    else:
        raise AssertionError("expected an error")
    del elsewhere, elsewhere_value
    runtime.use_spmd()
    assert runtime.is_spmd() and torch.xla.device_count() == 1
    spmd.mark_sharding(y, spmd.get_1d_mesh(), (0,))
    assert torch.equal((pending + x + y).cpu(), (torch.arange(8.0) + 1) * 3 + torch.arange(8.0))
    assert torch.equal(y.cpu(), torch.arange(8.0) + 1)
    assert spmd.wrap_as_sharded_tensor(y).sharding_spec == "{devices=[8]0,1,2,3,4,5,6,7}"
    """
    child(code, env={"CPU_NUM_DEVICES": "8"})


def test_a_wait_for_the_compiler_can_be_interrupted(child: Child) -> None:
    code = START + """
    import os, signal, threading, time
    y = spmd.mark_sharding(torch.ones(8).to("xla"), mesh, ("data",)).global_tensor
    for _ in range(2500):
        y = (y * 1.0001).sin()
    xla_go.sync()
    for wait in (xla_go.sync, (y + 1).cpu):  # both need to know how y lies
        z = y + 1
        begun = time.monotonic()
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            wait()
        except KeyboardInterrupt:
            interrupted = time.monotonic() - begun
        else:
            raise AssertionError(f"not interrupted in {time.monotonic() - begun:.1f} s")
    begun = time.monotonic()
    y.cpu()
    assert time.monotonic() - begun > 0.2, "the compile was over when the wait ended"
    """
    child(code, env={"CPU_NUM_DEVICES": "8"})


def test_a_second_process_compiles_nothing(child: Child, tmp_path_factory: pytest.TempPathFactory) -> None:
    directory = tmp_path_factory.mktemp("programs")
    code = START + """
    t = spmd.mark_sharding(torch.arange(8.0).to("xla"), mesh, ("data",))
    for _ in range(3):
        t = spmd.mark_sharding((t * 2 + 1).global_tensor, mesh, ("data",))
        xla_go.sync()
    assert t.cpu().tolist() == [8 * v + 7 for v in range(8)]
    print(json.dumps([metrics.counter_value(f"PersistentCache{name}") or 0 for name in ("Hit", "Miss")]))
    """
    env = {"CPU_NUM_DEVICES": "8", "XLA_GO_PERSISTENT_CACHE": "1", "XLA_PERSISTENT_CACHE_PATH": str(directory)}
    hits, misses = json.loads(child(code, env=env).stdout)
    assert hits == 0 and misses > 0
    assert json.loads(child(code, env=env).stdout) == [misses, 0]


def test_compiled_functions_are_replayed_where_their_arguments_lie_as_before(eight: Eight) -> None:
    eight("""
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4)).to("xla")
    spmd.mark_sharding(model[0].weight, mesh, ("model", None))
    def f(x):
        return model(x) * 2
    compiled = torch.compile(f, backend="xla_go")
    host = torch.randn(8, 16)
    with torch.no_grad():
        expected = f(host.to("xla")).cpu()
        def replayed(x):
            before = metrics.counter_value("ReplayedProgram") or 0
            torch.testing.assert_close(compiled(x).cpu(), expected)
            return (metrics.counter_value("ReplayedProgram") or 0) - before
        divided = host.to("xla")
        spmd.mark_sharding(divided, mesh, ("data", None))
        plain = host.to("xla")
        runs = [replayed(x) for x in (plain, plain, divided, divided, plain)] + [replayed((host - 1).to("xla") + 1)]
        assert runs == [0, 1, 0, 1, 1, 1], runs
    weight, moved = torch.zeros(8, 4).to("xla"), torch.ones(8, 4).to("xla")
    spmd.mark_sharding(weight, mesh, ("data", "model"))
    @torch.compile(backend="xla_go")
    def step(weight, moved):
        weight.add_(moved)
        return weight.sum()
    sums = [step(weight, moved).item() for _ in range(4)]
    assert sums == [32., 64., 96., 128.], sums
    assert spmd.wrap_if_sharded(weight).sharding_spec == "{devices=[4,2]0,1,2,3,4,5,6,7}"
    """)
