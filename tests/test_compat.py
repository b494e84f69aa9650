"""torch_xla's module names over xla_go. Each test runs in a process of its own: the names are the process's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from support import Child

INSTALL = """
    import xla_go; xla_go.compat.install()
    import torch, torch_xla, torch_xla.runtime as xr, torch_xla.core.xla_model as xm, torch_xla.debug.metrics as met
"""


def test_modules_and_devices(child: Child) -> None:
    child(
        INSTALL
        + """
    from torch_xla.core import xla_model
    assert xla_model is xm is torch_xla.core.xla_model and xla_go.compat.installed()
    xla_go.compat.install()   # once more changes nothing
    assert torch_xla.device() == torch.device("xla:0") == xm.xla_device()
    assert torch_xla.devices() == [torch.device("xla:0"), torch.device("xla:1")] and torch_xla.device_count() == 2
    assert xm.get_xla_supported_devices() == ["xla:0", "xla:1"] and xm.get_xla_supported_devices("TPU") == []
    assert xr.device_type() == xm.xla_device_hw("xla:0") == "CPU"
    assert xr.global_runtime_device_count() == xr.addressable_runtime_device_count() == 2
    assert torch_xla.real_devices() == ["CPU:0", "CPU:1"]
    assert xr.world_size() == 1 and xr.global_ordinal() == 0 and xm.is_master_ordinal()
    """,
        env={"CPU_NUM_DEVICES": "2"},
    )


def test_training_loop(child: Child) -> None:
    child(
        INSTALL
        + """
    torch_xla.manual_seed(0)
    model = torch.nn.Linear(4, 1).to(xm.xla_device())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    seen = []
    for step in range(5):
        optimizer.zero_grad()
        loss = (model(torch.ones(2, 4, device="xla")) - 1).square().mean()
        loss.backward()
        xm.optimizer_step(optimizer, barrier=False)
        xm.add_step_closure(lambda loss: seen.append(loss.item()), args=(loss,))
        assert len(seen) == step
        xm.mark_step()
    assert len(seen) == 5 and seen[-1] < seen[0]
    assert met.counter_value("MarkStep") == 5
    assert met.metric_data("CompileTime")[0] <= 3
    xm.wait_device_ops()
    xm.save(model.state_dict(), "model.pt")
    assert torch.load("model.pt")["weight"].device.type == "cpu"
    """
    )


def test_collectives_over_one_replica(child: Child) -> None:
    child(
        INSTALL
        + """
    written = torch.zeros(2, 3, device="xla")
    written[1, :] = torch.tensor([1., 2., 3.], device="xla")
    reduced = xm.all_reduce("sum", written)
    torch_xla.sync()
    assert reduced.cpu().tolist() == [[0., 0., 0.], [1., 2., 3.]]
    assert xm.all_reduce(xm.REDUCE_SUM, [written], scale=0.5) is None
    assert written.cpu().tolist() == [[0., 0., 0.], [0.5, 1., 1.5]] and reduced.cpu()[1, 2] == 3.
    try:
        xm.all_reduce("median", written)
    except ValueError as error:
        assert "median" in str(error)
    else:
        raise AssertionError("expected an error")
    assert xm.mesh_reduce("tag", 3, sum) == 3
    """
    )


def test_compile_wrapper(child: Child) -> None:
    child(
        INSTALL
        + """
    @torch_xla.compile
    def double(x):
        return x * 2
    assert double(torch.ones(3, device="xla")).cpu().tolist() == [2., 2., 2.]

    @torch_xla.compile(full_graph=True, name="reader")
    def reader(x):
        return x * (2 if x.sum().item() > 0 else 3)
    try:
        reader(torch.ones(3, device="xla"))
    except RuntimeError as error:
        assert "reader does not stay in one graph" in str(error)
    else:
        raise AssertionError("expected an error")
    """
    )


def test_limit_of_graphs_and_precision(child: Child) -> None:
    child(
        INSTALL
        + """
    import torch_xla.backends
    def double(x):
        return x + x
    def run(size):
        return torch_xla.compile(double, max_different_graphs=1)(torch.ones(size, device="xla"))
    assert run(10).tolist() == run(10).tolist() == [2.] * 10
    try:
        run(5)
    except RuntimeError as error:
        assert "f32[5]" in str(error) and "f32[10]" in str(error), error
    else:
        raise AssertionError("expected an error")
    x = torch.ones(4, 4, device="xla")
    assert torch_xla.backends.get_mat_mul_precision() == "default"
    torch_xla.backends.set_mat_mul_precision("highest")
    assert torch_xla.backends.get_mat_mul_precision() == "highest"
    assert "operand_precision={highest,highest}" in torch_xla._XLAC._get_xla_tensors_hlo([x @ x])
    try:
        torch_xla.backends.set_mat_mul_precision("exact")
    except ValueError as error:
        assert "exact" in str(error)
    else:
        raise AssertionError("expected an error")
    """
    )


def test_what_is_missing_says_so(child: Child) -> None:
    child(
        INSTALL
        + """
    for module, name in ((torch_xla, "no_such_name"), (xr, "no_such_name"), (xm, "DeviceContext")):
        try:
            getattr(module, name)
        except AttributeError as error:
            assert name in str(error) and "not provided" in str(error)
        else:
            raise AssertionError(f"{module.__name__}.{name} exists")
    try:
        import torch_xla.no_such_module
    except ImportError:
        pass
    else:
        raise AssertionError("expected an error")
    """
    )


def test_running_a_script_or_a_module(tmp_path: Path) -> None:
    folder = tmp_path / "scripts"
    folder.mkdir()
    (folder / "beside.py").write_text("value = 3\n")
    (folder / "script.py").write_text(
        "import sys, torch, torch_xla, beside\n"
        "assert __name__ == '__main__' and sys.modules['__main__'].beside is beside\n"
        "print(sys.argv[1:], (torch.ones(2, device=torch_xla.device()) * beside.value).tolist())\n"
        "if '--fail' in sys.argv: raise ValueError('as asked')\n"
    )

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-m", "xla_go.compat", *arguments], cwd=folder, capture_output=True, text=True)

    plain = run("script.py", "a", "-b")
    assert (plain.returncode, plain.stdout) == (0, "['a', '-b'] [3.0, 3.0]\n"), plain.stderr
    module = run("-m", "script", "a", "-b")
    assert (module.returncode, module.stdout) == (0, "['a', '-b'] [3.0, 3.0]\n"), module.stderr
    failing = run(str(folder / "script.py"), "--fail")
    assert failing.returncode == 1 and "ValueError: as asked" in failing.stderr and "xla_go" not in failing.stderr, failing.stderr
    for wrong in ([], ["-x", "script.py"], ["-m"]):
        refused = run(*wrong)
        assert refused.returncode == 1 and "expected SCRIPT [ARGUMENTS]" in refused.stderr
