"""xla_go.distributed.MpDeviceLoader: batches on the device before they are asked for, and nothing left behind."""

from __future__ import annotations

import collections
import dataclasses
import gc
import random
import threading
import time
import traceback
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

import xla_go
from support import Child
from xla_go import debug, errors, metrics
from xla_go.distributed import MpDeviceLoader, ParallelLoader

pytestmark = pytest.mark.once


class Pair(NamedTuple):
    image: torch.Tensor
    label: torch.Tensor


@dataclasses.dataclass(frozen=True)
class Sample:
    image: torch.Tensor
    parts: list[torch.Tensor]
    name: str


class Marked:
    """Not a container: stays as it is."""


class Movable:
    def __init__(self, value: torch.Tensor) -> None:
        self.value = value

    def to(self, device: Any) -> Movable:
        return Movable(self.value.to(device))


class OwnDict(dict[str, Any]):
    pass


def loader_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("xla_go batch")]


def counted(name: str) -> int:
    return metrics.counter_value(name) or 0


def numbers(count: int) -> list[torch.Tensor]:
    return [torch.full((3,), float(i)) for i in range(count)]


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    gc.collect()
    before = debug.live_counts()
    yield
    gc.collect()
    assert loader_threads() == []
    left = debug.live_counts()
    assert left["buffers"] <= before["buffers"] and left["reads"] == before["reads"], (before, left)


def test_batches_of_any_nesting() -> None:
    marked, shared = Marked(), torch.ones(2, requires_grad=True)
    batch = {
        "list": [torch.zeros(2), 1, "text", None],
        "tuple": (torch.arange(3), marked),
        "named": Pair(torch.ones(2, 2), torch.tensor(3)),
        "ordered": collections.OrderedDict(a=torch.ones(1)),
        "own": OwnDict(a=torch.ones(1)),
        "user": collections.UserDict(a=torch.ones(1)),
        "data": Sample(torch.ones(4), [torch.zeros(1)], "cat"),
        "movable": Movable(torch.ones(1)),
        "twice": [shared, shared],
        "strided": torch.arange(12.0).reshape(3, 4).t()[1:],
        "packed": torch.nn.utils.rnn.pack_sequence([torch.ones(3), torch.ones(2)]),
        "type": int,
    }
    (got,) = MpDeviceLoader([batch], "xla")
    assert [type(value) for value in got.values()] == [type(value) for value in batch.values()]
    assert got["list"][0].device == torch.device("xla:0") and got["list"][1:] == [1, "text", None]
    assert got["tuple"][0].tolist() == [0, 1, 2] and got["tuple"][1] is marked and got["type"] is int
    for moved in (got["named"].label, got["ordered"]["a"], got["own"]["a"], got["user"]["a"], got["data"].image, got["data"].parts[0], got["movable"].value, got["packed"].data):
        assert moved.device.type == "xla"
    assert got["data"].name == "cat" and got["strided"].cpu().equal(batch["strided"])
    assert got["twice"][0] is got["twice"][1] and not got["twice"][0].requires_grad
    assert batch["data"].image.device.type == batch["user"]["a"].device.type == "cpu", "the host's batch was changed"


@pytest.mark.parametrize("threads", [1, 4])
def test_the_order_is_kept(threads: int) -> None:
    class Slow(Movable):
        def to(self, device: Any) -> Movable:
            time.sleep(random.Random(int(self.value[0])).random() / 100)
            return super().to(device)

    loader = MpDeviceLoader([Slow(value) for value in numbers(40)], "xla", host_to_device_transfer_threads=threads)
    assert [int(item.value[0]) for item in loader] == list(range(40)) == [int(item.value[0]) for item in loader]


