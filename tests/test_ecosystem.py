"""Packages around torch train on device xla: the same losses as on the CPU, nothing compiled after the first steps, no hidden reads."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import xla_go  # noqa: F401  registers the device
from support import DEVICE_VARIABLES, Child


def needs(package: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(importlib.util.find_spec(package) is None, reason=f"{package} is not installed")


def explained(script: Path, directory: Path, *arguments: str, compat: bool = False) -> tuple[dict[str, object], str]:
    """Runs a script under `python -m xla_go explain`; what was recorded, and what the script has printed."""
    environment = {name: value for name, value in os.environ.items() if name not in DEVICE_VARIABLES}
    flags = ["--compat"] if compat else []
    command = [sys.executable, "-m", "xla_go", "explain", "--no-html", "--json", "record.json", *flags, str(script), *arguments]
    done = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads((directory / "record.json").read_text()), done.stdout


def reads(record: dict[str, object]) -> dict[str, int]:
    """How often each file of the process has waited for values."""
    found: dict[str, int] = {}
    for place in record["places"]:  # type: ignore[attr-defined]
        if place["kind"] == "read":
            name = Path(place["site"].rpartition(":")[0]).name
            found[name] = found.get(name, 0) + place["count"]
    return found


@pytest.mark.slow
@needs("transformers")
@needs("accelerate")
def test_transformers_trainer(root: Path, tmp_path: Path) -> None:
    """The example's own promises: the CPU's losses, and strict steps after the warm-up. Values are read where losses are logged."""
    record, shown = explained(root / "examples" / "finetune.py", tmp_path, "--layers", "1", "--epochs", "3")
    assert "FAIL" not in shown and shown.count("ok  ") == 5, shown
    # 48 steps, 6 logs of a loss and a gradient's norm; the last loss at the end.
    assert reads(record) == {"trainer.py": 13}, reads(record)


ACCELERATE = """
    import contextlib, json, os, sys
    import torch
    from accelerate import Accelerator
    import xla_go

    def train(device, precision):
        os.environ["ACCELERATE_TORCH_DEVICE"] = device
        from accelerate.state import AcceleratorState
        AcceleratorState._reset_state(reset_partial_state=True)
        accelerator = Accelerator(mixed_precision=precision, gradient_accumulation_steps=2)
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)  # before the model is on the device
        x = torch.randn(64, 8)
        data = torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True))
        loader = torch.utils.data.DataLoader(data, batch_size=8, shuffle=True, generator=torch.Generator().manual_seed(0))
        schedule = torch.optim.lr_scheduler.LinearLR(optimizer, total_iters=50)
        model, optimizer, loader, schedule = accelerator.prepare(model, optimizer, loader, schedule)
        losses = []
        for epoch in range(6):
            total = torch.zeros((), device=accelerator.device)
            warm = device == "xla" and epoch > 2
            with xla_go.strict() if warm else contextlib.nullcontext():
                for inputs, targets in loader:
                    with accelerator.accumulate(model):
                        loss = torch.nn.functional.mse_loss(model(inputs), targets)
                        accelerator.backward(loss)
                        if accelerator.sync_gradients:
                            accelerator.clip_grad_norm_(model.parameters(), 1.0)
                        optimizer.step()
                        schedule.step()
                        optimizer.zero_grad()
                        total += loss.detach()
                    if device == "xla":
                        xla_go.sync()
            losses.append(accelerator.gather(total).item() / len(loader))
        assert all(p.device.type == device for p in accelerator.unwrap_model(model).parameters())
        accelerator.save_state("state-" + device)
        before = [p.detach().cpu().clone() for p in model.parameters()]
        with torch.no_grad():
            for p in model.parameters():
                p.zero_()
        accelerator.load_state("state-" + device)
        assert all(torch.equal(p.detach().cpu(), b) for p, b in zip(model.parameters(), before))
        return losses

    assert not xla_go.metrics.executed_fallback_ops()
    print(json.dumps([train(device, "PRECISION") for device in ("xla", "cpu")]))
