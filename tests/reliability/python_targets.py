"""The targets of fuzz_python.py: how each is made, its first inputs, and the exceptions that are outcomes of it.

A target imports what it fuzzes when it is made, so that it can be instrumented before.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from xla_go import errors

Attempt = Callable[[Any], None]
TYPED = (errors.XlaError, TypeError, ValueError)

_NUMBERS = (0, 1, -1, 2, 4, 8, 2**31, 2**63 - 1, 2**63, -(2**63), 2**64, 10**30)
_FLOATS = (0.0, -0.0, 0.5, 1.0, 1e300, math.inf, -math.inf, math.nan)
_WORDS = ("", "x", "data", "cpu", "CPU:0", "xla:1", "f32", "weight", "input", "replicated", "\ud800", "\0", "\n", "é")


def value(p: Any, depth: int = 3) -> Any:
    """Any value that a caller may give: numbers, texts, and lists, tuples and mappings of them."""
    kind = p.ConsumeIntInRange(0, 11 if depth else 7)
    if kind < 2:
        return p.ConsumeIntInRange(-2, 5)
    if kind == 2:
        return p.PickValueInList(list(_NUMBERS))
    if kind == 3:
        return p.PickValueInList(list(_FLOATS))
    if kind == 4:
        return p.PickValueInList(list(_WORDS))
    if kind == 5:
        return p.PickValueInList([None, True, False, b"", b"\xff", 1j, range(4), slice(0, 2), object, {1}])
    if kind == 6:
        return p.ConsumeUnicode(p.ConsumeIntInRange(0, 12))
    if kind == 7:
        return p.ConsumeBytes(p.ConsumeIntInRange(0, 12))
    items = [value(p, depth - 1) for _ in range(p.ConsumeIntInRange(0, 4))]
    if kind == 8:
        return items
    if kind == 9:
        return tuple(items)
    if kind == 10:
        return {word: item for word, item in zip(_WORDS, items, strict=False)}
    return dict.fromkeys(("name", "dtype", "shape", "data_offsets"), items[0] if items else None)


def no_seeds() -> Iterator[bytes]:
    yield bytes(range(64))


# --- the environment and plugins ------------------------------------------------------------

_VARIABLES = (
    "PJRT_DEVICE", "XLA_GO_PLUGIN_PATH", "PJRT_LIBRARY_PATH", "PJRT_NAMES_AND_LIBRARY_PATHS", "TPU_LIBRARY_PATH", "CPU_NUM_DEVICES", "XLA_FLAGS",
    "XLA_USE_SPMD", "XLA_GO_CHECK", "XLA_GO_REPLICA_TIMEOUT", "XLA_PERSISTENT_CACHE_PATH", "XLA_GO_CACHE_DIR", "XLA_GO_LOG",
)  # fmt: skip


def plugins() -> Attempt:
    """the environment: discovery of plugins, options of a client, flags"""
    from xla_go import _cuda, _plugins, _runtime

    installed = _plugins.search({}).plugins
    texts = ["", "CPU", "LIBRARY", "0", "1", "99999999999999999999", "²", "1e3", "/", ".", "cpu:/nowhere,:,x", "--xla_force_host_platform_device_count=3", "on", __file__]

    def attempt(p: Any) -> None:
        environment = {}
        for _ in range(p.ConsumeIntInRange(0, 5)):
            text = p.PickValueInList(texts) if p.ConsumeBool() else p.ConsumeUnicodeNoSurrogates(p.ConsumeIntInRange(0, 24))
            environment[p.PickValueInList(list(_VARIABLES))] = text
        found = _plugins.Search()
        found.plugins.extend(_plugins._explicit(environment, found))
        found.plugins.extend(installed)
        chosen = _plugins.choose(environment, found)
        assert os.path.isfile(chosen.path) and all(isinstance(option, int) and 0 < option < 2**63 for option in chosen.options.values())
        _plugins._guess_device_type(p.ConsumeUnicode(16))
        _cuda.point_to_compiler(Path("/nowhere"), environment)
        _runtime.call("SetEnvironment", json.dumps(environment))
        _runtime.call("CacheDirectory")

    return attempt


# --- programs -------------------------------------------------------------------------------

_TEXT = """module @m {
  func.func public @main(%arg0: tensor<2x3xf32>, %arg1: tensor<f32>) -> (tensor<2x3xf32>, tensor<2xf32>) {
    %0 = stablehlo.add %arg0, %arg0 : tensor<2x3xf32>
    %1 = stablehlo.reduce(%0 init: %arg1) applies stablehlo.add across dimensions = [1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
    return %0, %1 : tensor<2x3xf32>, tensor<2xf32>
  }
}
"""


def program_seeds() -> Iterator[bytes]:
    import torch

    import xla_go.stablehlo

    exported = xla_go.stablehlo.export(torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Softmax(1)), (torch.ones(4, 3),))
    # A provider takes numbers from the end and bytes from the start: the last ones choose format and call.
    for program in (_TEXT.encode(), exported.text.encode(), exported.module):
        for how in range(4):
            yield program + bytes([0, how, 2])


def programs() -> Attempt:
    """programs: StableHLO and HLO as text and bytes, to compile and to call"""
    from xla_go import client, hlo_module

    def attempt(p: Any) -> None:
        format = p.PickValueInList(["mlir", "hlo", None, "other"])
        how = p.ConsumeIntInRange(0, 3)
        named = p.PickValueInList([{}, {"device": "CPU:0"}, {"device": "CPU:9"}, {"devices": ("CPU:0", "CPU:1")}, {"device": "\ud800"}, {"name": "\0"}, {"tupled_parameters": True}])
        program = p.ConsumeBytes(LONGEST)
        if how == 3:
            hlo_module.HloModule(program).text()
            return
        if how == 2:
            with client.compile(program.decode("utf-8", "surrogateescape"), format, **named) as computation:
                computation.info()
            return
        with client.compile(program, format, **named) as computation:
            computation.info()

    return attempt


LONGEST = 1 << 13

# --- files ----------------------------------------------------------------------------------


def _exported() -> dict[str, bytes]:
    import torch

    import xla_go.stablehlo

    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Dropout(), torch.nn.BatchNorm1d(2))
    with tempfile.TemporaryDirectory() as directory:
        xla_go.stablehlo.export(model, (torch.ones(4, 3),)).save(directory)
        return {path.name: path.read_bytes() for path in Path(directory).iterdir()}


def files() -> Attempt:
    """directories of exported programs: program.json, weights.safetensors and the program's own files, loaded and called"""
    import numpy as np

    from xla_go import stablehlo

    whole = _exported()
    about = json.loads(whole["program.json"])
    length = int.from_bytes(whole["weights.safetensors"][:8], "little")
    header, rest = json.loads(whole["weights.safetensors"][8 : 8 + length]), whole["weights.safetensors"][8 + length :]
    memory = tempfile.TemporaryDirectory()
    directory = Path(memory.name)

    def changed(p: Any, tree: Any) -> Any:
        """The tree with one place of it removed, replaced by any value, or there twice."""
        tree = json.loads(json.dumps(tree, default=repr))
        node = tree
        while True:
            keys = list(node) if isinstance(node, dict) else list(range(len(node)))
            if not keys:
                return tree
            key = p.PickValueInList(keys)
            if isinstance(node[key], (dict, list)) and p.ConsumeIntInRange(0, 3):
                node = node[key]
                continue
            what = p.ConsumeIntInRange(0, 4)
            if what == 0:
                del node[key]
            elif what == 1 and isinstance(node, list):
                node.append(node[key])
            else:
                node[key] = value(p)
            return json.loads(json.dumps(tree, default=repr))

    def written(p: Any, tree: Any) -> bytes:
        for _ in range(p.ConsumeIntInRange(1, 3)):
            if not isinstance(tree, (dict, list)):
                break
            tree = changed(p, tree)
        return json.dumps(tree).encode()

    def attempt(p: Any) -> None:
        given = dict(whole)
        which = p.ConsumeIntInRange(0, 4)
        if which <= 1:
            given["program.json"] = written(p, about)
        elif which == 2:
            text = written(p, header)
            given["weights.safetensors"] = len(text).to_bytes(8, "little") + text + rest
        else:
            name = p.PickValueInList(sorted(given))
            start = p.ConsumeIntInRange(0, len(given[name]))
            inserted = p.ConsumeBytes(64)
            given[name] = given[name][:start] + inserted + given[name][start + p.ConsumeIntInRange(0, 64) :]
        for name, content in given.items():
            path = directory / name
            if path.exists():
                path.unlink()  # and not written over: an earlier program may have it in memory
            path.write_bytes(content)
        program = stablehlo.load(directory)
        repr(program), program.name, program.arguments, program.results
        program.weights()
        program.readable()
        with contextlib.suppress(TypeError, ValueError):  # inputs of another form than this program's
            program(np.ones((4, 3), np.float32))
        program.close()

    attempt.memory = memory  # type: ignore[attr-defined]
    return attempt


def checkpoints() -> Attempt:
    """directories of checkpoints: names of steps, arguments of the manager, and metadata that tells of other sizes and parts"""
    import torch
    from torch.distributed.checkpoint.metadata import (
        ChunkStorageMetadata,
        Metadata,
        TensorProperties,
        TensorStorageMetadata,
    )

    from xla_go.distributed import checkpoint

    def attempt(p: Any) -> None:
        if p.ConsumeBool():
            with tempfile.TemporaryDirectory() as directory:
                for _ in range(p.ConsumeIntInRange(0, 4)):
                    name = p.PickValueInList(["1", "01", "²", "٣", "-1", "1e3", "9" * 200, ".1.unfinished"]) if p.ConsumeBool() else p.ConsumeUnicodeNoSurrogates(8)
                    if not name or "/" in name or "\0" in name or name in (".", ".."):
                        continue
                    step = Path(directory) / name
                    step.mkdir(exist_ok=True)
                    if p.ConsumeBool():
                        (step / ".metadata").write_bytes(b"")
                manager = checkpoint.CheckpointManager(directory, *[value(p, 1) for _ in range(3)], chkpt_on_preemption=False)
                for step in manager.all_steps():
                    assert (Path(directory) / str(step) / ".metadata").is_file()
                manager.should_save(value(p, 0))
                manager.close()
            return
        sizes = [p.ConsumeIntInRange(0, 5) for _ in range(p.ConsumeIntInRange(0, 3))]
        chunks = []
        for _ in range(p.ConsumeIntInRange(0, 3)):
            rank = p.ConsumeIntInRange(0, 3)
            offsets, lengths = ([p.ConsumeIntInRange(0, 4) for _ in range(rank)] for _ in range(2))
            chunks.append(ChunkStorageMetadata(torch.Size(offsets), torch.Size(lengths)))
        entry = TensorStorageMetadata(TensorProperties(torch.float32), torch.Size(sizes), chunks)
        planner = checkpoint.SPMDLoadPlanner(allow_partial_load=p.ConsumeBool())
        state = {"w": torch.zeros(4, 2, device="xla")}
        planner.set_up_planner(state, Metadata({p.PickValueInList(["w", "v"]): entry}), True)
        try:
            plan = planner.create_local_plan()
        except RuntimeError as error:
            if isinstance(error, errors.XlaError) or not str(error).startswith("Missing key in checkpoint state_dict"):
                raise
            return  # torch's own word for a tensor that is not there
        for item in plan.items:
            planner.resolve_tensor(item)

    return attempt


# --- arguments ------------------------------------------------------------------------------


def meshes() -> Attempt:
    """meshes, partition specs, shardings as text and as parts, and tensors that are divided by them"""
    import torch

    from xla_go import runtime, spmd
    from xla_go.client import sharding
    from xla_go.spmd.sharding import ShardingType

    runtime.use_spmd()
    shapes = [(4,), (2, 2), (1, 4), (4, 1), (1, 2, 2), (-1, -4), (2, -2, -1), (), (0,)]

    def mostly(p: Any, usual: list[Any]) -> Any:
        return p.PickValueInList(usual) if p.ConsumeIntInRange(0, 3) else value(p)

    def texts(p: Any) -> str:
        numbers = [p.PickValueInList(["0", "1", "2", "4", "9999999999", "-1", ""]) for _ in range(6)]
        text = "{devices=[" + ",".join(numbers[:2]) + "]" + ",".join(numbers[2:]) + p.PickValueInList(["", " last_tile_dim_replicate"]) + "}"
        return p.PickValueInList([text, "{replicated}", "{maximal device=" + numbers[0] + "}", "{manual}", p.ConsumeUnicode(20)])

    def attempt(p: Any) -> None:
        what = p.ConsumeIntInRange(0, 4)
        if what == 0:
            sharding.tiled(mostly(p, [(2, 2), (4,)]), mostly(p, [None, [0, 1, 2, 3]]), p.ConsumeBool())
        elif what == 1:
            ShardingType.of(texts(p))
        elif what == 2:
            spmd.visualize_sharding(texts(p), mostly(p, [9]), mostly(p, [80]))
        elif what == 3:
            spmd.HybridMesh(ici_mesh_shape=mostly(p, shapes), dcn_mesh_shape=mostly(p, [None, *shapes]), axis_names=mostly(p, [None]))
        else:
            mesh = spmd.Mesh(mostly(p, [range(4), [3, 1, 0, 2]]), mostly(p, shapes), mostly(p, [None, ("data",), ("data", "x")]))
            mesh.shape(), mesh.get_logical_mesh(), str(mesh), hash(mesh)
            spec = mostly(p, [("data", None), (0, 1), (None, (0, 1)), ("data", "x"), (-1, None), (None, None)])
            mesh.get_op_sharding(spec)
            if p.ConsumeBool():
                t = torch.zeros(p.ConsumeIntInRange(0, 5), 4, device="xla")
                spmd.mark_sharding(t, mesh, spec)
                (t + 1).sum().item()

    return attempt


def steps() -> Attempt:
    """arguments of functions under xla_go.jit: tensors and any values, nested"""
    import torch

    import xla_go

    def total(*args: Any, **kwargs: Any) -> Any:
        leaves: list[Any] = []

        def walk(item: Any) -> None:
            if isinstance(item, dict):
                for key in item:
                    walk(item[key])
            elif isinstance(item, (tuple, list)):
                for each in item:
                    walk(each)
            else:
                leaves.append(item)

        walk((args, kwargs))
        found = torch.zeros((), device="xla")
        for leaf in leaves:
            if isinstance(leaf, torch.Tensor):
                found = found + leaf.sum().float().to("xla")
            elif isinstance(leaf, (int, float)) and abs(leaf) < 2**31:
                found = found + leaf
        return {"total": found, "rest": (found * 2, None)}

    step = xla_go.jit(total)

    def tensor(p: Any) -> torch.Tensor:
        sizes = [p.ConsumeIntInRange(0, 2) for _ in range(p.ConsumeIntInRange(0, 2))]
        t = torch.ones(sizes, dtype=p.PickValueInList([torch.float32, torch.int64, torch.bool, torch.bfloat16]), device=p.PickValueInList(["xla", "xla", "cpu"]))
        return t.requires_grad_() if t.is_floating_point() and not p.ConsumeIntInRange(0, 7) else t

    def attempt(p: Any) -> None:
        args = [tensor(p) if p.ConsumeBool() else value(p, 2) for _ in range(p.ConsumeIntInRange(0, 3))]
        kwargs = {p.PickValueInList(["a", "b", "self", "function"]): value(p, 1)} if p.ConsumeBool() else {}
        wanted = total(*args, **kwargs)["total"].item()
        for _ in range(3):
            got = step(*args, **kwargs)["total"].item()
            assert got == wanted or (math.isnan(got) and math.isnan(wanted)), (got, wanted)

    return attempt


TARGETS: dict[str, tuple[Callable[[], Attempt], Callable[[], Iterator[bytes]], tuple[type[BaseException], ...]]] = {
    "plugins": (plugins, no_seeds, TYPED),
    "programs": (programs, program_seeds, TYPED),
    "files": (files, no_seeds, (errors.XlaError,)),
    "checkpoints": (checkpoints, no_seeds, TYPED),
    "meshes": (meshes, no_seeds, TYPED),
    "steps": (steps, no_seeds, TYPED),
}