@pytest.mark.parametrize("threads", [1, 3])
def test_what_is_ahead_is_bounded(threads: int) -> None:
    read = 0

    def batches() -> Iterator[torch.Tensor]:
        nonlocal read
        for value in numbers(100):
            read += 1
            yield value

    before = debug.live_counts()["buffers"]
    loader = MpDeviceLoader(batches(), "xla", loader_prefetch_size=3, device_prefetch_size=2, host_to_device_transfer_threads=threads)
    taken = 0
    for _ in loader:
        taken += 1
        if taken in (1, 5):
            deadline = time.monotonic() + 10
            while read < taken + 5 and time.monotonic() < deadline:
                time.sleep(0.01)
            time.sleep(0.1)
            assert read == taken + 5, "three wait on the host, two on the device"
            assert debug.live_counts()["buffers"] - before <= 3  # the two, and the one in the loop
    assert taken == read == 100


def test_an_error_of_the_data_comes_in_its_place_with_its_lines() -> None:
    def broken() -> Iterator[torch.Tensor]:
        yield from numbers(3)
        raise LookupError("no fourth image")

    seen = []
    loader = iter(MpDeviceLoader(broken(), "xla"))
    with pytest.raises(LookupError, match="no fourth image") as raised:
        for item in loader:
            seen.append(int(item[0]))
    assert seen == [0, 1, 2]
    assert "raise LookupError" in "".join(traceback.format_exception(raised.value))
    assert list(loader) == []


class Broken(torch.utils.data.Dataset[torch.Tensor]):
    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> torch.Tensor:
        if index == 5:
            raise LookupError(f"no image {index}")
        return torch.full((2,), float(index))


@pytest.mark.parametrize("workers", [0, 1])
def test_an_error_of_a_dataset(workers: int) -> None:
    seen = []
    with pytest.raises(LookupError, match="no image 5"):
        for item in MpDeviceLoader(torch.utils.data.DataLoader(Broken(), batch_size=2, num_workers=workers), "xla"):
            seen += item[:, 0].tolist()
    assert seen == [0, 1, 2, 3]


@pytest.mark.parametrize("kind", [ArithmeticError, StopIteration])
def test_an_error_of_a_transfer_comes_in_its_place_with_its_lines(kind: type[Exception]) -> None:
    class Refuses(Movable):
        def to(self, device: Any) -> Movable:
            raise kind("does not move")

    seen = []
    expected = RuntimeError if kind is StopIteration else kind
    loader = iter(MpDeviceLoader([*numbers(3), Refuses(torch.ones(1)), *numbers(3)], "xla", host_to_device_transfer_threads=2))
    with pytest.raises(expected) as raised:
        for item in loader:
            seen.append(int(item[0]))
    assert seen == [0, 1, 2]
    assert 'raise kind("does not move")' in "".join(traceback.format_exception(raised.value))
    assert list(loader) == []


def endless() -> Iterator[torch.Tensor]:
    while True:
        yield torch.ones(1000)


def test_leaving_the_loop_ends_the_threads_at_once() -> None:
    before = debug.live_counts()["buffers"]
    loader = MpDeviceLoader(endless(), "xla")
    for _ in loader:
        assert len(loader_threads()) == 2
        break
    assert loader_threads() == []
    del _
    assert debug.live_counts()["buffers"] == before

    def raises() -> None:
        for _ in MpDeviceLoader(endless(), "xla"):
            raise ArithmeticError

    with pytest.raises(ArithmeticError):
        raises()
    assert loader_threads() == []


def test_close_and_garbage_end_the_threads() -> None:
    before = debug.live_counts()["buffers"]
    loader = MpDeviceLoader(endless(), "xla")
    iterator = iter(loader)
    next(iterator)
    loader.close()
    assert loader_threads() == [] and debug.live_counts()["buffers"] == before
    assert list(iterator) == []
    loader.close()

    parallel = ParallelLoader(endless(), ["xla"])
    iterator = parallel.per_device_loader("xla")
    next(iterator)
    iterator.close()
    assert loader_threads() == [] and list(iterator) == []

    iterator = iter(MpDeviceLoader(endless(), "xla"))
    cycle: list[Any] = [iterator, next(iterator)]
    cycle.append(cycle)
    del iterator, cycle
    assert len(loader_threads()) == 2
    gc.collect()
    assert loader_threads() == [] and debug.live_counts()["buffers"] == before


