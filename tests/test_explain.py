"""`python -m xla_go explain`, and the small commands beside it."""

from __future__ import annotations

import base64
import itertools
import json
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import documents
from support import DEVICE_VARIABLES
from xla_go.explain import intervals

pytestmark = pytest.mark.once

Command = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def command(tmp_path: Path) -> Command:
    """Runs `python -m xla_go` with arguments in an empty directory, where `script` is written as train.py first."""

    def run(*arguments: str, script: str = "", flags: tuple[str, ...] = ("-m", "xla_go"), **env: str) -> subprocess.CompletedProcess[str]:
        if script:
            (tmp_path / "train.py").write_text(textwrap.dedent(script), encoding="utf-8")
        environment = {name: value for name, value in os.environ.items() if name not in DEVICE_VARIABLES} | env
        return subprocess.run([sys.executable, *flags, *arguments], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False)

    return run


TRAIN = """
    import pickle, sys
    import torch
    import xla_go

    class Own:
        pass

    print(sys.argv, __name__, __file__, sys.path[0] == sys.argv[1], type(pickle.loads(pickle.dumps(Own()))) is Own)
    model = torch.nn.Linear(8, 3).to("xla")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(size):
        optimizer.zero_grad()
        model(torch.ones(size, 8).to("xla")).square().mean().backward()
        optimizer.step()

    for size in (4, 5, 6, 7, 4, 5):
        step(size)
    for i in range(4):
        value = (model.weight.detach().sum() + i).item()
    values = torch.linalg.eig(torch.eye(3, device="xla"))[0]
    with xla_go.profiler.trace("trace.json"):
        xla_go.sync(wait=True)
    sys.exit(3)
"""


def line_of(text: str) -> int:
    return next(i for i, line in enumerate(textwrap.dedent(TRAIN).splitlines(), 1) if text in line)


def test_the_report_of_a_script(command: Command, tmp_path: Path) -> None:
    done = command("explain", "--json", "record.json", "train.py", str(tmp_path), "--lr", "1", script=TRAIN)
    assert done.returncode == 3, done.stderr
    assert done.stdout == f"['train.py', {str(tmp_path)!r}, '--lr', '1'] __main__ {tmp_path / 'train.py'} True True\n"
    text = done.stderr
    step, item, eig = (f"train.py:{line_of(part)}" for part in ("optimizer.step()", ".item()", "linalg.eig"))
    assert "exit status 3, CPU, 1 device" in text
    # What stands out.
    assert re.search(rf"- {step} in step: [456] programs were compiled, .*; [34] of them because inputs have other sizes", text), text
    assert f"{item} in <module>: a read has ended the graph 4 times" in " ".join(text.split())
    assert "Operators ran on the CPU once (linalg_eig)" in text
    # Tables.
    assert re.search(rf" 3 +[\d.]+ +\d+  {step} in step +optimizer.step\(\) +input 0: f32\[6,8\] → f32\[7,8\]", text), text
    assert re.search(rf"^ +6 +[456] +\d+  optimizer step +{step} in step +optimizer.step\(\)$", text, re.MULTILINE), text
    assert re.search(rf"^ +4 +[12] +\d+  read of a value +{item} in <module>", text, re.MULTILINE), text
    assert re.search(rf"^ +4 +[\d.]+  {item} in <module> +value = ", text, re.MULTILINE), text
    assert re.search(rf"^ +1 +[\d.]+  {eig} in <module>", text, re.MULTILINE), text
    assert re.search(r"^ +1  linalg_eig$", text, re.MULTILINE)
    record = json.loads((tmp_path / "record.json").read_text())
    outbound = record["metrics"]["OutboundData"]
    assert re.search(rf"^  to the device +{outbound[0]} +", text, re.MULTILINE) and outbound[1] >= 4 * 8 * (4 + 5 + 6 + 7 + 4 + 5 + 3)
    # The split: each moment once.
    shares = [float(seconds) for seconds in re.findall(r"^ +([\d.]+) s +<?\d+%  ", text, re.MULTILINE)]
    assert sum(shares) == pytest.approx(record["ended"] - record["begun"], abs=0.01) and "waiting for compiles" in text
    # The first step of an optimizer loads parts of torch.
    assert re.search(r"Python and tracing +.*, and imports on the way: \d{3,} modules, most of \S+ and \S+$", text, re.MULTILINE)
    # The script's own trace was not in the way.
    assert json.loads((tmp_path / "trace.json").read_text())["traceEvents"]


