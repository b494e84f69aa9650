"""xla_go.stablehlo: a model as a program in plain files, which others run."""

from __future__ import annotations

import gc
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import xla_go
from support import Child, python_with_jax
from xla_go import client, errors, stablehlo

Model = tuple[nn.Module, tuple[Any, ...], dict[str, Any]]


def mlp() -> Model:
    return nn.Sequential(nn.Linear(6, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 3)), (torch.randn(4, 6),), {}


def resnet() -> Model:
    torchvision = pytest.importorskip("torchvision")
    return torchvision.models.resnet18(weights=None), (torch.randn(2, 3, 64, 64),), {}


def gpt2() -> Model:
    transformers = pytest.importorskip("transformers")
    shape = {"n_layer": 2, "n_head": 2, "n_embd": 32, "vocab_size": 100, "n_positions": 64}
    config = transformers.GPT2Config(**shape, use_cache=False, bos_token_id=0, eos_token_id=0)
    return transformers.GPT2LMHeadModel(config), (), {"input_ids": torch.randint(0, 100, (2, 16))}


MODELS: dict[str, Callable[[], Model]] = {"mlp": mlp, "resnet": resnet, "gpt2": gpt2}


def made(name: str) -> Model:
    torch.manual_seed(0)
    model, args, kwargs = MODELS[name]()
    return model.eval(), args, kwargs


