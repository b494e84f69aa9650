"""What comes from outside and is damaged, or is no number at all, is refused with a typed error: what tests/reliability/fuzz_python.py found."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    Metadata,
    TensorProperties,
    TensorStorageMetadata,
)

import xla_go
import xla_go.stablehlo
from support import Child
from xla_go import _plugins, errors, spmd
from xla_go.client import sharding
from xla_go.distributed import checkpoint
from xla_go.spmd.sharding import ShardingType

pytestmark = pytest.mark.once


@pytest.fixture(scope="module")
def exported() -> xla_go.stablehlo.StableHLOProgram:
    return xla_go.stablehlo.export(torch.nn.Linear(3, 2), (torch.ones(4, 3),))


def _tree(about: dict[str, Any]) -> Any:
    return about["inputs"]["tree"]["items"][0]["items"]


@pytest.mark.parametrize(
    "damage",
    [
        lambda about: about.pop("version"),
        lambda about: about.update(version="1"),
        lambda about: about.pop("arguments"),
        lambda about: about.update(name="\ud800"),
        lambda about: about.update(drawn=-1),
        lambda about: about["arguments"].append(3),
        lambda about: about["arguments"][0].pop("dimensions"),
        lambda about: about["arguments"][0].update(element="f7"),
        lambda about: about["arguments"][0].update(dimensions=[-1]),
        lambda about: about["arguments"][-1].update(input=7),
        lambda about: about["arguments"][0].update(kind=["weight"]),
        lambda about: about["results"][0].update(output=True),
        lambda about: about["results"].clear(),
        lambda about: about["inputs"].pop("leaves"),
        lambda about: about["inputs"].update(tree={"kind": "circle", "items": []}),
        lambda about: _tree(about).append(0),
        lambda about: _tree(about).clear(),
        lambda about: about["outputs"]["leaves"].append({}),
        lambda about: about["outputs"].update(leaves=[{"empty": {"element": "f32", "dimensions": [2]}}]),
    ],
)
def test_a_damaged_description_of_a_program(exported: xla_go.stablehlo.StableHLOProgram, tmp_path: Path, damage: Callable[[Any], Any]) -> None:
    exported.save(tmp_path)
    place = tmp_path / "program.json"
    about = json.loads(place.read_text())
    damage(about)
    place.write_text(json.dumps(about))
    with pytest.raises(errors.DataLossError, match="load"):
        xla_go.stablehlo.load(tmp_path)


def test_a_description_that_is_nested_without_end(exported: xla_go.stablehlo.StableHLOProgram, tmp_path: Path) -> None:
    exported.save(tmp_path)
    (tmp_path / "program.json").write_text("[" * 100_000)
    with pytest.raises(errors.DataLossError, match="damaged"):
        xla_go.stablehlo.load(tmp_path)


@pytest.mark.parametrize(
    "header",
    [
        [], 3, {"weight": 3}, {"weight": {}}, {"weight": {"dtype": ["F32"], "shape": [2, 3], "data_offsets": [0, 24]}},
        {"weight": {"dtype": "F32", "shape": 6, "data_offsets": [0, 24]}}, {"weight": {"dtype": "F32", "shape": [-2, -3], "data_offsets": [0, 24]}},
        {"weight": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0]}}, {"weight": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0.0, 24.0]}},
    ],
)  # fmt: skip
def test_a_damaged_header_of_weights(exported: xla_go.stablehlo.StableHLOProgram, tmp_path: Path, header: Any) -> None:
    exported.save(tmp_path)
    text = json.dumps(header).encode()
    (tmp_path / "weights.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + bytes(64))
    with pytest.raises(errors.DataLossError, match="header"):
        xla_go.stablehlo.load(tmp_path)


def test_a_whole_program_is_loaded(exported: xla_go.stablehlo.StableHLOProgram, tmp_path: Path) -> None:
    exported.save(tmp_path)
    loaded = xla_go.stablehlo.load(tmp_path)
    x = np.ones((4, 3), np.float32)
    assert np.array_equal(loaded(x), exported(x))


def test_numbers_of_devices_that_no_client_has() -> None:
    for text in ("0", "-1", "²", "1e3", " 4", "99999999999999999999"):
        with pytest.raises(ValueError, match="CPU_NUM_DEVICES"):
            _plugins.create_options("CPU", {"CPU_NUM_DEVICES": text})
    assert _plugins.create_options("CPU", {"CPU_NUM_DEVICES": "012"})["cpu_device_count"] == 12


def test_shardings_that_are_none() -> None:
    with pytest.raises(ValueError, match="ShardingType"):
        ShardingType.of("{sideways}")
    for text in ("{devices=[0]0}", "{devices=[2,2]0,1}", "{devices=[99999999999]0}", "{devices=[2]0,1 last_tile_dim_replicate}", "{devices=[2,]0,1}"):
        with pytest.raises(ValueError, match="visualize_sharding"):
            spmd.visualize_sharding(text)
    for parts, devices in (([10**12], None), ([2**31, 2**31], [0, 1]), ([4], [0, 1])):
        with pytest.raises(ValueError, match="tiled"):
            sharding.tiled(parts, devices)


def test_meshes_that_are_none() -> None:
    for ids, shape in ((range(1), (-1, -1)), ([math.inf], (1,)), ([0], (math.inf,))):
        with pytest.raises(errors.MeshError, match="Mesh"):
            spmd.Mesh(ids, shape)  # type: ignore[arg-type]


def test_names_that_are_no_steps(tmp_path: Path) -> None:
    for name in ("1", "01", "²", "٣", "-0", "+4", "1.unfinished", "20"):
        (tmp_path / name).mkdir()
        (tmp_path / name / ".metadata").touch()
    manager = checkpoint.CheckpointManager(tmp_path, 1, chkpt_on_preemption=False)
    assert manager.all_steps() == [1, 20]
    with pytest.raises(TypeError):
        manager.should_save("%c")  # type: ignore[arg-type]
    manager.close()


@pytest.mark.parametrize(
    "parts",
    [
        [((0,), (4, 2))],
        [((0, 0), (4, 2, 1))],
        [((1, 0), (4, 2))],
        [((0, 0), (2, 2)), ((0, 0), (2, 2))],
        [((0, 0), (3, 2)), ((2, 0), (1, 2))],
    ],
)
def test_parts_of_a_checkpoint_that_make_no_tensor(parts: list[tuple[tuple[int, ...], tuple[int, ...]]]) -> None:
    chunks = [ChunkStorageMetadata(torch.Size(offsets), torch.Size(sizes)) for offsets, sizes in parts]
    metadata = Metadata({"w": TensorStorageMetadata(TensorProperties(torch.float32), torch.Size([4, 2]), chunks)})
    planner = checkpoint.SPMDLoadPlanner()
    planner.set_up_planner({"w": torch.zeros(4, 2, device="xla")}, metadata, True)
    with pytest.raises(ValueError, match="SPMDLoadPlanner: expected parts of w"):
        planner.create_local_plan()


def test_zeros_of_both_signs_and_nan_are_numbers_of_their_own() -> None:
    calls = []

    @xla_go.jit
    def step(x: torch.Tensor, number: float) -> torch.Tensor:
        calls.append(number)
        return torch.full_like(x, number)

    x = torch.ones(2, device="xla")
    for number in (0.0, 0.0, 0.0, -0.0, -0.0, -0.0):
        assert math.copysign(1, step(x, number)[0].item()) == math.copysign(1, number)
    before = len(calls)
    for _ in range(4):
        assert step(x, math.nan).isnan().all()
    assert len(calls) - before == 2  # and then it is replayed


def test_a_module_that_tells_of_other_results_than_it_has(child: Child) -> None:
    """XLA ends the process for it."""
    child("""
        import torch, xla_go, xla_go.stablehlo
        module = xla_go.stablehlo.export(torch.nn.ReLU(), (torch.ones(4, 3),)).module
        shape = bytes([0x10, 11, 0x1A, 2, 4, 3])  # f32[4,3]
        tried = 0
        start = module.find(shape)
        while start >= 0:
            damaged = bytearray(module)
            damaged[start + 4] = 5
            try:
                xla_go.client.compile(bytes(damaged), "hlo").close()
            except xla_go.errors.XlaError as error:
                tried += "another shape" in str(error)
            start = module.find(shape, start + 1)
        assert tried >= 2, tried
    """)
