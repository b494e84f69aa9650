"""torch.distributed.tensor on a mesh of device xla: torch's own functions, through its xla branch."""

from __future__ import annotations

from pathlib import Path

import pytest

from support import REFUSES, Child, trained

PROGRAM = Path(__file__).with_name("dtensor_block.py")
EIGHT = {"CPU_NUM_DEVICES": "8"}

START = REFUSES + """
    import sys, torch, xla_go
    from torch import nn
    from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
    from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_module, distribute_tensor
    from torch.distributed.tensor.parallel import ColwiseParallel, PrepareModuleOutput, RowwiseParallel, parallelize_module
    from xla_go import errors, metrics, runtime, spmd


    def lies(tensor):
        return spmd.XLAShardedTensor(tensor.detach()).sharding_spec

    runtime.use_spmd()
    mesh = init_device_mesh("xla", (4, 2), mesh_dim_names=("data", "model"))
    ROWS_BY_DATA = "{devices=[4,1,2]0,1,2,3,4,5,6,7 last_tile_dim_replicate}"
    COLUMNS_BY_MODEL = "{devices=[1,2,4]0,2,4,6,1,3,5,7 last_tile_dim_replicate}"
    TILES = "{devices=[4,2]0,1,2,3,4,5,6,7}"
"""


@pytest.mark.parametrize(
    ("way", "kinds", "shardings"),
    [
        ("parallelize", {"all-reduce"}, ["{devices=[8,1]0,1,2,3,4,5,6,7}", *["{devices=[1,8]0,1,2,3,4,5,6,7}"] * 2]),
        # The norm's output is gathered before the layers, whose result is summed into parts: a reduce-scatter, which XLA:CPU
        # writes as an all-reduce of which each device takes its slice.
        pytest.param("sequence", {"all-gather", "all-reduce", "dynamic-slice"}, ["{devices=[8,1]0,1,2,3,4,5,6,7}", *["{devices=[1,8]0,1,2,3,4,5,6,7}"] * 2], marks=pytest.mark.slow),
        pytest.param("fully_shard", {"all-gather", "all-reduce", "dynamic-slice"}, ["{devices=[8,1]0,1,2,3,4,5,6,7}"] * 3, marks=pytest.mark.slow),
        pytest.param("replicate_and_shard", {"all-gather", "all-reduce"}, ["{devices=[2,1,4]0,2,4,6,1,3,5,7 last_tile_dim_replicate}"] * 3, marks=pytest.mark.slow),
        ("both", {"all-gather", "all-reduce"}, ["{devices=[8,1]0,2,4,6,1,3,5,7}", *["{devices=[4,2]0,1,2,3,4,5,6,7}"] * 2]),
    ],
)
def test_losses_are_those_of_one_device(way: str, kinds: set[str], shardings: list[str]) -> None:
    one, many = trained(PROGRAM, "one", 1), trained(PROGRAM, way, 8)
    assert len(one["losses"]) == 12 and one["losses"][-1] < 0.9 * one["losses"][0]
    assert many["losses"] == pytest.approx(one["losses"], rel=1e-4)
    assert many["late_compiles"] == 0
    assert many["shardings"] == shardings  # of two weights and a moment of the second
    opcodes = many["opcodes"]
    assert kinds <= set(opcodes), opcodes
    if way == "parallelize":  # after each layer, forward and backward; weights stay where they are
        assert opcodes["all-reduce"] >= 4 and "all-gather" not in opcodes, opcodes
    if "shard" in way:  # each of the six weights, in the forward pass at least
        assert opcodes["all-gather"] >= 6, opcodes


