"""xla_go.metrics: torch_xla's names, values and text."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import pytest
import torch

import xla_go
from support import Child
from xla_go import metrics

pytestmark = pytest.mark.once


@pytest.fixture(autouse=True)
def cleared() -> Iterator[None]:
    torch.ones(1, device="xla").cpu()
    xla_go.sync(wait=True)
    metrics.clear_all()
    yield


def test_a_program_is_compiled_once_and_counted() -> None:
    for step in range(3):
        (torch.full((7, 3), float(step)).to("xla") * 3 - 1).sum().cpu()
    assert metrics.counter_value("UncachedCompile") == 1
    assert metrics.counter_value("CachedCompile") == 2
    assert metrics.counter_value("ExecuteComputation") == 3
    data = metrics.metric_data("CompileTime")
    assert data is not None
    total, accumulator, samples = data
    assert total == len(samples) == 1
    assert samples[0][1] == accumulator > 1000  # nanoseconds
    assert abs(samples[0][0] - time.time()) < 60


def test_a_compile_that_sync_started_is_seen() -> None:
    x = torch.ones(17, device="xla")
    for _ in range(50):
        x = (x * 1.5).sin()
    xla_go.sync()
    assert metrics.metric_data("CompileTime") is not None
    y = (x * 2).cos()
    xla_go.sync()
    metrics.clear_all()
    assert y.shape == (17,) and metrics.metric_names() == []


def test_transfers_count_their_bytes() -> None:
    torch.zeros(256, dtype=torch.float32).to("xla").cpu()
    inbound, outbound = metrics.metric_data("InboundData"), metrics.metric_data("OutboundData")
    assert inbound is not None and inbound[1] == 1024
    assert outbound is not None and outbound[1] == 1024


def test_names_and_values_of_what_did_not_happen() -> None:
    assert metrics.counter_value("NoSuchCounter") is None
    assert metrics.metric_data("NoSuchMetric") is None
    assert metrics.counter_names() == sorted(metrics.counter_names())
    assert "CompileTime" not in metrics.metric_names()


def test_clearing() -> None:
    (torch.ones(5, device="xla") + 2).cpu()
    assert metrics.counter_value("ExecuteComputation")
    metrics.clear_counters()
    assert metrics.counter_names() == [] and metrics.metric_names() != []
    metrics.clear_metrics()
    assert metrics.metric_names() == [] and metrics.metrics_report() == ""


def test_report_text() -> None:
    (torch.ones(11, device="xla") + 3).cpu()
    (torch.ones(13, device="xla") + 3).cpu()
    report = metrics.metrics_report()
    block = re.search(
        r"^Metric: CompileTime\n  TotalSamples: 2\n  Accumulator: [0-9dhms.u]+us\n  ValueRate: [0-9dhms.u]+us / second\n"
        r"  Rate: [0-9.e+]+ / second\n  Percentiles: 1%=[0-9dhms.u]+us; 5%=.*; 99%=[0-9dhms.u]+us$",
        report,
        re.MULTILINE,
    )
    assert block, report
    assert re.search(r"^Counter: UncachedCompile\n  Value: 2$", report, re.MULTILINE), report
    assert report.index("Metric: ") < report.index("Counter: ")
    short = metrics.short_metrics_report()
    assert "Metric: CompileTime" in short and "TensorsGraphSize" not in short
    only = metrics.short_metrics_report(counter_names=["UncachedCompile"], metric_names=[])
    assert only == "Counter: UncachedCompile\n  Value: 2\n"


def test_sync_counts_as_a_step() -> None:
    xla_go.sync()
    xla_go.sync(wait=True)
    assert metrics.counter_value("MarkStep") == 2


def test_nothing_here_starts_the_runtime(child: Child) -> None:
    child("""
    import sys, xla_go
    from xla_go import metrics
    assert metrics.counter_names() == [] and metrics.metric_names() == []
    assert metrics.counter_value("MarkStep") is None and metrics.metric_data("CompileTime") is None
    assert metrics.metrics_report() == metrics.short_metrics_report() == ""
    metrics.clear_all()
    xla_go.sync()
    assert "xla_go._native" not in sys.modules
    """)