def test_a_data_loader_that_does_not_come_back_is_told_of(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr("xla_go.distributed._pipeline._PATIENCE", 0.3)
    blocked, released = threading.Event(), threading.Event()

    def stuck() -> Iterator[torch.Tensor]:
        yield torch.ones(1)
        blocked.set()
        released.wait(60)
        yield torch.ones(1)

    iterator = iter(MpDeviceLoader(stuck(), "xla"))
    next(iterator)
    assert blocked.wait(60)
    with caplog.at_level("WARNING", logger="xla_go"):
        del iterator  # gives up, where close() would wait
    assert "has not given its batch" in caplog.text and loader_threads() == ["xla_go batch reader"]
    released.set()
    deadline = time.monotonic() + 60
    while loader_threads() and time.monotonic() < deadline:
        time.sleep(0.01)


def test_iterating_again_and_side_by_side() -> None:
    loader = MpDeviceLoader(torch.utils.data.DataLoader(torch.arange(10.0), batch_size=3), "xla")
    for _ in range(3):
        assert [item.tolist() for item in loader] == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9]]
    assert len(loader) == len(iter(loader)) == 4
    first, second = iter(loader), iter(loader)
    assert next(second).tolist() == [0, 1, 2]
    with pytest.raises(errors.FailedPreconditionError, match="newest iterator"):
        next(first)
    assert len(list(second)) == 3
    with pytest.raises(TypeError):
        len(MpDeviceLoader(endless(), "xla"))


@pytest.mark.parametrize(("each", "marks"), [(1, 7), (2, 4), (3, 3), (10, 2)])
def test_a_step_ends_after_each_execution(each: int, marks: int) -> None:
    before, pending = counted("MarkStep"), torch.ones(1, device="xla")
    pending += 1
    for _ in MpDeviceLoader(numbers(6), "xla", batches_per_execution=each):
        pass
    assert counted("MarkStep") - before == marks  # before each round, and after the last one
    assert pending.item() == 2


@pytest.mark.parametrize("persistent", [False, True])
def test_workers(persistent: bool) -> None:
    data = torch.utils.data.TensorDataset(torch.arange(12.0).reshape(6, 2), torch.arange(6))
    host = torch.utils.data.DataLoader(data, batch_size=2, num_workers=2, persistent_workers=persistent)
    loader = MpDeviceLoader(host, "xla")
    for _ in range(2):
        assert [labels.tolist() for _, labels in loader] == [[0, 1], [2, 3], [4, 5]]
        for _ in loader:
            break


def test_shuffling_is_that_of_the_data_loader() -> None:
    host = torch.utils.data.DataLoader(torch.arange(20), batch_size=4, shuffle=True, num_workers=1)
    torch.manual_seed(7)
    expected = [item.tolist() for item in host]
    torch.manual_seed(7)
    assert [item.tolist() for item in MpDeviceLoader(host, "xla")] == expected


def test_arguments_are_checked() -> None:
    for name in ("batches_per_execution", "loader_prefetch_size", "device_prefetch_size", "host_to_device_transfer_threads"):
        for wrong in (0, 1.5, True):
            with pytest.raises(ValueError, match=f"{name}: expected a number of at least 1"):
                iter(MpDeviceLoader([], "xla", **{name: wrong}))
    with pytest.raises(ValueError, match="expected an xla device, got cpu"):
        iter(MpDeviceLoader([], "cpu"))
    with pytest.raises(ValueError, match="below 1"):
        iter(MpDeviceLoader([], "xla:9"))
    with pytest.raises(ValueError, match="expected devices that differ"):
        ParallelLoader([], ["xla:0", "xla"])
    with pytest.raises(errors.FailedPreconditionError, match="use_spmd"):
        iter(MpDeviceLoader([], "xla", input_sharding={}))
    with pytest.raises(TypeError, match="prefetch"):
        iter(MpDeviceLoader([], "xla", prefetch=1))