def test_the_page_holds_all_it_needs(command: Command, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    done = command("explain", "--html", "page.html", "train.py", "<&>", script=TRAIN)
    assert done.returncode == 3 and done.stderr.endswith("explain: page written to page.html\n")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    pictures = re.findall(r'<img alt="([^"]+)" src="data:image/svg\+xml;base64,([^"]+)">', page)
    assert [name for name, _ in pictures] == ["Where the time went", "What happened when", "From step to step", "Compiles by line"]
    for _, picture in pictures:
        assert b"<svg" in base64.b64decode(picture) and b"<image" not in base64.b64decode(picture)
    rest = re.sub(r"base64,[^\"]+", "", page)
    assert not re.search(r"<script|<link|https?://|src=\"(?!data:)|@import|url\(", rest)
    for part in ("&lt;&amp;&gt;", "linalg_eig", "input 0: f32[6,8] → f32[7,8]", f"train.py:{line_of('.item()')} in &lt;module&gt;", "<h2>Transfers</h2>"):
        assert part in rest, part
    assert "<&>" not in rest and page.count("<table>") == 5


@pytest.mark.parametrize(
    ("end", "status"),
    [
        ("raise LookupError('lost')", 1),
        pytest.param("sys.exit('told')", 1, marks=pytest.mark.slow),
        pytest.param("sys.exit()", 0, marks=pytest.mark.slow),
        pytest.param("def broken(:", 1, marks=pytest.mark.slow),
        ("os.kill(os.getpid(), signal.SIGINT)", -2),
    ],
)
def test_how_a_script_ends_is_as_without(command: Command, end: str, status: int) -> None:
    script = f"import os, signal, sys, torch, xla_go\nprint(torch.ones(2, device='xla').sum().item())\ndef f():\n    {end}\nf()\n"
    plain = command("train.py", script=script, flags=())
    done = command("explain", "--no-html", "train.py", script=script)
    assert plain.returncode == status and done.returncode == (130 if status < 0 else status) and done.stdout == plain.stdout
    shown, _, report = done.stderr.partition("\nexplain: train.py: ")
    assert report.startswith(tuple("0123456789")) and f"exit status {done.returncode}" in report
    if status >= 0:
        assert shown == plain.stderr
    else:
        assert shown.endswith("KeyboardInterrupt\n")


@pytest.mark.parametrize(("end", "status", "words"), [("os._exit(5)", 5, "ended with status 5"), ("os.kill(os.getpid(), signal.SIGKILL)", 137, "SIGKILL has ended")])
def test_a_script_that_leaves_no_record(command: Command, tmp_path: Path, end: str, status: int, words: str) -> None:
    done = command("explain", "train.py", script=f"import os, signal\n{end}\n")
    assert done.returncode == status and words in done.stderr and not (tmp_path / "explain.html").exists()


def test_a_script_without_the_device(command: Command, tmp_path: Path) -> None:
    done = command("explain", "train.py", script="print('nothing')\n")
    assert done.returncode == 0 and done.stdout == "nothing\n" and "did not use the device" in done.stderr
    assert command("explain", "nowhere.py").returncode == 2


def test_without_matplotlib(command: Command, tmp_path: Path) -> None:
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "sitecustomize.py").write_text("import sys; sys.modules['matplotlib'] = None\n")
    done = command("explain", "train.py", script="print('ran')\n", PYTHONPATH=str(hidden))
    assert done.returncode == 0 and done.stdout == "ran\n" and "no page: the page's plots need matplotlib" in done.stderr
    done = command("explain", "--html", "page.html", "train.py", PYTHONPATH=str(hidden))
    assert done.returncode == 2 and done.stdout == "" and "pip install 'xla-go[explain]'" in done.stderr


