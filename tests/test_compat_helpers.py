"""torch_xla's helpers for scripts, by its names. Each test runs in a process of its own: the names are the process's."""

from __future__ import annotations

from support import Child

INSTALL = """
    import xla_go; xla_go.compat.install()
    import torch, torch_xla, torch_xla.runtime as xr, torch_xla.core.xla_model as xm
"""


def test_modules_are_found_when_they_are_imported(child: Child) -> None:
    child(
        INSTALL
        + """
    import importlib, sys
    from xla_go import compat
    assert "torch_xla.debug.profiler" not in sys.modules
    for name in compat._ON_IMPORT:
        module = importlib.import_module(name)
        assert module.__name__.startswith("xla_go."), module
        parent, _, child = name.rpartition(".")
        assert getattr(sys.modules[parent], child) is module is sys.modules[name]
    """
    )


def test_utils(child: Child) -> None:
    child(
        INSTALL
        + """
    import os, pytest, torch_xla.utils.utils as xu
    os.environ.update(FLAG="true", OFF="0", NUMBER="7")
    assert xu.getenv_as("FLAG", bool) and not xu.getenv_as("OFF", bool) and xu.getenv_as("NUMBER", int) == 7
    assert xu.getenv_as("NOT_THERE", int, 3) == 3 and xu.check_env_flag("FLAG") and not xu.check_env_flag("NOT_THERE")

    samples = xu.SampleGenerator("x", 3)
    assert len(samples) == 3 and list(samples) == list(samples) == ["x"] * 3
    pairs = list(xu.FnDataGenerator(lambda x: x + 1, 2, torch.zeros, dims=[3], count=2))
    assert len(pairs) == 2 and pairs[0][1].tolist() == [[1.] * 3] * 2

    class Box:
        def __init__(self, value): self.value = value
    shared = [1, 2]
    data = {"a": (1, shared), "b": [Box(3), shared], 4: {5}}
    found = []
    xu.for_each_instance(data, lambda x: isinstance(x, int), found.append)
    assert sorted(found) == [1, 2, 3, 4, 5]
    changed = xu.for_each_instance_rewrite(data, lambda x: isinstance(x, int), lambda x: x * 10)
    assert changed["a"] == (10, [10, 20]) and changed["b"][0].value == 30 and changed[40] == {50}
    assert changed["a"][1] is changed["b"][1] and shared == [1, 2]

    assert xu.shape([[1, 2, 3], [4, 5, 6]]) == [2, 3] and xu.flatten_nested_tuple((1, [2, (3,)])) == (1, 2, 3)
    with pytest.raises(ValueError):
        xu.shape([[1], [2, 3]])
    folder = xu.TmpFolder()
    name = folder.name
    assert os.path.isdir(name)
    del folder
    assert not os.path.exists(name)
    lines = []
    assert xu.timed(lambda: 5, msg="took ", printfn=lines.append) == 5 and lines[0].startswith("took ") and lines[0].endswith("ms")
    assert len(set(xu.get_free_tcp_ports(3))) == 3 and xu.parallel_work(2, pow, [2, 3], [3, 2]) == [8, 9]
    """
    )


def test_serialization_goes_tensor_by_tensor(child: Child) -> None:
    child(
        INSTALL
        + """
    import os, torch_xla.utils.serialization as xser
    data = {"weights": [torch.arange(3., device="xla"), torch.ones(2)], "step": 4}
    xser.save(data, "state.pt")
    assert os.listdir("state.pt.tensors") == ["tensor_0.pt"]
    loaded = xser.load("state.pt")
    assert loaded["weights"][0].tolist() == [0., 1., 2.] and loaded["weights"][0].device.type == "cpu" and loaded["step"] == 4
    """
    )


def test_autocast_and_scaler(child: Child) -> None:
    child(
        INSTALL
        + """
    from torch_xla.amp import autocast, GradScaler
    x = torch.ones(2, 2, device="xla", requires_grad=True)
    with autocast(torch_xla.device()):
        y = x @ x
    assert y.dtype == torch.bfloat16
    with autocast(torch_xla.device(), enabled=False):
        assert (x @ x).dtype == torch.float32
    optimizer = torch.optim.SGD([x], lr=1.)
    scaler = GradScaler(init_scale=4.)
    loss = scaler.scale(x.sum())
    loss.backward()
    assert x.grad.cpu().tolist() == [[4., 4.], [4., 4.]]
    scaler.step(optimizer)
    scaler.update()
    assert x.detach().cpu().tolist() == [[0., 0.], [0., 0.]]
    (scaler.scale(x.sum()) * float("inf")).backward()
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == 2. and x.detach().cpu().tolist() == [[0., 0.], [0., 0.]]
    """
    )