def test_a_training_loop_compiles_once_for_each_size() -> None:
    torch.manual_seed(0)
    model = torch.nn.Linear(5, 1).to("xla")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = torch.randn(22, 5)

    def padded() -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        for part in data.split(4):
            yield xla_go.pad_to_bucket(part, [4])

    compiles, losses = [], []
    for _ in range(3):
        total = torch.zeros((), device="xla")
        for batch, valid in MpDeviceLoader(padded(), "xla"):
            optimizer.zero_grad()
            loss = ((model(batch).squeeze(1) - 1).square() * valid).sum() / valid.sum()
            loss.backward()
            optimizer.step()
            total += loss.detach()
        losses.append(total.item())
        compiles.append(counted("UncachedCompile"))
        del batch, valid, loss, total
    assert compiles[1] == compiles[2] and losses[2] < losses[0]
    optimizer.zero_grad()


def test_time_is_measured() -> None:
    def observed(name: str) -> int:
        data = metrics.metric_data(name)
        return data[0] if data else 0

    names = ("BatchLoadTime", "BatchTransferTime", "BatchWaitTime")
    list(MpDeviceLoader(numbers(1), "xla"))
    before = [observed(name) for name in names]
    list(MpDeviceLoader(numbers(5), "xla"))
    assert [observed(name) - start for name, start in zip(names, before, strict=True)] == [6, 5, 6]


def test_a_forked_child_leaves_the_threads_alone(child: Child) -> None:
    child("""
    import gc, os, torch, xla_go, warnings
    warnings.simplefilter("ignore")
    from xla_go.distributed import MpDeviceLoader
    iterator = iter(MpDeviceLoader([torch.ones(2)] * 50, "xla"))
    next(iterator)
    pid = os.fork()
    if pid == 0:
        del iterator
        gc.collect()
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
    assert len(list(iterator)) == 49
    """)