"""


@needs("accelerate")
@pytest.mark.parametrize("precision", ["no", "bf16"])
def test_accelerate_loop(child: Child, precision: str) -> None:
    xla, cpu = json.loads(child(ACCELERATE.replace("PRECISION", precision), timeout=300).stdout.splitlines()[-1])
    assert xla[-1] < xla[0]
    assert xla == pytest.approx(cpu, rel=1e-4 if precision == "no" else 2e-2)


LIGHTNING = """
    import contextlib, json, warnings
    import torch
    import PACKAGE as lightning
    import xla_go, xla_go.lightning

    class Net(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
            self.losses, self.strict, self.watched = [], contextlib.ExitStack(), 0

        def loss(self, batch):
            return torch.nn.functional.mse_loss(self.net(batch[0]), batch[1])

        def training_step(self, batch, index):
            loss = self.loss(batch)
            self.log("loss", loss)
            self.losses.append(loss.detach())
            return loss

        def validation_step(self, batch, index):
            self.log("val", self.loss(batch))

        def configure_optimizers(self):
            # A scaler of gradients reads whether a step is to be left out, unless the optimizer counts its steps on the device.
            return torch.optim.AdamW(self.parameters(), lr=1e-2, capturable="PRECISION" == "16-mixed" and self.device.type == "xla")

        def on_train_batch_start(self, batch, index):
            if batch[0].device.type == "xla" and self.current_epoch > 1:
                self.strict.enter_context(xla_go.strict())
                self.watched += 1

        def on_train_batch_end(self, *arguments):
            self.strict.close()

    def train(precision, **options):
        lightning.seed_everything(0)
        x = torch.randn(64, 8)
        loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True)), batch_size=8)
        net = Net()
        trainer = lightning.Trainer(
            max_epochs=4, logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
            gradient_clip_val=1.0, precision=precision, log_every_n_steps=100, **options,
        )
        trainer.fit(net, loader, loader)
        scaler = getattr(trainer.precision_plugin, "scaler", None)
        scale = scaler.get_scale() if scaler else None
        return [loss.item() for loss in net.losses], float(trainer.callback_metrics["val"]), net.watched, str(net.losses[0].device), scale

    warnings.simplefilter("ignore")
    for refused in (2, [0, 1], "0,1"):
        try:
            lightning.Trainer(accelerator="xla_go", devices=refused)
        except Exception as error:
            assert "expected devices=1" in str(error), error
        else:
            raise AssertionError(refused)
    print(json.dumps([train("PRECISION", accelerator="xla_go", devices=1), train("PRECISION", accelerator="cpu")]))
"""


@pytest.mark.parametrize("package", [pytest.param(name, marks=needs(name.partition(".")[0])) for name in ("lightning.pytorch", "pytorch_lightning")])
@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed", "16-mixed"])
def test_lightning(child: Child, package: str, precision: str) -> None:
    if package == "pytorch_lightning" and precision != "32-true":
        pytest.skip("the older package is the same code, tried once")
    code = LIGHTNING.replace("PACKAGE", package).replace("PRECISION", precision)
    xla, cpu = json.loads(child(code, timeout=300).stdout.splitlines()[-1])
    assert xla[3] == "xla:0" and cpu[3] == "cpu"
    assert xla[0][-1] < xla[0][0]
    if precision == "16-mixed":  # Lightning takes bfloat16 on the CPU, which leaves no step out
        assert xla[4] <= 65536 and cpu[4] is None and xla[0][0] == pytest.approx(cpu[0][0], rel=5e-2)
    else:
        tolerance = 1e-4 if precision == "32-true" else 5e-2
        assert xla[0] == pytest.approx(cpu[0], rel=tolerance) and xla[1] == pytest.approx(cpu[1], rel=tolerance)
    assert xla[2] == 16, "the steps of two epochs were watched"


# ---- a script for torch_xla, and the document ----


@pytest.mark.parametrize("devices", ["1", pytest.param("2", marks=pytest.mark.slow)])
def test_a_trainer_for_torch_xla_runs_unchanged(root: Path, tmp_path: Path, devices: str) -> None:
    """The script reaches its target by itself; here it has few images and one pass over them."""
    script = root / "examples" / "torch_xla_mnist.py"
    assert "xla_go" not in re.sub(r'""".*?"""', "", script.read_text(), flags=re.DOTALL)
    environment = {name: value for name, value in os.environ.items() if name not in DEVICE_VARIABLES}
    environment.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES=devices)
    command = [sys.executable, "-m", "xla_go.compat", str(script), "--samples", "512", "--target-accuracy", "80", "--save", "m.pt", "--metrics-debug"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("test end") == 2 and "Metric: CompileTime" in done.stdout and "aten::" not in done.stdout
    saved = torch.load(tmp_path / "m.pt", weights_only=True)
    assert all(value.device.type == "cpu" for value in saved.values())


# ---- files ----


@needs("safetensors")
def test_safetensors(tmp_path: Path) -> None:
    from safetensors.torch import load_file, load_model, save_file, save_model

    tensors = {"a": torch.arange(6.0, device="xla").reshape(2, 3), "b": torch.tensor(3, device="xla"), "c": torch.ones(2, dtype=torch.bfloat16, device="xla") * 2}
    save_file(tensors, tmp_path / "t.safetensors")
    for device in ("cpu", "xla", "xla:0"):
        loaded = load_file(tmp_path / "t.safetensors", device=device)
        assert loaded.keys() == tensors.keys()
        for name, tensor in loaded.items():
            assert tensor.device.type == device.partition(":")[0] and tensor.dtype is tensors[name].dtype
            assert torch.equal(tensor.cpu(), tensors[name].cpu())
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4)).to("xla")
    save_model(model, str(tmp_path / "m.safetensors"))
    other = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4)).to("xla")
    load_model(other, str(tmp_path / "m.safetensors"))
    for key, value in model.state_dict().items():
        assert other.state_dict()[key].device.type == "xla" and torch.equal(other.state_dict()[key].cpu(), value.cpu())


def test_a_checkpoint_is_one_of_plain_cpu_tensors(child: Child, tmp_path: Path) -> None:
    model = torch.nn.Linear(3, 2).to("xla")
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(1, 3, device="xla")).sum().backward()
    optimizer.step()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, tmp_path / "c.pt")
    code = """
        import sys, torch
        found = torch.load("c.pt", weights_only=True)
        assert "xla_go" not in sys.modules
        assert all(t.device.type == "cpu" for t in found["model"].values())
        assert all(t.device.type == "cpu" for state in found["optimizer"]["state"].values() for t in state.values())
        print(found["model"]["weight"].sum().item())
    """
    assert float(child(code).stdout) == pytest.approx(model.weight.sum().item(), abs=1e-6)
    other = torch.nn.Linear(3, 2).to("xla")
    other.load_state_dict(torch.load(tmp_path / "c.pt", map_location="xla", weights_only=True)["model"])
    assert torch.equal(other.weight.cpu(), model.weight.cpu())


def test_numpy_asks_for_the_cpu_in_words() -> None:
    import numpy

    x = torch.arange(3.0, device="xla")
    numpy.testing.assert_array_equal(x.cpu().numpy(), [0, 1, 2])
    numpy.testing.assert_array_equal(x.numpy(force=True), [0, 1, 2])
    for convert in (x.numpy, lambda: numpy.asarray(x)):
        with pytest.raises((TypeError, RuntimeError), match="cpu"):
            convert()
    assert torch.equal(torch.from_numpy(numpy.ones(2, dtype=numpy.float32)).to("xla").cpu(), torch.ones(2))
    numpy.testing.assert_array_equal(numpy.from_dlpack(x), [0, 1, 2])


# ---- loops and notebooks ----


def test_a_loop_with_a_progress_bar_reads_what_it_shows(tmp_path: Path) -> None:
    pytest.importorskip("tqdm", reason="tqdm is not installed")
    script = tmp_path / "loop.py"
    script.write_text(
        """