def test_tensors(child: Child) -> None:
    code = START + """
    assert "torch_xla" not in sys.modules and not xla_go.compat.installed()
    host = torch.randn(8, 4)
    on_device = host.to("xla")
    tensor = distribute_tensor(on_device, mesh, [Shard(0), Shard(1)])
    assert isinstance(tensor, spmd.XLAShardedTensor) and tensor.sharding_spec == lies(on_device) == TILES
    assert tensor.placements == (Shard(0), Shard(1)) and tensor.device_mesh is mesh and tensor.partition_spec == ("data", "model")
    assert torch.equal(tensor.full_tensor().cpu(), host) and type(tensor.to_local()) is torch.Tensor and tensor.local_shards[3].data.shape == (2, 2)
    again = distribute_tensor(tensor, mesh, [Shard(0), Shard(1)])
    assert again.sharding_spec == TILES
    refuses(ValueError, "clear_sharding", distribute_tensor, tensor, mesh, [Shard(1), Shard(0)])
    moved = tensor.redistribute(placements=[Replicate(), Shard(-1)])
    assert moved.sharding_spec == COLUMNS_BY_MODEL and torch.equal(moved.cpu(), host) and tensor.sharding_spec == TILES
    assert distribute_tensor(host, mesh).sharding_spec == "{replicated}"
    # Both dimensions of the mesh divide one of the tensor, the first outermost; sizes need not divide.
    odd = distribute_tensor(torch.arange(13.0), mesh, [Shard(0), Shard(0)])
    assert odd.sharding_spec == "{devices=[8]0,1,2,3,4,5,6,7}" and odd.cpu().tolist() == list(range(13)) and odd.partition_spec == (("data", "model"),)
    refuses(ValueError, "sharding_spec", lambda: (tensor * 2).placements)
    spec = tensor._spec
    assert spec is tensor._spec and spec.placements == tensor.placements and spec.mesh is mesh and spec.tensor_meta.shape == (8, 4)
    assert spmd.wrap_as_sharded_tensor(tensor.global_tensor, (8,), (None, 0))._spec.placements == (Shard(1),)
    # Tensors that mark_sharding has marked, along our own mesh.
    grid = spmd.Mesh(range(8), (4, 2), ("data", "model"))
    marked = spmd.mark_sharding(host.to("xla"), grid, ("model", None))
    assert marked.placements == (Replicate(), Shard(0)) and marked.redistribute(placements=[Shard(1), Replicate()]).partition_spec == (None, "data")
    assert marked.redistribute(mesh, [Replicate(), Replicate()]).sharding_spec == "" and marked.placements == (Replicate(), Shard(0))
    leaf = distribute_tensor(host.clone().requires_grad_(), mesh, [Shard(0), Replicate()])
    assert leaf.is_leaf and leaf.requires_grad and leaf.global_tensor.requires_grad
    (leaf * 3).sum().backward()
    assert torch.equal(leaf.grad.cpu(), torch.full((8, 4), 3.0))

    # Slices of the mesh add to each other.
    part = distribute_tensor(host, mesh["model"], [Shard(1)])
    assert part.sharding_spec == COLUMNS_BY_MODEL and distribute_tensor(part, mesh["data"], [Shard(0)]).sharding_spec == TILES
    assert mesh["data"].mesh.tolist() == [0, 2, 4, 6] and mesh["model"].mesh.tolist() == [0, 1] and mesh["data", "model"] is mesh
    swapped = mesh["model", "data"]
    assert swapped.mesh.tolist() == [[0, 2, 4, 6], [1, 3, 5, 7]] and swapped.mesh_dim_names == ("model", "data")
    assert distribute_tensor(host, swapped, [Shard(1), Shard(0)]).sharding_spec == TILES
    flat = mesh["data", "model"]._flatten("all")
    assert flat.size() == 8 and mesh["all"].mesh.tolist() == list(range(8)) and distribute_tensor(host, mesh["all"], [Shard(0)]).sharding_spec == "{devices=[8,1]0,1,2,3,4,5,6,7}"
    refuses(KeyError, "data, model", lambda: mesh["rows"])

    # torch's constructors.
    import torch.distributed.tensor as dt
    for made, value in ((dt.zeros(8, 4, device_mesh=mesh, placements=[Shard(0), Replicate()]), 0), (dt.full((8, 4), 2.5, device_mesh=mesh, placements=[Shard(0), Replicate()]), 2.5)):
        assert made.sharding_spec == ROWS_BY_DATA and torch.equal(made.cpu(), torch.full((8, 4), float(value)))
    assert dt.randn(8, 4, device_mesh=mesh, placements=[Replicate(), Shard(1)]).sharding_spec == COLUMNS_BY_MODEL

    refuses(ValueError, "no partial values", distribute_tensor, host, mesh, [Partial(), Replicate()])
    refuses(ValueError, "2 placements", distribute_tensor, host, mesh, [Shard(0)])
    refuses(ValueError, "dimension below 2", distribute_tensor, host, mesh, [Shard(2), Replicate()])
    refuses(ValueError, "once", distribute_tensor, host, DeviceMesh("xla", [0, 1, 2]), [Shard(0)])
    refuses(ValueError, "meta", distribute_tensor, torch.ones(4, device="meta"), mesh, [Shard(0), Replicate()])
    refuses(RuntimeError, "leaf", distribute_tensor, host.requires_grad_() * 2, mesh, [Shard(0), Replicate()])
    for ask in (lambda: mesh.get_group(0), lambda: mesh.get_local_rank("data"), mesh.get_coordinate):
        refuses(RuntimeError, "one process drives all", ask)
    """
    child(code, env=EIGHT)


