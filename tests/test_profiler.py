"""Traces of the runtime's work."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
import torch

import xla_go


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