import torch, xla_go
from tqdm import tqdm

class Squares(torch.utils.data.Dataset):
    def __len__(self):
        return 24
    def __getitem__(self, i):
        x = torch.full((4,), float(i))
        return x / 24, (x[0] / 24) ** 2

model = torch.nn.Linear(4, 1).to("xla")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = torch.utils.data.DataLoader(Squares(), batch_size=2, num_workers=2)
for epoch in range(2):
    bar = tqdm(loader)
    for step, (x, y) in enumerate(bar):
        loss = torch.nn.functional.mse_loss(model(x.to("xla"))[:, 0], y.to("xla"))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 6 == 5:
            bar.set_postfix(loss=loss.item())
print(xla_go.metrics.counter_value("UncachedCompile"))
"""
    )
    record, shown = explained(script, tmp_path)
    assert reads(record) == {"loop.py": 4}
    assert int(shown.splitlines()[-1]) <= 2  # the first step has no gradients to overwrite


FAILED = """
    import ctypes, torch, xla_go
    proxy = ctypes.CDLL(PROXY)
    proxy.refuse.argtypes = [ctypes.c_char_p, ctypes.c_int64, ctypes.c_int]
    x = torch.arange(4.0, device="xla")
    xla_go.sync(wait=True)
    proxy.refuse(b"execute", 1, 13)
    y = x * 2
    shows = (repr, str, "{}".format, lambda t: repr([t]), lambda t: repr(torch.nn.Parameter(t)), lambda t: repr({"y": t}))
    for show in shows:
        shown = show(y)
        assert "the proxy refuses" in shown and "size=(4,), dtype=torch.float32" in shown and "xla:0" in shown, shown
    proxy.refuse(b"execute", 0, 0)
    try:
        y.sum().item()
    except xla_go.errors.XlaError as error:
        print("reads raise:", error)
    assert "[0., 1., 2., 3.]" in repr(x)
    z = x[torch.tensor([1, 9], device="xla")]
    assert "IndexError: index 9 is out of bounds" in repr(z), repr(z)
"""


def test_showing_a_failed_tensor_never_raises(child: Child, proxy: Path) -> None:
    """A notebook shows the value of a cell's last line: a traceback there would hide what it is of."""
    spec = importlib.util.find_spec("fastatomstruct_xla_cpu")
    assert spec is not None and spec.origin is not None
    plugin = Path(spec.origin).parent / "libpjrt_cpu.so"
    environment = {"PJRT_DEVICE": "CPU", "XLA_GO_PLUGIN_PATH": str(proxy), "XLA_GO_TEST_PROXIED": str(plugin)}
    assert "reads raise: " in child(FAILED.replace("PROXY", repr(str(proxy))), env=environment).stdout


class OfTheDevice(torch.utils.data.Dataset[torch.Tensor]):
    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.ones(1, device="xla")


def test_workers_serve_cpu_tensors_and_are_refused_the_device() -> None:
    """The process has used the device already, so its forked children cannot."""
    assert torch.ones(1, device="xla").item() == 1
    loader = torch.utils.data.DataLoader(torch.arange(8.0), batch_size=4, num_workers=2)
    assert sum(batch.to("xla").sum().item() for batch in loader) == 28
    with pytest.raises(RuntimeError, match="spawn"):
        list(torch.utils.data.DataLoader(OfTheDevice(), num_workers=1, multiprocessing_context="fork"))
