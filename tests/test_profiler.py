"""Traces of the runtime's work."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

import pytest
import torch

import xla_go
from support import Child


def test_a_step_in_a_trace(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    before = time.time() * 1e6
    with xla_go.profiler.trace(path):
        x = torch.randn(67, 5).to("xla")
        (x @ x.t()).sum().item()
    after = time.time() * 1e6
    events = json.loads(path.read_text())["traceEvents"]
    spans = {event["name"]: event for event in events if event["ph"] == "X"}
    assert {"TransferToDeviceTime", "GraphCutTime", "LoweringTime", "CompileTime", "ExecuteTime", "ReadTime"} <= set(spans)
    for event in spans.values():
        assert before - 1e4 <= event["ts"] <= event["ts"] + event["dur"] <= after + 1e4, event
    order = ["GraphCutTime", "LoweringTime", "CompileTime", "ExecuteTime"]
    assert order == sorted(order, key=lambda name: spans[name]["ts"])
    read, run = spans["ReadTime"], spans["ExecuteTime"]
    assert read["ts"] + read["dur"] >= run["ts"], "the read has ended before the run began"


def test_overlapping_spans_have_rows_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    x = torch.randn(300, 300).to("xla")
    with xla_go.profiler.trace(path):
        for _ in range(20):
            x = x @ x / 20
            xla_go.sync()
    ends: dict[int, float] = {}
    runs = 0
    for event in sorted((e for e in json.loads(path.read_text())["traceEvents"] if e["ph"] == "X"), key=lambda e: e["ts"]):
        assert ends.get(event["tid"], 0) <= event["ts"]
        ends[event["tid"]] = event["ts"] + event["dur"]
        runs += event["name"] == "ExecuteTime"
    assert runs == 20


def test_torchs_own_profiler(tmp_path: Path) -> None:
    """It tells of the host's time: the operators by name and shape, for its table, a trace and TensorBoard's folder."""
    model = torch.nn.Linear(7, 3).to("xla")
    keep = torch.profiler.tensorboard_trace_handler(str(tmp_path))
    profile = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True, on_trace_ready=keep)
    with profile, torch.profiler.record_function("one step"):
        model(torch.randn(2, 7, device="xla")).sum().backward()
        xla_go.sync()
    found = {event.key: event for event in profile.key_averages(group_by_input_shape=True)}
    assert {"one step", "aten::linear", "aten::sum"} <= set(found) and found["aten::linear"].input_shapes[:2] == [[2, 7], [3, 7]]
    (file,) = tmp_path.glob("*.pt.trace.json")
    assert {"one step", "aten::linear"} <= {event.get("name") for event in json.loads(file.read_text())["traceEvents"]}


def test_one_trace_at_a_time(tmp_path: Path) -> None:
    refused = pytest.raises(xla_go.errors.FailedPreconditionError, match="going on")
    with xla_go.profiler.trace(tmp_path / "a"), refused, xla_go.profiler.trace(tmp_path / "b"):
        pass
    assert (tmp_path / "a").exists() and not (tmp_path / "b").exists()
    with pytest.raises(ZeroDivisionError), xla_go.profiler.trace(tmp_path / "c"):
        (torch.ones(3).to("xla") + 1).cpu()
        _ = 1 / 0
    assert (tmp_path / "c").exists()
    with xla_go.profiler.trace(tmp_path / "d"):
        pass
    assert json.loads((tmp_path / "d").read_text())["traceEvents"]


def test_a_trace_has_the_programs_that_ran(tmp_path: Path) -> None:
    x = torch.randn(5, 5).to("xla")
    before = xla_go.debug.record_stacks()
    try:
        with xla_go.debug.scope("named by the user"):
            y = x @ x
    finally:
        xla_go.debug.record_stacks(before)
    with xla_go.profiler.trace(tmp_path / "trace"):
        xla_go.sync()
    written = (tmp_path / "trace.xplane.pb").read_bytes()
    assert b"/host:metadata" in written and b"Hlo Proto" in written
    assert b"named by the user" in written and b"dot" in written
    assert y.shape == (5, 5)
    with xla_go.profiler.trace(tmp_path / "empty"):
        pass
    assert b"/host:metadata" not in (tmp_path / "empty.xplane.pb").read_bytes()


PROFILED = """
    import json, os, sys, time, warnings
    import xla_go
    xla_go.client.default_device()  # the runtime has started before the block
    if os.path.exists("trace.json.xplane.pb"):
        os.remove("trace.json.xplane.pb")
    begin = time.time_ns()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with xla_go.profiler.trace("trace.json"):
            time.sleep(0.01)
    events = json.load(open("trace.json"))["traceEvents"]
    (plane,) = [e for e in events if e["ph"] == "M" and e["args"]["name"] == "/device:TEST:0"] or [None]
    mine = [e for e in events if plane and e["pid"] == plane["pid"] and e["ph"] == "X"]
    kept = os.path.exists("trace.json.xplane.pb") and b"profiled" in open("trace.json.xplane.pb", "rb").read()
    print([e["name"] for e in mine], kept, [str(w.message) for w in caught])
    assert all(begin / 1e3 <= e["ts"] and e["dur"] >= 1e4 for e in mine)
"""


@pytest.fixture(scope="session")
def test_plugin(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    library = tmp_path_factory.mktemp("plugin") / "plugin.so"
    sources = sorted((root / "pjrt" / "testplugin" / "source").glob("*.c"))
    command = ["cc", "-std=gnu11", "-fPIC", "-shared", "-fvisibility=hidden", f"-I{root / 'pjrt'}", *map(str, sources), "-o", str(library), "-lpthread", "-lm"]
    subprocess.run(command, check=True)
    return library


def test_the_plugins_own_events(child: Child, test_plugin: Path) -> None:
    environment = {"XLA_GO_PLUGIN_PATH": str(test_plugin)}
    assert child(PROFILED, env=environment).stdout == "['profiled'] True []\n"
    failing = child(PROFILED, env=environment | {"TESTPLUGIN_OPTIONS": "fail:profiler.stop=10"}).stdout
    assert failing.startswith("[] False [") and "the test asked the profiler for a failure" in failing


def test_spans_as_a_plane() -> None:
    from xla_go import _xspace

    plane = _xspace.plane("host", [("row", [("a", 1000, 300), ("b", 2000, 1)])])
    events = "22 08 08 01 10 00 18 e0 a7 12" + "22 09 08 02 10 c0 84 3d 18 e8 07"  # metadata, offset and duration in picoseconds
    line = "1a 1f 08 01 12 03 72 6f 77 18 e8 07" + events  # begins at 1,000 ns
    names = "22 09 08 01 12 05 08 01 12 01 61" + "22 09 08 02 12 05 08 02 12 01 62"
    assert plane == bytes.fromhex("0a 3d 12 04 68 6f 73 74" + line + names)
