"""torch_xla's names for partitioned programs and for processes. Each test runs in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support import REFUSES, Child

INSTALL = REFUSES + """
    import os, pytest, xla_go; xla_go.compat.install()
    import torch, torch_xla, torch_xla.runtime as xr, torch_xla.core.xla_model as xm
    from torch_xla import _XLAC
"""

SPMD = INSTALL + """
    import torch_xla.distributed.spmd as xs, torch_xla.debug.metrics as met
    xr.use_spmd()
    mesh = xs.Mesh([0, 1, 2, 3], (2, 2), ("x", "y"))
"""


def test_partitioned_tensors_by_torch_xlas_names(child: Child) -> None:
    child(
        SPMD
        + """
    # Numbers of devices are an array, and errors of meshes both of what xla_go and what torch_xla raise.
    assert mesh.device_ids.tolist() == [0, 1, 2, 3] and mesh == xla_go.spmd.Mesh(range(4), (2, 2), ("x", "y"))
    assert xs.HybridMesh(ici_mesh_shape=(2, 2)).device_ids.sum() == 6 and xs.get_1d_mesh("x").device_ids.shape == (4,)
    for kind in (ValueError, AssertionError):
        refuses(kind, "each of the 4 devices", xs.Mesh, [0, 1, 2], (3,))
        refuses(kind, "different axis names", xs.Mesh, range(4), (2, 2), ("x", "x"))
    # A value on the host, on its way, and as it lies.
    host = torch.arange(16.0).reshape(4, 4)
    x = host.to("xla")
    assert "Tensor on host: with size [4, 4]" in _XLAC._get_xla_tensor_debug_info(x)
    assert met.counter_value("VirtualDeviceUsage") == 1 and "TransferToDeviceTime" not in met.metric_names()
    sharded = xs.mark_sharding(x, mesh, ("x", None))
    text = _XLAC._get_xla_tensor_debug_info(x)
    assert "Tensor on host: None" in text and "xla::device_data" in text and "NumShards: 4" in text, text
    assert met.metric_data("OutboundData")[1] == 4 * 2 * 4 * 4, met.metric_data("OutboundData")  # transfers that have begun are waited for
    # What a program makes lies somehow; what nobody has divided and nobody made does not.
    copy = host.to("xla") + 1
    assert _XLAC._get_xla_sharding_spec(copy) == ""
    torch_xla.sync()
    assert _XLAC._get_xla_sharding_spec(copy) == "{replicated}" and _XLAC._get_xla_sharding_type(copy) == xs.ShardingType.REPLICATED
    assert "devices=[2,1,2]" in _XLAC._get_xla_sharding_spec(x)
    xs.clear_sharding(x)
    torch_xla.sync()
    from torch.distributed.tensor import Partial, Shard
    refuses(IndexError, "below 2", sharded.redistribute, mesh, [Shard(2), Shard(0)])
    refuses(NotImplementedError, "Shard or Replicate", sharded.redistribute, mesh, [Partial(), Shard(0)])
    import copy as copies
    xs.mark_sharding(x, mesh, ("x", "y"))
    assert _XLAC._get_xla_sharding_spec(copies.deepcopy(x)) == _XLAC._get_xla_sharding_spec(x) != ""
    # The operator of torch.compile's graphs.
    y = host.to("xla")
    torch.ops.xla.dynamo_mark_sharding(y, mesh.device_ids.tolist(), list(mesh.mesh_shape), "('x', 'y')", "('y', None)")
    assert "devices=[2,1,2]" in _XLAC._get_xla_sharding_spec(y)
    # The variable is what tells programs.
    del os.environ["XLA_USE_SPMD"]
    assert not xr.is_spmd() and xla_go.runtime.is_spmd()
    """,
        env={"CPU_NUM_DEVICES": "4"},
    )


def test_a_tensor_is_made_of_shards(child: Child) -> None:
    child(
        SPMD
        + """
    from_shards = _XLAC._global_tensor_from_cpu_shards
    rows = mesh.get_op_sharding(("x", None))
    shards = [torch.full((2, 3), float(device // 2)) for device in range(4)]
    expected = torch.tensor([0.0, 0.0, 1.0, 1.0])[:, None].expand(4, 3)
    assert torch.equal(from_shards(shards, rows).cpu(), expected)
    short = from_shards(shards, rows, (3, 3))
    assert torch.equal(short.cpu(), expected[:3]) and torch.equal((short * 2).sum(0).cpu(), torch.full((3,), 2.0))
    assert torch.equal(from_shards([torch.arange(3)] * 4, mesh.get_op_sharding((None,))).cpu(), torch.arange(3))
    for shape in ((5, 3), (4, 4), (12,)):
        refuses(RuntimeError, "", from_shards, shards, rows, shape)
    refuses(RuntimeError, "expected 4 shards", from_shards, shards[:3], rows)
    refuses(RuntimeError, "expected shards of", from_shards, [*shards[:3], torch.ones(2, 2)], rows)
    """,
        env={"CPU_NUM_DEVICES": "4"},
    )


def test_pictures_of_shardings_are_tables_of_rich(child: Child) -> None:
    child(
        INSTALL
        + """
    rich = pytest.importorskip("rich")
    from torch_xla.distributed.spmd.debugging import visualize_sharding
    def text(sharding):
        console = rich.console.Console(width=60)
        with console.capture() as capture:
            console.print(visualize_sharding(sharding))
        return [line.strip("│ ") for line in capture.get().splitlines() if "CPU" in line]
    assert text("{devices=[2,1]1,0}") == ["CPU 1", "CPU 0"]
    assert text("{devices=[2,1,2]0,1,2,3 last_tile_dim_replicate}") == ["CPU [0, 1]", "CPU [2, 3]"]
    assert text("{replicated}") == ["CPU [0]"]
    refuses(ValueError, "sharding_spec", visualize_sharding, "rows")
    """
    )


PROGRAM = """
import os, sys
import torch_xla, torch_xla.runtime as xr
from torch_xla._internal import pjrt

def where(extra):
    return str(torch_xla.device()), xr.global_ordinal(), extra

if __name__ == "__main__":
    os.environ["CPU_NUM_DEVICES"] = "2"  # after the import, and for the new process
    print(pjrt.run_multiprocess(where, "e"))
    torch_xla.device(0)
    try:
        pjrt.run_multiprocess(where, "e")
    except RuntimeError as error:
        print("has not used the device" in str(error))
"""


@pytest.mark.slow
def test_a_function_runs_on_each_device_of_a_new_process(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    done = subprocess.run([sys.executable, "-m", "xla_go.compat", str(script)], capture_output=True, text=True, check=False)
    assert done.stdout == "{0: ('xla:0', 0, 'e'), 1: ('xla:1', 1, 'e')}\nTrue\n", done.stderr


def test_devices_seeds_and_files_of_graphs(child: Child) -> None:
    child(
        INSTALL
        + """
    assert torch_xla.xm is xm
    refuses(IndexError, "below 1", torch_xla.device, 10)
    refuses(TypeError, "bytes", xm.rendezvous, "tag", "text")
    with xm.fork_rng():
        before = xm.get_rng_state()
        xm.set_rng_state(before + 1)
        first = torch.rand(2, device="xla").tolist()
    assert xm.get_rng_state() == before and first
    os.environ.update(XLA_SAVE_TENSORS_FILE="graphs", XLA_SAVE_TENSORS_FMT="hlo")
    x = torch.ones(2, device="xla") + 1
    torch_xla.sync()
    lines = open("graphs.0").read().splitlines()
    assert lines[1].startswith("Graph Hash: ") and lines[3] == "## BEGIN_GRAPH" and lines[-2] == "## END_GRAPH", lines
    assert any("add(" in line for line in lines), lines
    refuses(xla_go.errors.InvalidArgumentError, "format", xla_go.debug.save_graphs, "graphs", "xml")
    import torch.distributed as dist, torch_xla.distributed.xla_backend
    assert "f32[2]{0} %" in _XLAC._get_xla_tensors_hlo([x * 3])
    import torch_xla.core.xla_builder as xb
    from torch_xla._XLAC.lowering import LoweringContext
    context = LoweringContext("Named")
    context.build([x * 3])
    computation = xb.computation_from_module_proto("named", context.hlo())
    assert "multiply(f32[2]" in xb.get_computation_hlo(computation)
    given = [xb.Op(one.to("xla")) for one in context.device_parameter_id_tensor_mapping().values()]
    assert computation(*given).op.tolist() == (x * 3).tolist()
    dist.init_process_group("xla", init_method="xla://")
    assert (dist.get_rank(), dist.get_world_size()) == (0, 1)
    y = torch.ones(2, device="xla")
    dist.all_reduce(y)
    assert y.tolist() == [1.0, 1.0]
    """,
        env={"CPU_NUM_DEVICES": "1", "PJRT_DEVICE": "CPU"},
    )