def wanted(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor:
    with torch.no_grad():
        return main(model(*args, **kwargs))


def main(outputs: Any) -> Any:
    """The one output of a model, or the logits of a transformers model."""
    return outputs["logits"] if hasattr(outputs, "keys") else outputs


# Loads a program where torch is not installed, as far as the process can tell, and runs it.
ELSEWHERE = """
    import sys
    sys.modules["torch"] = None
    import numpy as np, xla_go
    program = xla_go.stablehlo.load({directory!r})
    with np.load({inputs!r}) as inputs:
        outputs = program(*[inputs[k] for k in inputs.files if k.isdigit()], **{{k: inputs[k] for k in inputs.files if not k.isdigit()}})
    np.save({result!r}, outputs["logits"] if isinstance(outputs, dict) else outputs)
    assert not [name for name in sys.modules if name.startswith("torch.")]
    program.close()
    print(xla_go.client.live())
"""


@pytest.mark.parametrize("name", MODELS)
def test_a_model_in_a_process_without_torch(name: str, tmp_path: Path, child: Child) -> None:
    model, args, kwargs = made(name)
    want = wanted(model, args, kwargs)
    with stablehlo.export(model, args, kwargs) as program:
        torch.testing.assert_close(main(program(*args, **kwargs)), want)
        program.save(tmp_path / "saved")
    np.savez(tmp_path / "inputs.npz", **{str(i): x.numpy() for i, x in enumerate(args)}, **{k: x.numpy() for k, x in kwargs.items()})
    code = ELSEWHERE.format(directory=str(tmp_path / "saved"), inputs=str(tmp_path / "inputs.npz"), result=str(tmp_path / "result.npy"))
    assert child(code, fresh=True).stdout == "(0, 0)\n"
    torch.testing.assert_close(torch.from_numpy(np.load(tmp_path / "result.npy")), want)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_a_model_in_jax(name: str, tmp_path: Path, root: Path) -> None:
    python = python_with_jax(root)
    if python is None:
        pytest.skip("no environment with JAX: make peers")
    model, args, kwargs = made(name)
    with stablehlo.export(model, args, kwargs) as program:
        program.save(tmp_path)
        weights, inputs = program.weights(), [x.numpy() for x in (*args, *kwargs.values())]
        arguments = [weights[a["name"]] if a["kind"] == "weight" else inputs[a["input"]] for a in program.arguments]
    np.savez(tmp_path / "a.npz", **{str(i): a for i, a in enumerate(arguments)})
    subprocess.run([python, str(root / "tests" / "jax_stablehlo.py"), str(tmp_path), str(tmp_path / "a.npz"), str(tmp_path / "r.npz")], check=True, timeout=300)
    with np.load(tmp_path / "r.npz") as results:
        torch.testing.assert_close(torch.from_numpy(results["0"]), wanted(model, args, kwargs))


def test_an_exported_program_and_the_files(tmp_path: Path) -> None:
    model, args, _ = made("mlp")
    exported = torch.export.export(model, args)
    with stablehlo.export(exported, name="classifier") as program:
        assert program.name == "classifier" and "module @classifier" in program.text and "HloModule classifier" in program.hlo
        assert [a["kind"] for a in program.arguments] == ["weight"] * 6 + ["input"]
        assert [a["name"] for a in program.arguments[:6]] == [name for name, _ in model.named_parameters()]
        assert program.results == [{"kind": "output", "name": "output0", "output": 0, "element": "f32", "dimensions": [4, 3]}]
        program.save(tmp_path / "a")
        assert sorted(path.name for path in (tmp_path / "a").iterdir()) == ["program.hlo", "program.json", "program.mlir", "program.pb", "weights.safetensors"]
        assert json.loads((tmp_path / "a" / "program.json").read_text())["arguments"] == program.arguments
        with stablehlo.load(tmp_path / "a") as loaded:
            assert loaded.text == program.text and loaded.hlo == program.hlo and loaded.module == program.module and repr(loaded) == repr(program)
            assert torch.equal(loaded(*args), program(*args))
    safetensors = pytest.importorskip("safetensors.torch")
    read = safetensors.load_file(tmp_path / "a" / "weights.safetensors")
    assert all(torch.equal(read[name], value) for name, value in model.state_dict().items()) and len(read) == 6


def test_both_forms_and_the_kinds_of_arrays() -> None:
    model, (x,), _ = made("mlp")
    with stablehlo.export(model, (x,)) as program:
        first = program(x)
        computation = program.compile(format="hlo")
        assert computation.results == ["f32[4,3]"]
        assert torch.equal(program(x), first)
        from_numpy = program(x.numpy())
        assert isinstance(from_numpy, np.ndarray) and np.array_equal(from_numpy, first.numpy())
        on_device = program(x.to("xla") + 0)
        assert on_device.device.type == "xla" and torch.equal(on_device.cpu(), first)
        with client.upload(x.numpy()) as data:
            result = program(data)
            assert isinstance(result, client.Data) and np.array_equal(result.numpy(), first.numpy())
            result.close()
        assert np.array_equal(program(x.tolist()), from_numpy)


def test_weights_in_the_program() -> None:
    model, (x,), _ = made("mlp")
    with stablehlo.export(model, (x,), inline_weights=True) as program:
        assert [a["kind"] for a in program.arguments] == ["input"] and program.weights() == {}
        torch.testing.assert_close(program(x), wanted(model, (x,), {}))


def test_the_model_may_be_on_the_device_and_keeps_its_weights() -> None:
    model, (x,), _ = made("mlp")
    want = wanted(model, (x,), {})
    model = model.to("xla")
    pending = x.to("xla") * 2  # somebody else's work
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with stablehlo.export(model, (x.to("xla"),)) as program:
        torch.testing.assert_close(program(x), want)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert torch.equal(pending.cpu(), x * 2)


class Counted(nn.Module):
    """Has buffers that a run changes, one that shares its memory, one that it does not use, and an input that it writes to."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.register_buffer("unused", torch.ones(3))
        self.norm = nn.BatchNorm1d(3)
        self.first = nn.Linear(3, 3, bias=False)
        self.second = nn.Linear(3, 3, bias=False)
        self.second.weight = self.first.weight

    def forward(self, x: torch.Tensor, state: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        self.calls.add_(1)
        state.add_(x.sum(0))
        return self.second(self.first(self.norm(x))), state * self.calls


def test_what_a_run_changes(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Counted()
    x, state = torch.randn(5, 3), torch.zeros(3)
    with stablehlo.export(model, (x, state)) as program:
        names = [a["name"] for a in program.arguments if a["kind"] == "weight"]
        assert "unused" not in names and ("first.weight" in names) != ("second.weight" in names)
        assert state.tolist() == [0, 0, 0] and int(model.calls) == 0
        own, ours = torch.zeros(3), np.zeros(3, np.float32)
        for _ in range(3):
            x = torch.randn(5, 3)
            want, got = model(x, own), program(x.numpy(), ours)
            for a, b in zip(want, got, strict=True):
                torch.testing.assert_close(torch.from_numpy(b), a.detach())
            torch.testing.assert_close(torch.from_numpy(ours), own)
        now = program.weights()
        assert int(now["calls"]) == 3 and int(now["norm.num_batches_tracked"]) == 3
        torch.testing.assert_close(torch.from_numpy(now["norm.running_var"]), model.norm.running_var)
        program.save(tmp_path)
        with stablehlo.load(tmp_path) as loaded:
            loaded(x, own.clone())
            assert int(loaded.weights()["calls"]) == 4 and int(program.weights()["calls"]) == 3
        program.close()
        program(x, own.clone())
        assert int(program.weights()["calls"]) == 4
        with client.upload(ours) as data, pytest.raises(ValueError, match="expected a writable numpy array or a tensor as input state"):
            program(x, data)
        assert int(program.weights()["calls"]) == 4


def test_random_numbers(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(4, 64), nn.Dropout(0.5), nn.Dropout(0.25))
    x = torch.ones(8, 4)
    with stablehlo.export(model, (x,)) as program:
        assert program.arguments[-1] == {"kind": "generator", "name": "generator", "element": "u64", "dimensions": [2]}
        program.manual_seed(7)
        first, second = program(x), program(x)
        assert not torch.equal(first, second)
        program.save(tmp_path)
        with stablehlo.load(tmp_path) as loaded:
            loaded.manual_seed(7)
            assert torch.equal(loaded(x), first) and torch.equal(loaded(x), second)
        kept = (first != 0).float().mean().item()
        assert 0.25 < kept < 0.5, kept
        # As the device draws them: two programs of one seed.
        torch.manual_seed(7)
        generator = torch.full((8, 64), 1.0, device="xla")
        masks = nn.functional.dropout(nn.functional.dropout(generator, 0.5), 0.25).cpu() != 0
        assert torch.equal(masks, first != 0)


class Nested(nn.Module):
    def forward(self, x: dict[str, torch.Tensor], power: int, *, mode: str, pair: list[torch.Tensor]) -> dict[str, Any]:
        y = x["b"] ** power + pair[0] @ pair[1].mT
        z = torch.arange(3) + torch.tensor([1, 2, 3])
        return {"mode": mode, "y": [y, None], "z": (z, x["a"], y)}


def test_nested_inputs_and_outputs() -> None:
    a = torch.randn(2, 3)
    x, keywords = {"a": a, "b": a}, {"mode": "sum", "pair": [a, torch.randn(3, 3)]}  # one tensor twice: two inputs
    with stablehlo.export(Nested(), (x, 2), keywords) as program:
        b = torch.randn(2, 3)
        got = program({"b": b, "a": a}, 2, **keywords)
        want = Nested()({"a": a, "b": b}, 2, **keywords)
        assert got["mode"] == "sum" and got["y"][1] is None and isinstance(got["z"], tuple)
        torch.testing.assert_close(got["y"][0], want["y"][0])
        assert got["z"][0].tolist() == [1, 3, 5] and torch.equal(got["z"][1], a) and torch.equal(got["z"][2], got["y"][0])
        for wrong, part in [
            (({"b": b}, 2), "expected a mapping with keys"), ((x, 3), "expected 2 as input"), ((x,), "expected a tuple of 2 as arguments"),
            (({"a": a, "b": b[:1]}, 2), "f32[2,3], got f32[1,3]"), (({"a": a, "b": b.double()}, 2), "f32[2,3], got f64[2,3]"),
        ]:  # fmt: skip
            with pytest.raises(ValueError, match=part.replace("[", r"\[").replace("]", r"\]")):
                program(*wrong, **keywords)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64, torch.complex64])
def test_element_types(dtype: torch.dtype, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Linear(5, 3).to(dtype)
    x = torch.randn(2, 5).to(dtype)
    with stablehlo.export(model, (x,)) as program:
        program.save(tmp_path)
        with stablehlo.load(tmp_path) as loaded:
            torch.testing.assert_close(loaded(x), model(x).detach())


def test_arrays_without_elements_and_scalars() -> None:
    class Few(nn.Module):
        def forward(self, x: torch.Tensor, s: torch.Tensor, f: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return x + s, x.sum() + s, s == 2, f

    x, s = torch.empty(0, 3), torch.tensor(2.0)
    with stablehlo.export(Few(), (x, s, torch.tensor(True))) as program:
        got = program(x, torch.tensor(3.0), torch.tensor(False))
        assert [tuple(y.shape) for y in got] == [(0, 3), (), (), ()] and [y.item() for y in got[1:]] == [3.0, False, False]


def test_sizes_that_change() -> None:
    class Mean(nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, int]:
            return x.sum(0) / x.shape[0], x.shape[0]

    exported = torch.export.export(Mean(), (torch.randn(4, 3),), dynamic_shapes=({0: torch.export.Dim("rows", min=2, max=64)},))
    with pytest.raises(errors.UnimplementedError, match="expected inputs of fixed sizes, got x"):
        stablehlo.export(exported)
    x = torch.randn(7, 3)
    with stablehlo.export(exported, (x,)) as program:
        mean, rows = program(x)
        assert rows == 7
        torch.testing.assert_close(mean, x.mean(0))
    with pytest.raises(ValueError, match="nested as the ExportedProgram's"):
        stablehlo.export(exported, (x, x))


def test_views_that_depend_on_memory() -> None:
    class Strided(nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return x.mT.as_strided((2, 2), (1, 3)), x.mT.reshape(-1), (x.mT + 1).mT.view(-1)

    x = torch.arange(6.0).reshape(2, 3)
    with stablehlo.export(Strided(), (x,)) as program:
        for got, want in zip(program(x), Strided()(x), strict=True):
            assert torch.equal(got, want)


def test_an_export_leaves_nothing_behind() -> None:
    model, args, _ = made("mlp")

    def counts() -> tuple[dict[str, int], tuple[int, int]]:
        gc.collect()
        xla_go.sync(wait=True)  # and hands in what was dropped
        return xla_go.debug.live_counts(), client.live()

    before = counts()
    with stablehlo.export(model, args) as program:
        program(*args)
        assert counts()[0] == before[0] and client.live() != before[1]
    assert counts() == before


def test_what_cannot_be_exported() -> None:
    class Other(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.linalg.eig(x)[0]

    x = torch.randn(3, 3)
    with pytest.raises(NotImplementedError, match="linalg_eig"):
        stablehlo.export(Other(), (x,))
    with pytest.raises(ValueError, match="expected args"):
        stablehlo.export(Other())


def test_damaged_files(tmp_path: Path) -> None:
    model, args, _ = made("mlp")
    with pytest.raises(errors.NotFoundError, match="expected a directory that StableHLOProgram"):
        stablehlo.load(tmp_path)
    with stablehlo.export(model, args) as program:
        program.save(tmp_path)
    about = (tmp_path / "program.json").read_text()
    for text, kind in [
        ("{", errors.DataLossError), ("[]", errors.DataLossError), (about.replace('"version": 1', '"version": 2'), errors.UnimplementedError),
        (about.replace("0.weight", "9.weight"), errors.DataLossError),
    ]:  # fmt: skip
        (tmp_path / "program.json").write_text(text)
        with pytest.raises(kind):
            stablehlo.load(tmp_path)
    (tmp_path / "program.json").write_text(about)
    weights = (tmp_path / "weights.safetensors").read_bytes()
    for damaged in (b"", weights[:20], weights[:-4], b"\xff" * 8 + weights[8:], weights.replace(b'"F32"', b'"X32"'), b"\x10" + weights[1:]):
        (tmp_path / "weights.safetensors").write_bytes(damaged)
        with pytest.raises((errors.DataLossError, errors.UnimplementedError)):
            stablehlo.load(tmp_path)