def test_processes_of_the_script_are_not_told_of(command: Command) -> None:
    done = command(
        "explain", "--no-html", "train.py",
        script="""
        import os, sys, torch, xla_go
        if __name__ == "__main__":
            import torch.multiprocessing as mp
            pid = os.fork()
            if pid == 0:
                sys.exit(0)
            os.waitpid(pid, 0)
            loader = torch.utils.data.DataLoader(torch.arange(4.0), num_workers=1, multiprocessing_context="spawn")
            print([batch.to("xla").item() for batch in loader])
        """,
    )  # fmt: skip
    assert done.returncode == 0 and done.stdout == "[0.0, 1.0, 2.0, 3.0]\n", done.stderr
    assert done.stderr.count("explain: train.py: ") == 1 and re.search(r"^ +4 +[\d.]+  train.py:\d+ in <listcomp>|^ +4 +[\d.]+  train.py:\d+ in <module>", done.stderr, re.MULTILINE), done.stderr


def test_several_devices(command: Command, tmp_path: Path) -> None:
    partitioned = """
    import torch, xla_go
    from xla_go import runtime, spmd
    from xla_go.distributed import MpDeviceLoader
    runtime.use_spmd()
    rows = spmd.ShardingSpec(spmd.Mesh(range(8), (8,), ("data",)), ("data", None))
    weight = torch.ones(4, 4).to("xla")
    for x in MpDeviceLoader([torch.ones(16, 4)] * 3, "xla", input_sharding=rows):
        weight.add_((x @ weight).exp().sum())
        xla_go.sync()
    """
    done = command("explain", "--no-html", "--json", "record.json", "train.py", script=partitioned, CPU_NUM_DEVICES="8")
    assert done.returncode == 0 and "CPU, 8 devices" in done.stderr, done.stderr
    # The second sync has to know how the first one's results lie, and waits for its compile.
    record = json.loads((tmp_path / "record.json").read_text())
    waited = re.search(r"^ +([\d.]+) s +<?\d+%  waiting for compiles", done.stderr, re.MULTILINE)
    compiled = sum(one["seconds"] for one in record["compiles"])
    assert waited is not None and float(waited.group(1)) > 0.5 * record["compiles"][0]["seconds"] and float(waited.group(1)) <= compiled + 0.5, done.stderr

    replicas = """
    import torch, xla_go
    from xla_go import distributed
    def run(ordinal):
        return distributed.all_reduce("sum", torch.ones(2, device="xla")).tolist()
    print(distributed.launch(run)[0])
    """
    done = command("explain", "--no-html", "train.py", script=replicas, CPU_NUM_DEVICES="2")
    assert done.returncode == 0 and done.stdout == "[2.0, 2.0]\n", done.stderr
    assert re.search(r"^ +2 +\d +\d+  read of a value +train.py:5 in run", done.stderr, re.MULTILINE), done.stderr


def test_a_line_that_waits_long_is_told_all_the_same(command: Command) -> None:
    done = command(
        "explain", "--no-html", "train.py",
        script="""
        import time, torch
        import xla_go
        count, took, reads = 4, 0.0, 0
        while took < 1.3:
            x = torch.full((1024, 1024), 1e-3, device="xla")
            for _ in range(count):
                x = x @ x
            begun = time.time()
            x[0, 0].item()
            took, count, reads = time.time() - begun, count * 2, reads + 1
        print(reads)
        """,
    )  # fmt: skip
    reads = int(done.stdout)
    assert re.search(rf"^ +{reads} +{reads} +\d+  read of a value  train.py:10 in <module>", done.stderr, re.MULTILINE) and "(no Python code)" not in done.stderr, done.stderr
    assert re.search(rf"^ +{reads} +[\d.]+  train.py:10 in <module>", done.stderr, re.MULTILINE)