def test_modules(child: Child) -> None:
    code = START + """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(8, 16), nn.Linear(16, 8)
            self.tied = self.first.weight
            self.register_buffer("scale", torch.ones(8))
        def forward(self, x):
            return self.second(self.first(x).relu()) * self.scale

    torch.manual_seed(0)
    plain, net = Net(), Net()
    net.load_state_dict(plain.state_dict())
    seen = []
    def partition(name, module, mesh):
        if isinstance(module, nn.Linear):
            for key, parameter in list(module.named_parameters()):
                module.register_parameter(key, nn.Parameter(distribute_tensor(parameter, mesh, [Shard(0), Replicate()])))
    def inputs(module, args, mesh):
        seen.append(type(module))
        return tuple(DTensor.from_local(x, mesh, [Shard(0), Replicate()]) for x in args)
    def outputs(module, result, mesh):
        assert isinstance(result, spmd.DistributedTensor) and result.placements is None
        return result.redistribute(placements=[Shard(0), Replicate()])
    assert distribute_module(net, mesh, partition, inputs, outputs) is net
    assert all(type(p) is nn.Parameter and p.device.type == "xla" for p in net.parameters()) and net.tied is net.first.weight
    assert lies(net.first.weight) == ROWS_BY_DATA and net.scale.device.type == "xla" and lies(net.scale) == ""
    x = torch.randn(16, 8)
    result = net(x.to("xla"))
    assert type(result) is torch.Tensor and seen == [Net]
    result.square().sum().backward()
    xla_go.sync()
    plain(x).square().sum().backward()
    for ours, theirs in zip(net.parameters(), plain.parameters()):
        assert type(ours.grad) is torch.Tensor
        torch.testing.assert_close(ours.grad.cpu(), theirs.grad, rtol=1e-4, atol=1e-4)
    assert lies(result) == ROWS_BY_DATA
    refuses(RuntimeError, "only be called once", distribute_module, net, mesh)
    refuses(ValueError, "1 arguments", distribute_module, nn.Linear(2, 2), mesh, None, lambda x: x)

    # Annotating parameters in their place is enough, and nothing need be said of the rest.
    other = distribute_module(nn.Sequential(nn.Linear(8, 4)).to("xla"), mesh, lambda name, module, mesh: [distribute_tensor(p, mesh, [Replicate(), Shard(0)]) for p in module.parameters(recurse=False)] and None)
    assert lies(other[0].weight) == "{devices=[2,1,4]0,2,4,6,1,3,5,7 last_tile_dim_replicate}"

    # What torch's styles call: a distributed tensor stays one through operations, and its gradient comes back.
    start = torch.randn(8, 4).to("xla").requires_grad_()
    placed = DTensor.from_local(start, mesh, [Shard(0), Replicate()])
    after = (placed * 2).redistribute(placements=[Replicate(), Shard(1)])
    assert isinstance(placed * 2, spmd.DistributedTensor) and after.placements == (Replicate(), Shard(1)) and (placed * 2).device_mesh is mesh
    local = after.to_local()
    assert type(local) is torch.Tensor
    local.sum().backward()
    xla_go.sync()
    assert lies(local) == COLUMNS_BY_MODEL and torch.equal(start.grad.cpu(), torch.full((8, 4), 2.0)) and lies(start.grad) == ROWS_BY_DATA
    # Of a slice of the mesh, placements of a value leave the other dimensions as they are.
    rows = distribute_tensor(torch.ones(8, 4), mesh, [Shard(0), Replicate()]).to_local()
    both = DTensor.from_local((rows * 2) @ torch.ones(4, 6, device="xla"), mesh["model"], [Shard(1)]).to_local()
    xla_go.sync()
    assert lies(both) == TILES and torch.equal(both.cpu(), torch.full((8, 6), 8.0))
    refuses(ValueError, "all of the tensor", DTensor.from_local, start, mesh, [Shard(0), Replicate()], shape=torch.Size((32, 4)), stride=(4, 1))

    embedding = nn.Sequential(nn.Embedding(16, 8), nn.Linear(8, 6))
    expected = embedding(torch.arange(16))
    line = init_device_mesh("xla", (8,))
    parallelize_module(embedding, line, {"0": RowwiseParallel(input_layouts=Replicate()), "1": ColwiseParallel(output_layouts=Replicate(), use_local_output=False)})
    parallelize_module(embedding, line, PrepareModuleOutput(output_layouts=Replicate(), desired_output_layouts=Shard(0)))
    torch.testing.assert_close(embedding(torch.arange(16).to("xla")).cpu(), expected, rtol=1e-5, atol=1e-5)
    assert lies(embedding[0].weight) == "{devices=[8,1]0,1,2,3,4,5,6,7}"
    """
    child(code, env=EIGHT)


