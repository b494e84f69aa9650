"""Checkpoints of divided tensors: saved on eight devices, loaded on others, bit for bit."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from support import REFUSES, Child

START = REFUSES + """
    import json, os, sys, torch, warnings, xla_go
    import torch.distributed.checkpoint as dcp
    from xla_go import debug, metrics, runtime, spmd
    from xla_go.distributed.checkpoint import CheckpointManager, SPMDLoadPlanner, SPMDSavePlanner, prime_optimizer
    warnings.filterwarnings("error")
    for of_torch in ("torch.distributed is disabled", "TypedStorage is deprecated"):
        warnings.filterwarnings("ignore", of_torch)


    def sharding(tensor):
        return spmd.XLAShardedTensor(tensor.detach()).sharding_spec

    def bits(tensor):
        return tensor.detach().cpu().contiguous().flatten().view(torch.uint8)
"""

# Values with each bit pattern that a copy could change, and how they are divided when they are saved and when loaded.
VALUES = """
    generator = torch.Generator().manual_seed(7)
    def random(*sizes):
        return torch.randn(sizes, generator=generator)
    values = {
        "even": random(8, 6), "padded": random(7, 5), "thin": random(3, 2), "partial": random(16, 3), "replicated": random(4, 4),
        "half": random(9).bfloat16(), "double": random(5, 9).double(), "whole numbers": torch.arange(-5, 8), "flags": random(13) > 0,
        "complex": torch.complex(random(6, 2), random(6, 2)), "single": torch.tensor(3.5), "host": random(3), "plain": random(2, 3),
        "nans": torch.tensor([0x7FC00001, 0x7F800001 | 1 << 22, -1, 1, 0x7F800000, -(1 << 31), 5, 6], dtype=torch.int32).view(torch.float32),
        "nothing": torch.empty(0, 3),
    }
    views = {"transposed": ("even", lambda t: t[2:6].t()), "reshaped": ("partial", lambda t: t.view(-1)), "row": ("replicated", lambda t: t[1])}

    def on_devices(values, mesh, specs):
        state = {name: value.clone() if name == "host" else value.to("xla") for name, value in values.items()}
        for name, spec in specs.items():
            spmd.mark_sharding(state[name], mesh, spec)
        return state