def test_torch_xlas_names(command: Command) -> None:
    script = "import torch, torch_xla\nprint(torch.ones(2, device=torch_xla.device()).sum().item())\n"
    assert command("explain", "--no-html", "train.py", script=script).returncode == 1
    done = command("explain", "--no-html", "--compat", "train.py", script=script)
    assert done.returncode == 0 and done.stdout == "2.0\n", done.stderr


def test_the_script_of_the_document(command: Command, root: Path) -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```$", (root / "docs" / "command-line.md").read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    done = command("explain", "--no-html", "train.py", script=code)
    assert done.returncode == 0 and "programs were compiled" in done.stderr and "because inputs have other sizes" in " ".join(done.stderr.split()), done.stderr


def test_the_report_that_the_tutorial_shows(command: Command, root: Path) -> None:
    _, _, page = (root / "docs" / "tutorial.md").read_text(encoding="utf-8").partition("`train.py`")
    page, _, rest = page.partition("```sh\n")
    (code,) = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    shown = re.findall(r"^```text\n(.*?)^```$", rest, re.MULTILINE | re.DOTALL)[0]
    done = command("explain", "--no-html", "train.py", script=code)
    assert done.returncode == 0 and documents.fits(shown, done.stderr), done.stderr


# ---- sets of moments ----

SPANS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 8)).map(lambda pair: (float(pair[0]), float(pair[0] + pair[1]))), max_size=8)


def moments(spans: Any) -> set[int]:
    return {i for begin, end in spans for i in range(int(begin), int(end))}


@given(SPANS, SPANS)
def test_intervals(first: list[tuple[float, float]], second: list[tuple[float, float]]) -> None:
    a, b = intervals.union(first), intervals.union(second)
    for got, expected in (
        (a, moments(first)), (intervals.intersection(a, b), moments(first) & moments(second)), (intervals.difference(a, b), moments(first) - moments(second)),
    ):  # fmt: skip
        assert moments(got) == expected and intervals.length(got) == len(expected)
        assert got == sorted(got) and all(x[1] <= y[0] for x, y in itertools.pairwise(got))


# ---- devices, plugins, bench ----


def test_devices(command: Command) -> None:
    done = command("devices", CPU_NUM_DEVICES="2")
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and [line.split()[:4] for line in lines[:2]] == [["CPU:0", "xla:0", "kind", "cpu,"], ["CPU:1", "xla:1", "kind", "cpu,"]]
    assert lines[2].startswith("2 of 2 devices are this process's; CPU, ")
    done = command("devices", PJRT_DEVICE="ABACUS")
    assert done.returncode == 1 and "Unknown PJRT_DEVICE: 'ABACUS'" in done.stdout and done.stderr == ""


def test_plugins(command: Command) -> None:
    done = command("plugins")
    assert done.returncode == 0 and re.search(r"^\* CPU +/.*libpjrt_cpu\.so, from wheel fastatomstruct-xla-cpu", done.stdout, re.MULTILINE)
    done = command("plugins", PJRT_DEVICE="ABACUS")
    assert done.returncode == 1 and done.stdout.startswith("  CPU") and "Unknown PJRT_DEVICE: 'ABACUS'" in done.stdout


def test_bench(command: Command, tmp_path: Path) -> None:
    done = command("bench", "--rounds", "1", "--json", "bench.json")
    told = json.loads((tmp_path / "bench.json").read_text())
    assert done.returncode == 0 and len(told) == 10 and all(len(one["rounds"]) == 1 and one["rounds"][0] > 0 for one in told)
    for one in told:
        assert re.search(rf"^{re.escape(one['name'])} +[\d.]+ {re.escape(one['unit'])}", done.stdout, re.MULTILINE), done.stdout
    assert command("bench", "--rounds", "0").returncode == 2