def test_fully_shard(child: Child) -> None:
    code = START + """
    from torch.distributed.fsdp import MixedPrecisionPolicy, OffloadPolicy, fully_shard as of_torch
    from xla_go.spmd import fully_shard
    ROWS = "{devices=[8,1]0,1,2,3,4,5,6,7}"
    line = init_device_mesh("xla", (8,))
    net = nn.Sequential(nn.Linear(6, 5), nn.Linear(5, 3), nn.Linear(3, 8))
    for name, value in (("line", line), ("slice", mesh["data"]), ("two", mesh)):
        refuses(RuntimeError, "xla_go.spmd.fully_shard", of_torch, nn.Linear(2, 2), mesh=value)
    net[0].scalar = nn.Parameter(torch.tensor(1.0))
    assert fully_shard(net[0], mesh=line) is net[0]
    fully_shard(net, mesh=line, shard_placement_fn=lambda p: Shard(1) if p.shape == (8, 3) else None, mp_policy=MixedPrecisionPolicy(), offload_policy=OffloadPolicy())
    assert lies(net[0].weight) == ROWS and lies(net[0].scalar) == "" and lies(net[2].weight) == "{devices=[1,8]0,1,2,3,4,5,6,7}"
    net(torch.randn(16, 6).to("xla")).square().sum().backward()
    xla_go.sync()
    assert lies(net[2].weight.grad) == lies(net[2].weight) and lies(net[1].weight.grad) == ROWS
    refuses(ValueError, "not fully sharded yet", fully_shard, net, mesh=line)
    refuses(ValueError, "ModuleList", fully_shard, nn.ModuleList([nn.Linear(2, 2)]), mesh=line)
    refuses(ValueError, "one or two dimensions", fully_shard, nn.Linear(2, 2), mesh=init_device_mesh("xla", (2, 2, 2)))
    refuses(NotImplementedError, "autocast", fully_shard, nn.Linear(2, 2), mesh=line, mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16))

    # A Mesh of ours, by its axis, and by default all devices; several modules; parameters to leave alone.
    grid = spmd.Mesh(range(8), (4, 2), ("fsdp", "model"))
    layer = fully_shard(nn.Linear(8, 8), mesh=grid)
    assert lies(layer.weight) == ROWS_BY_DATA
    pair = [nn.Linear(8, 8).to("xla"), nn.Linear(8, 8).to("xla")]
    assert fully_shard(pair, ignored_params={pair[0].bias}) is pair and lies(pair[1].weight) == ROWS and lies(pair[0].bias) == "" and lies(pair[1].bias) != ""
    result = layer(torch.randn(16, 8).to("xla"))
    xla_go.sync()
    assert lies(result) == ROWS_BY_DATA
    """
    child(code, env=EIGHT)


def test_names_of_torch_xla(child: Child) -> None:
    child(
        "    import xla_go; xla_go.compat.install()\n"
        + START
        + """
    from torch_xla.distributed.spmd import XLAShardedTensor, auto_policy, xla_distribute_module, xla_distribute_tensor
    from torch_xla.distributed.spmd.api import convert_to_xla_mesh, convert_to_xla_partition_spec
    from torch_xla.distributed.spmd.xla_sharding import wrap_as_sharded_tensor
    assert convert_to_xla_mesh(mesh) == spmd.Mesh(range(8), (4, 2), ("data", "model"))
    assert convert_to_xla_partition_spec(torch.ones(4, 4), [Replicate(), Shard(0)]) == (1, None)
    assert convert_to_xla_partition_spec(torch.ones(4, 4), [Shard(1), Shard(1)]) == (None, (0, 1))
    model = distribute_module(nn.Linear(8, 8), mesh, lambda name, module, mesh: [distribute_tensor(p, mesh, [Shard(0), Replicate()]) for p in module.parameters()])
    assert lies(model.weight) == ROWS_BY_DATA and wrap_as_sharded_tensor(model.weight.detach(), (4, 2), ("data", None)).partition_spec == ("data", None)
    assert sys.modules["torch_xla"]._XLAC._get_xla_sharding_spec(model.weight) == ROWS_BY_DATA
    refuses(errors.UnimplementedError, "mark_sharding", distribute_module, nn.Linear(2, 2), mesh, auto_policy)
    """,
        env=EIGHT,
    )


def test_without_spmd(child: Child) -> None:
    child("""
    import torch, xla_go
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor
    mesh = init_device_mesh("xla", (2,))
    try:
        distribute_tensor(torch.ones(4), mesh, [Shard(0)])
    except xla_go.errors.FailedPreconditionError as error:
        assert "use_spmd" in str(error)
    else:
        raise AssertionError("expected an error")
    """, env={"CPU_NUM_DEVICES": "2"})