def test_a_process_ends_in_the_middle_of_a_loop(child: Child) -> None:
    done = child(
        """
    import torch, xla_go
    from xla_go.distributed import MpDeviceLoader
    def endless():
        while True:
            yield torch.ones(1000)
    iterator = iter(MpDeviceLoader(endless(), "xla"))
    print(next(iterator).sum().item())
    raise SystemExit(3)
    """,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (3, "1000.0\n", "")


def test_devices_in_turn_and_replicas(child: Child) -> None:
    child(
        """
    import threading, torch, xla_go
    from xla_go import distributed
    from xla_go.distributed import MpDeviceLoader, ParallelLoader
    data = [torch.full((2,), float(i)) for i in range(11)]
    parallel = ParallelLoader(data, ["xla:0", "xla:2", "xla:1"])
    loaders = {device: parallel.per_device_loader(device) for device in ("xla:0", "xla:1", "xla:2")}
    assert parallel.per_device_samples() == len(loaders["xla:0"]) == 3
    got = {device: [next(loader) for _ in range(3)] for device, loader in loaders.items()}
    assert {device: [int(x[0]) for x in items] for device, items in got.items()} == {"xla:0": [0, 3, 6], "xla:2": [1, 4, 7], "xla:1": [2, 5, 8]}
    assert all(str(x.device) == device for device, items in got.items() for x in items)
    assert all(list(loader) == [] for loader in loaders.values()) and parallel.next_item("xla:0") is None
    try:
        parallel.per_device_loader("xla:3")
    except ValueError as error:
        assert "xla:0, xla:2, xla:1" in str(error)
    else:
        raise AssertionError
    del parallel, loaders, got

    def broken():
        yield from data[:5]
        raise LookupError("the end")
    parallel = ParallelLoader(broken(), ["xla:0", "xla:1"])
    for device, kind in (("xla:0", LookupError), ("xla:1", xla_go.errors.AbortedError)):
        seen = 0
        try:
            for _ in parallel.per_device_loader(device):
                seen += 1
        except kind as error:
            assert seen == 2 and "the end" in str(error)
        else:
            raise AssertionError(device)
        assert list(parallel.per_device_loader(device)) == []
    del parallel

    def only_one_is_told():
        parallel = ParallelLoader(broken(), ["xla:0", "xla:1"], device_prefetch_size=1)
        try:
            for _ in zip(parallel.per_device_loader("xla:0"), parallel.per_device_loader("xla:1")):
                pass
        except LookupError:
            return
        raise AssertionError
    only_one_is_told()
    import gc; gc.collect()
    assert [t.name for t in threading.enumerate() if t.name.startswith("xla_go batch")] == []

    shared = MpDeviceLoader(data, "xla")     # each replica reads all of it, on its own device
    def run(ordinal):
        total, devices = torch.zeros(2, device="xla"), set()
        for x in shared:
            devices.add(str(x.device))
            total += distributed.all_reduce("sum", x)
        assert devices == {f"xla:{ordinal}"}
        for x in shared:
            break
        return total.tolist()
    assert distributed.launch(run) == [[220.0, 220.0]] * 4
    assert [t.name for t in threading.enumerate() if t.name.startswith("xla_go batch")] == []
    """,
        env={"CPU_NUM_DEVICES": "4"},
    )


SPMD = """
    import time, torch, xla_go
    from xla_go import debug, metrics, runtime, spmd
    from xla_go.distributed import MpDeviceLoader
    runtime.use_spmd()
    mesh = spmd.Mesh(range(8), (4, 2), ("data", "model"))
    rows = spmd.ShardingSpec(mesh, ("data", None), minibatch=True)
    spec_of = lambda t: spmd.XLAShardedTensor(t).sharding_spec
    TILED = "{devices=[4,1,2]0,1,2,3,4,5,6,7 last_tile_dim_replicate}"
"""


@pytest.mark.parametrize("ifrt", ["0", "1"])
def test_batches_go_over_in_shards(child: Child, ifrt: str) -> None:
    child(
        SPMD
        + """
    def outbound():
        data = metrics.metric_data("OutboundData")
        return (data[0], data[1]) if data else (0, 0)

    data = [(torch.arange(24.0).reshape(8, 3) + i, torch.arange(8)) for i in range(4)]
    count, sent = outbound()
    for i, (images, labels) in enumerate(MpDeviceLoader(data, "xla", input_sharding=rows)):
        assert type(images) is torch.Tensor and spec_of(images) == TILED and spec_of(labels) == ""
        assert torch.equal(images.cpu(), data[i][0])
    assert outbound()[1] - sent == 4 * 8 * (2 * 3 * 4), outbound()   # eight shards of two rows; labels are read on the host
    assert metrics.metric_data("CompileTime") is None

    by_key = {"x": rows, "y": spmd.ShardingSpec(mesh, ("data",)), "whole": None, "nested": rows}
    batch = {"x": data[0][0], "y": data[0][1], "whole": torch.ones(3), "nested": [data[0][0], torch.ones(7, 3)]}
    (got,) = MpDeviceLoader([batch], "xla", input_sharding=by_key)
    assert [spec_of(t) for t in (got["x"], got["y"], got["whole"], *got["nested"])] == [TILED, TILED.replace("4,1,2", "4,2"), "", TILED, TILED]
    assert got["nested"][1].sum().item() == 21 and (got["x"].sum() + got["y"].sum()).item() == 276 + 28

    for wrong, kind, part in (([batch["x"]], ValueError, "expected a dict as batch"), ([{**batch, "z": 1}], KeyError, "['z']")):
        try:
            list(MpDeviceLoader(wrong, "xla", input_sharding=by_key))
        except kind as error:
            assert part in str(error), error
        else:
            raise AssertionError("expected an error")

    # What a trainer does: one program for all batches, which go over while others compute.
    model = torch.nn.Linear(3, 1).to("xla")
    loader = MpDeviceLoader(data, "xla")
    loader._parallel_loader_kwargs["input_sharding"] = rows
    seen = []
    for _ in range(3):
        for images, _ in loader:
            loss = model(images).square().mean()
            loss.backward()
            for p in model.parameters():
                p.data -= 1e-3 * p.grad
                p.grad = None
        seen.append(metrics.counter_value("UncachedCompile"))
    assert seen[1] == seen[2], seen
    del images, labels, got, loss, batch, model, p, _, loader
    xla_go.sync(wait=True)
    runtime.wait_device_ops()
    deadline = time.monotonic() + 10  # a step lets go of what it took once it is known to have ended
    while debug.live_counts()["buffers"] and time.monotonic() < deadline:
        time.sleep(0.01)
    assert debug.live_counts()["buffers"] == 0, debug.live_buffers()
    """,
        env={"CPU_NUM_DEVICES": "8", "XLA_USE_IFRT": ifrt},
    )


def test_a_shard_that_fails_raises_in_the_loop(child: Child, proxy: Path) -> None:
    import importlib.util

    spec = importlib.util.find_spec("fastatomstruct_xla_cpu")
    assert spec is not None and spec.origin is not None
    environment = {"PJRT_DEVICE": "CPU", "CPU_NUM_DEVICES": "8", "XLA_GO_PLUGIN_PATH": str(proxy), "XLA_GO_TEST_PROXIED": str(Path(spec.origin).parent / "libpjrt_cpu.so")}
    child(
        SPMD
        + f"""
    import ctypes
    proxy = ctypes.CDLL({str(proxy)!r})
    proxy.refuse.argtypes = [ctypes.c_char_p, ctypes.c_int64, ctypes.c_int]
    data = [torch.full((8, 3), float(i)) for i in range(6)]
    assert len(list(MpDeviceLoader(data, "xla", input_sharding=rows))) == 6
    proxy.refuse(b"transfer", 8 * 3 + 5, 8)     # of the fourth batch the fifth shard
    seen = []
    try:
        for x in MpDeviceLoader(data, "xla", input_sharding=rows):
            seen.append(x.sum().item())
    except xla_go.errors.ResourceExhaustedError as error:
        assert "the proxy refuses transfer" in str(error) and seen == [0, 24, 48], (error, seen)
    else:
        raise AssertionError(f"expected an error, got {{seen}}")
    assert len(list(MpDeviceLoader(data, "xla", input_sharding=rows))) == 6
    """,
        env=environment,
    )


def test_under_torch_xlas_names(child: Child) -> None:
    child("""
    import xla_go; xla_go.compat.install()
    import torch, torch_xla, torch_xla.core.xla_model as xm, torch_xla.distributed.parallel_loader as pl
    device = xm.xla_device()
    assert issubclass(pl.MpDeviceLoader, xla_go.distributed.MpDeviceLoader)
    loader = pl.MpDeviceLoader(torch.utils.data.DataLoader(torch.arange(6.0), batch_size=2), device, loader_prefetch_size=2, device_prefetch_size=1)
    assert [x.tolist() for x in loader] == [[0, 1], [2, 3], [4, 5]] and len(loader) == 3
    para = pl.ParallelLoader(loader._loader, [device])
    assert isinstance(para.per_device_loader(device), pl.PerDeviceLoader) and len(list(para.per_device_loader(device))) == 3
    moved = xm.send_cpu_data_to_device([torch.ones(2), {"a": [torch.ones(1)]}], device)
    assert moved[0].device == moved[1]["a"][0].device == device
    assert xm.send_cpu_data_to_device(torch.ones(2), device)[0].tolist() == [1, 1]
    try:
        pl.PerDeviceQueue
    except AttributeError as error:
        assert "PerDeviceQueue is not provided" in str(error)
    else:
        raise AssertionError
    """)


def test_iterators_are_not_kept_alive_by_their_threads() -> None:
    iterator = iter(MpDeviceLoader(endless(), "xla"))
    next(iterator)
    gone = weakref.ref(iterator)
    del iterator
    assert gone() is None and loader_threads() == []