def test_profiler(child: Child) -> None:
    child(
        INSTALL
        + """
    import glob, json, os, pytest, threading, torch_xla.debug.profiler as xp
    x = torch.ones(3, device="xla")
    server = xp.start_server(0)
    recording = threading.Thread(target=xp.trace, args=("localhost:0", "logs"), kwargs={"duration_ms": 500})
    xp.start_trace("mine")
    with pytest.raises(RuntimeError):
        xp.start_trace("other")
    with xp.StepTrace("train", step_num=1):
        with xp.Trace("forward"):
            y = x + 1
    xp.stop_trace()
    with pytest.raises(RuntimeError):
        xp.stop_trace()
    (file,) = glob.glob("mine/plugins/profile/*/*.trace.json")
    names = {event["name"] for event in json.load(open(file))["traceEvents"]}
    assert "ExecuteTime" in names, names
    (file,) = glob.glob("mine/plugins/profile/*/*.xplane.pb")
    assert b"PjRtComputationClient::ExecuteComputation" in open(file, "rb").read()
    xp.start_server(server._socket.getsockname()[1]).close()   # another one on the same port
    recording.start()
    while not xp._requests.locked():
        assert recording.is_alive()
    server.close()   # waits for what records
    assert glob.glob("logs/plugins/profile/*/*.trace.json")
    recording.join()

    @xp.trace_me("named")
    def double(x):
        return x * 2
    assert double(3) == 6
    """
    )


def test_tpu_topology(child: Child) -> None:
    child(
        INSTALL
        + """
    import os
    from unittest import mock
    from torch_xla._internal import tpu
    machine = {
        "TPU_SKIP_MDS_QUERY": "1", "TPU_ACCELERATOR_TYPE": "v4-16", "TPU_HOST_BOUNDS": "1,1,2",
        "TPU_CHIPS_PER_HOST_BOUNDS": "2,2,1", "TPU_WORKER_ID": "1", "TPU_WORKER_HOSTNAMES": "a,b",
    }
    with mock.patch.dict(os.environ, machine, clear=True):
        assert tpu.version() == 4 and tpu.get_tpu_type() == "v4" and tpu.worker_id() == 1 and tpu.num_tpu_workers() == 2
        tpu.configure_topology(local_rank=3, local_world_size=4)
        assert os.environ["TPU_PROCESS_BOUNDS"] == "2,2,2" and os.environ["CLOUD_TPU_TASK_ID"] == "7"
        assert os.environ["TPU_PROCESS_ADDRESSES"].startswith("a:8476,a:8477,") and os.environ["TPU_PROCESS_PORT"] == "8479"
        assert tpu.process_bounds_size() == 8
    """
    )


def test_ready_callbacks_and_old_names(child: Child) -> None:
    child(
        INSTALL
        + """
    import threading
    from torch_xla.experimental import callback, deprecation, eager_mode_context, is_eager_mode
    x = torch.ones(3, device="xla") + 1
    assert callback.on_ready_event(x).wait(60)
    seen, done = [], threading.Event()
    callback.on_ready_callback(x, lambda tensor: (seen.append(tensor), done.set()))
    assert done.wait(60) and seen[0] is x
    with eager_mode_context(True):
        assert is_eager_mode()
    assert not is_eager_mode()

    def new(value):
        return value + 1
    @deprecation.mark_deprecated(new)
    def old(value):
        raise AssertionError("the old one runs")
    assert old(1) == 2
    """
    )


def test_layers_between_replicas(child: Child) -> None:
    child(
        INSTALL
        + """
    import torch_xla.core.functions as xf
    torch.manual_seed(0)
    batch, weight = torch.randn(8, 3, 5) + 100, torch.randn(3)
    wanted = torch.nn.BatchNorm1d(3)
    given = batch.clone().requires_grad_()
    (wanted(given) * weight.view(1, 3, 1)).square().sum().backward()

    matrix, operand = torch.randn(4, 6), torch.randn(6, 2 * 4)

    def run():
        part = slice(4 * xr.global_ordinal(), 4 * xr.global_ordinal() + 4)
        norm = xf.SyncBatchNorm(3).to(torch_xla.device())
        own = batch[part].to(torch_xla.device()).requires_grad_()
        (norm(own) * weight.to(own.device).view(1, 3, 1)).square().sum().backward()
        columns = slice(3 * xr.global_ordinal(), 3 * xr.global_ordinal() + 3)
        rows = slice(4 * xr.global_ordinal(), 4 * xr.global_ordinal() + 4)
        product = xf.distributed_mm(matrix[:, columns].to(own.device), operand[:, rows].to(own.device), split=2)
        return own.grad.cpu(), norm.running_mean.cpu(), norm.running_var.cpu(), norm.weight.grad.cpu(), product.cpu()

    results = xla_go.distributed.launch(lambda ordinal: run())
    assert len(results) == 2
    close = torch.testing.assert_close
    close(torch.cat([results[0][0], results[1][0]]), given.grad, rtol=1e-3, atol=2e-4)
    close(results[0][1], wanted.running_mean)
    close(results[1][2], wanted.running_var)
    close(results[0][3] + results[1][3], wanted.weight.grad, rtol=1e-4, atol=1e-3)
    close(torch.cat([results[0][4], results[1][4]], 1), matrix @ operand, rtol=1e-4, atol=1e-4)
    """,
        env={"CPU_NUM_DEVICES": "2"},
    )