"""

SAVE = (
    START
    + VALUES
    + """
    runtime.use_spmd()
    mesh = spmd.Mesh(range(8), (4, 2), ("data", "model"))
    specs = {
        "even": ("data", "model"), "padded": ("data", "model"), "thin": (("data", "model"), None), "partial": ("data", None),
        "replicated": (None, None), "half": (("model", "data"),), "double": (None, "data"), "whole numbers": ("data",),
        "flags": (("data", "model"),), "complex": ("model", None), "nans": ("data",),
    }
    state = on_devices(values, mesh, specs)
    for name, (base, view) in views.items():
        state[name] = view(state[base])
    state["wrapped"] = spmd.mark_sharding(values["even"].to("xla") * 2, mesh, ("data", None))
    state["nested"] = {"step": 3, "names": ["a", "b"]}
    dcp.save(state, checkpoint_id="saved", planner=SPMDSavePlanner())
    for name, value in values.items():
        assert torch.equal(bits(state[name]), bits(value)), name
    del state
    import gc; gc.collect()  # torch's own closures keep the planner in a cycle
    assert debug.live_counts()["buffers"] == 0, debug.live_counts()
    """
)

LOAD = """
    state = on_devices({name: torch.zeros_like(value) for name, value in values.items()}, mesh, specs)
    before = {name: sharding(tensor) for name, tensor in state.items() if tensor.device.type == "xla"}
    for name, (base, view) in views.items():
        state[name] = torch.zeros_like(view(values[base])).contiguous().to("xla")
    state["wrapped"] = torch.zeros(8, 6, device="xla") if mesh is None else spmd.mark_sharding(torch.zeros(8, 6).to("xla"), mesh, (None, 0))
    state["nested"] = {"step": 0, "names": []}
    dcp.load(state, checkpoint_id="saved", planner=SPMDLoadPlanner())
    for name, value in values.items():
        assert torch.equal(bits(state[name]), bits(value)), name
    for name, (base, view) in views.items():
        assert torch.equal(bits(state[name]), bits(view(values[base]))), name
    assert torch.equal(state["wrapped"].cpu(), values["even"] * 2) and state["nested"] == {"step": 3, "names": ["a", "b"]}
    assert before == {name: sharding(state[name]) for name in before}
    for name in specs:
        assert ("devices=" in before[name]) == (runtime.global_runtime_device_count() > 1), (name, before)
    # They can be computed with, and written.
    state["padded"].add_(1)
    assert torch.equal(state["padded"].cpu(), values["padded"] + 1) and torch.equal(state["half"].sum().cpu(), state["half"].cpu().sum())
    """

OTHER_MESH = """
    runtime.use_spmd()
    count = runtime.global_runtime_device_count()
    mesh = spmd.Mesh(list(reversed(range(count))), (2, count // 2) if count > 1 else (1, 1), ("x", "y"))
    specs = {"even": ("y", None), "padded": ("y", "x"), "partial": (None, "y"), "replicated": ("x", "y"), "half": ("x",), "double": (("y", "x"), None), "plain": ("x", None), "nans": (("x", "y"),), "flags": ("y",)}
"""


@pytest.mark.parametrize("ifrt", ["0", pytest.param("1", marks=pytest.mark.slow)], ids=["pjrt", "ifrt"])
def test_values_come_back_on_other_devices(child: Child, ifrt: str) -> None:
    child(SAVE, env={"CPU_NUM_DEVICES": "8", "XLA_USE_IFRT": ifrt})
    for count in (8, 4, 1):
        child(START + VALUES + OTHER_MESH + LOAD, env={"CPU_NUM_DEVICES": str(count), "XLA_USE_IFRT": ifrt})
    # One device that stands for itself, and none at all.
    child(START + VALUES + "\n    mesh, specs = None, {}\n" + LOAD, env={"CPU_NUM_DEVICES": "2", "XLA_USE_IFRT": ifrt})
    child(
        START
        + VALUES
        + """
    state = {name: torch.zeros_like(value) for name, value in values.items()}
    dcp.load(state, checkpoint_id="saved")
    for name, value in values.items():
        assert torch.equal(bits(state[name]), bits(value)), name
    """
    )


def test_no_whole_tensor_is_on_the_host_when_it_is_saved(child: Child) -> None:
    code = START + """
    runtime.use_spmd()
    mesh = spmd.Mesh(range(8), (4, 2), ("data", "model"))
    host = torch.arange(3 * 2**20, dtype=torch.float32).reshape(1024, 3072)
    state = {"divided": host.to("xla"), "partial": host.to("xla")}
    spmd.mark_sharding(state["divided"], mesh, ("data", "model"))
    spmd.mark_sharding(state["partial"], mesh, ("data", None))
    computed = state["divided"] * 2
    state["view"] = computed[:512]
    xla_go.sync()
    state["view"].add_(0)

    def moved(metric, action):
        before = metrics.metric_data(metric) or (0, 0, [])
        action()
        count, total, samples = metrics.metric_data(metric)
        return [value for _, value in samples[len(before[2]):]], total - before[1]

    samples, total = moved("InboundData", lambda: dcp.save(state, checkpoint_id="saved", planner=SPMDSavePlanner()))
    size = host.numel() * 4
    assert max(samples) <= size // 4 and total == size + size + size // 2, (samples, total)
    assert samples.count(size // 8) >= 8 and samples.count(size // 4) >= 4

    # And to the devices each gets its shard alone.
    other = {"divided": torch.zeros_like(host).to("xla"), "partial": torch.zeros_like(host).to("xla")}
    spmd.mark_sharding(other["divided"], mesh, (("model", "data"), None))
    spmd.mark_sharding(other["partial"], mesh, (None, "model"))
    for tensor in other.values():
        spmd.XLAShardedTensor(tensor).local_shards  # the zeros are on their way since mark_sharding
    samples, total = moved("OutboundData", lambda: dcp.load(other, checkpoint_id="saved", planner=SPMDLoadPlanner()))
    assert sorted(set(samples)) == [size // 8, size // 2] and total == size + 4 * size, (samples, total)
    assert torch.equal(other["divided"].cpu(), host) and torch.equal(other["partial"].cpu(), host)
    """
    child(code, env={"CPU_NUM_DEVICES": "8"})


TRAINING = START + """
    from torch import nn
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(12, 20), nn.GELU(), nn.Linear(20, 7), nn.LayerNorm(7), nn.Linear(7, 1))
    batches = torch.randn(8, 16, 12)
    count = int(os.environ["CPU_NUM_DEVICES"])
    if count > 1:
        runtime.use_spmd()
        mesh = spmd.Mesh(range(count), (count // 2, 2), ("fsdp", "model"))
    model = model.to("xla")
    if count > 1:
        for parameter in model.parameters():
            spmd.mark_sharding(parameter.data, mesh, ("fsdp", "model")[: parameter.dim()])
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.1)

    def train(steps):
        losses = []
        for step in steps:
            optimizer.zero_grad()
            loss = (model(batches[step].to("xla")) ** 2).mean()
            loss.backward()
            optimizer.step()
            xla_go.sync()
            losses.append(loss.item())
        return losses

    def state():
        return {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": 4}

    def digest():
        import hashlib
        tensors = [*model.parameters(), *(value for kept in optimizer.state.values() for value in kept.values())]
        return [hashlib.sha256(bits(tensor).numpy().tobytes()).hexdigest() for tensor in tensors]
"""


@pytest.mark.slow
def test_training_goes_on_elsewhere(child: Child) -> None:
    code = TRAINING + """
    train(range(4))
    with_manager = CheckpointManager("runs", save_interval=4, chkpt_on_preemption=False)
    assert with_manager.save_async(4, state())
    saved = digest()
    after = train(range(4, 8))
    with_manager.join()
    print(json.dumps([saved, after]))
    """
    saved, after = json.loads(child(code, env={"CPU_NUM_DEVICES": "8"}).stdout)
    for count in (8, 4, 1):
        code = TRAINING + """
    start = digest()
    rates = [group["lr"] for group in optimizer.param_groups]
    assert prime_optimizer(optimizer) is optimizer and prime_optimizer(optimizer).state
    assert digest()[: len(start)] == start and [group["lr"] for group in optimizer.param_groups] == rates
    assert all(parameter.grad is None for parameter in model.parameters())
    for parameter in model.parameters():
        assert sharding(optimizer.state[parameter]["exp_avg"]) == sharding(parameter)
    restored = state()
    CheckpointManager("runs", save_interval=4, chkpt_on_preemption=False).restore(4, restored)
    model.load_state_dict(restored["model"])
    optimizer.load_state_dict(restored["optimizer"])
    assert restored["step"] == 4
    print(json.dumps([digest(), train(range(4, 8))]))
    """
        restored, resumed = json.loads(child(code, env={"CPU_NUM_DEVICES": str(count)}).stdout)
        assert restored == saved
        assert resumed == pytest.approx(after, rel=1e-5), count


def test_what_does_not_fit_changes_nothing(child: Child) -> None:
    code = START + """
    import pathlib, pickle, shutil
    from torch.distributed.checkpoint.api import CheckpointException
    runtime.use_spmd()
    mesh = spmd.Mesh(range(8), (8,), ("x",))
    def state(**more):
        made = {"a": torch.ones(16, 2).to("xla"), "b": torch.ones(9).to("xla"), "c": torch.ones(4).to("xla"), **more}
        for name in ("a", "b"):
            spmd.mark_sharding(made[name], mesh, ("x",) + (None,) * (made[name].dim() - 1))
        return made
    old = state(a=torch.full((16, 2), 2.0).to("xla"), b=torch.full((9,), 2.0).to("xla"))
    dcp.save(old, checkpoint_id="saved", planner=SPMDSavePlanner())

    def unchanged(made):
        return all((tensor == 1).all().item() for tensor in made.values())

    for part, more in (("d", {"d": torch.ones(2).to("xla")}), ("Size mismatch", {"a": torch.ones(16, 3).to("xla")}), ("Size mismatch", {"c": torch.ones(5).to("xla")})):
        made = state(**more)
        refuses(CheckpointException, part, dcp.load, made, checkpoint_id="saved", planner=SPMDLoadPlanner())
        assert unchanged(made), part
    made = state(d=torch.ones(2).to("xla"))
    dcp.load(made, checkpoint_id="saved", planner=SPMDLoadPlanner(allow_partial_load=True))
    assert (made["a"] == 2).all().item() and (made["d"] == 1).all().item()

    # A checkpoint that lacks a shard, and one whose file has been cut off.
    shutil.copytree("saved", "holed")
    path = pathlib.Path("holed/.metadata")
    metadata = pickle.loads(path.read_bytes())
    del metadata.state_dict_metadata["b"].chunks[2]
    path.write_bytes(pickle.dumps(metadata))
    made = state()
    refuses(CheckpointException, "all 9 elements of b, got 7", dcp.load, made, checkpoint_id="holed", planner=SPMDLoadPlanner())
    assert unchanged(made)
    shutil.copytree("saved", "cut")
    (data,) = pathlib.Path("cut").glob("*.distcp")
    data.write_bytes(data.read_bytes()[: data.stat().st_size // 2])
    made, planner = state(), SPMDLoadPlanner()
    try:
        dcp.load(made, checkpoint_id="cut", planner=planner)
    except CheckpointException:
        pass
    else:
        raise AssertionError("expected an error")
    for name, tensor in made.items():
        there = tensor.cpu()
        assert torch.equal(there, torch.ones_like(there)) or torch.equal(there, old[name].cpu()), (name, there)
    refuses(ValueError, "enable_plan_caching", SPMDSavePlanner, enable_plan_caching=True)
    del made, planner, tensor, old, more
    import gc; gc.collect()
    assert debug.live_counts()["buffers"] == 0, debug.live_counts()
    """
    child(code, env={"CPU_NUM_DEVICES": "8"})


def test_manager(child: Child) -> None:
    code = START + """
    import pathlib
    from torch.distributed.checkpoint.api import CheckpointException
    runtime.use_spmd()
    mesh = spmd.Mesh(range(8), (8,), ("x",))
    weights = torch.zeros(16, 4).to("xla")
    spmd.mark_sharding(weights, mesh, ("x", None))
    manager = CheckpointManager("runs", save_interval=10, max_to_keep=2, max_pending_async=2, chkpt_on_preemption=False)
    assert manager.all_steps() == [] and not manager.reached_preemption(0)
    assert not manager.save(5, {"w": weights}) and manager.save(5, {"w": weights}, force=True) and manager.all_steps() == [5]
    for step in range(10, 60):
        weights.add_(1)
        assert manager.save_async(step, {"w": weights, "step": step}) == (step % 10 == 0)
        xla_go.sync()
    manager.join()
    assert manager.all_steps() == [40, 50], manager.all_steps()
    assert sorted(p.name for p in pathlib.Path("runs").iterdir()) == ["40", "50"]
    for step in (40, 50):
        state = {"w": weights, "step": 0}
        manager.restore(step, state)
        assert (weights == step - 9).all().item() and state["step"] == step
    # The same step again replaces it.
    weights.fill_(7)
    manager.save(50, {"w": weights})
    weights.zero_()
    manager.restore(50, {"w": weights})
    assert (weights == 7).all().item() and manager.all_steps() == [40, 50]
    refuses(ValueError, "[40, 50]", manager.restore, 41, {"w": weights})

    # What was not finished is no checkpoint, and a save that fails says so later and keeps the old ones.
    pathlib.Path("runs/60").mkdir()
    assert manager.all_steps() == [40, 50]
    pathlib.Path("runs/.60.unfinished").write_text("in the way")
    assert manager.save_async(60, {"w": weights})
    refuses(CheckpointException, "unfinished", manager.join)
    manager.join()
    assert manager.all_steps() == [40, 50]
    pathlib.Path("runs/.60.unfinished").unlink()
    assert manager.save(60, {"w": weights}) and manager.all_steps() == [50, 60]
    manager.close()
    manager.close()
    for name, value in (("save_interval", 0), ("max_to_keep", -1), ("max_pending_async", 0)):
        refuses(ValueError, name, CheckpointManager, **{"path": "runs", "save_interval": 1, name: value})
    refuses(ValueError, "local directory", CheckpointManager, "s3://bucket/runs", 1)
    """
    child(code, env={"CPU_NUM_DEVICES": "8"})


def test_names_of_torch_xla(child: Child) -> None:
    child("""
    import sys, xla_go; xla_go.compat.install()
    assert "torch.distributed.checkpoint" not in sys.modules, "it takes most of a second to import"
    from torch_xla.experimental.distributed_checkpoint import CheckpointManager, SPMDLoadPlanner, SPMDSavePlanner, prime_optimizer
    from xla_go.distributed import checkpoint
    assert SPMDSavePlanner is checkpoint.SPMDSavePlanner and set(dir(checkpoint)) == set(checkpoint.__all__)
    try:
        checkpoint.SavePlanner
    except AttributeError as error:
        assert "SPMDSavePlanner" in str(error)
    else:
        raise AssertionError("expected an error")
    """)


def test_a_process_that_is_to_end_saves_first(child: Child) -> None:
    done = child(
        START
        + """
    import signal
    seen = []
    signal.signal(signal.SIGTERM, lambda *_: seen.append("before"))
    manager = CheckpointManager("runs", save_interval=1000)
    weights = torch.ones(4, device="xla")
    for step in range(1, 9):
        weights.add_(1)
        if step == 5:
            os.kill(os.getpid(), signal.SIGTERM)
        if manager.save(step, {"w": weights}):
            assert manager.reached_preemption(step)
            break
    assert step == 5 and manager.all_steps() == [5] and seen == []
    manager.close()
    os.kill(os.getpid(), signal.SIGTERM)
    assert seen == ["before"]
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    other = CheckpointManager("runs", save_interval=1000)
    os.kill(os.getpid(), signal.SIGTERM)
    print("still here", flush=True)
    os.kill(os.getpid(), signal.SIGTERM)
    print("not reached")
    """,
        check=False,
    )
    assert done.returncode == -signal.SIGTERM and done.stdout == "still here\n", done


def run_ranks(code: str, count: int, directory: Path, **variables: str) -> list[str]:
    """What each of `count` processes printed."""
    from test_coordinator import environment

    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(code)], cwd=directory, stdout=subprocess.PIPE, text=True,
            env=environment(RANK=str(rank), WORLD_SIZE=str(count), **variables),
        )
        for rank in range(count)
    ]
    try:
        printed = [rank.communicate(timeout=100)[0].strip() for rank in ranks]
    finally:
        for rank in ranks:
            if rank.poll() is None:
                rank.kill()
            rank.wait()
    assert all(rank.returncode == 0 for rank in ranks), printed
    return printed


def test_all_processes_of_a_job_save_the_same_step(tmp_path: Path) -> None:
    from test_coordinator import free_port

    code = """
        import os, signal
        from xla_go import coordinator
        from xla_go.distributed.checkpoint import CheckpointManager
        coordinator.initialize()
        rank = coordinator.rank()
        manager = CheckpointManager(f"runs{rank}", save_interval=1000)
        for step in range(1, 30):
            if step == 7 and rank == 1:
                os.kill(os.getpid(), signal.SIGTERM)
            if manager.reached_preemption(step):
                break
            coordinator.barrier("step", timeout=60)
        print(step, flush=True)
        coordinator.barrier("end", timeout=60)
        """
    variables = {"XLA_COORDINATOR_PORT": free_port(), "XLA_GO_COORDINATOR_TOKEN": "token-of-this-test"}
    assert run_ranks(code, 3, tmp_path, **variables) == ["9"] * 3


def test_processes_save_together(tmp_path: Path) -> None:
    from test_coordinator import free_port

    code = """
        import torch, xla_go
        import torch.distributed as dist
        from xla_go.distributed.checkpoint import CheckpointManager
        dist.init_process_group("gloo")
        rank = dist.get_rank()
        manager = CheckpointManager("runs", save_interval=2, max_to_keep=2, chkpt_on_preemption=False)
        weights, own = torch.zeros(64, device="xla"), torch.full((3,), float(rank), device="xla")
        for step in range(1, 9):
            weights.add_(1)
            manager.save_async(step, {"weights": weights, f"own {rank}": own, "step": step})
            total = torch.ones(1)
            dist.all_reduce(total)  # of the training, beside those of the checkpoint
            assert total.item() == 2
        manager.join()
        assert manager.all_steps() == [6, 8], manager.all_steps()
        state = {"weights": torch.zeros(64, device="xla"), f"own {rank}": torch.zeros(3, device="xla"), "step": 0}
        manager.restore(6, state)
        print(state["weights"].unique().tolist(), state[f"own {rank}"].tolist(), state["step"])
        manager.close()
        dist.barrier()
        """
    printed = run_ranks(code, 2, tmp_path, MASTER_PORT=free_port())
    printed = [text.splitlines()[-1] for text in printed]  # gloo of older torch prints there, too
    assert printed == [f"[6.0] [{float(rank)}, {float(rank)}, {float(rank)}] 6" for rank in range(2)]
