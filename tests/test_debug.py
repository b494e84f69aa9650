"""Values, programs and errors tell which lines of the user's code they come from."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import xla_go
from support import Child

pytestmark = pytest.mark.once


@pytest.fixture
def recorded() -> Iterator[None]:
    was = xla_go.debug.record_stacks()
    yield
    assert xla_go.debug.record_stacks(was)


def inner(x: torch.Tensor) -> torch.Tensor:
    return x.exp()


def here(function: str, inside: str = "") -> str:
    path = r"(\S*/)?test_debug\.py"
    callers = rf" < {path}:\d+ in {inside}" if inside else ""
    return rf"{path}:\d+ in {function}{callers}"


@pytest.mark.usefixtures("recorded")
def test_graph_shows_lines() -> None:
    x = torch.ones(3, 5).to("xla")
    shown = xla_go.debug.graph(inner(x) + x.sum())
    (exp,) = [line for line in shown.ir.splitlines() if "aten::exp" in line]
    assert re.search("# " + here("inner", "test_graph_shows_lines"), exp), exp
    (total,) = [line for line in shown.ir.splitlines() if "aten::sum" in line]
    assert re.search("# " + here("test_graph_shows_lines"), total), total
    exponential = next(line for line in shown.hlo.splitlines() if " exponential(" in line)
    assert re.search(r'metadata={op_type="aten::exp" op_name="\S*test_graph_shows_lines/inner/aten::exp" source_file="\S*test_debug.py" source_line=\d+ stack_frame_id=\d+}', exponential)
    for title in ("FileNames", "FunctionNames", "FileLocations", "StackFrames"):
        assert f"\n{title}\n1 " in shown.hlo


@pytest.mark.usefixtures("recorded")
def test_views_writes_and_backward_show_lines() -> None:
    x = torch.ones(4, 6).to("xla").requires_grad_()
    y = torch.zeros(4, 6).to("xla")
    y[1:3] = x.detach()[0, 0]
    inner(x * y).sum().backward()
    ir = xla_go.debug.graph(y, x.grad).ir
    nodes = [line for line in ir.splitlines() if " = " in line]
    assert all("test_debug.py" in line for line in nodes), ir
    assert any("storage::view_update" in line for line in nodes), ir


def test_nothing_is_recorded_unasked() -> None:
    x = torch.ones(3, 7).to("xla")
    assert not xla_go.debug.record_stacks(False)
    shown = xla_go.debug.graph(inner(x))
    assert "test_debug" not in shown.ir and "metadata" not in shown.hlo and "FileNames" not in shown.hlo


def test_lines_make_no_other_program() -> None:
    x = torch.arange(11.0).to("xla")

    def compiles() -> int:
        return xla_go.metrics.counter_value("UncachedCompile") or 0

    inner(x * 3).cpu()
    known = compiles()
    was = xla_go.debug.record_stacks()
    try:
        inner(x * 3).cpu()
        y = x * 3
        y = y.exp()
        y.cpu()
        assert compiles() == known
        (y.cosh() + 1).cpu()
        assert compiles() == known + 1
        (y.cosh() + 1).cpu()
    finally:
        xla_go.debug.record_stacks(was)
    (y.cosh() + 1).cpu()
    assert compiles() == known + 1


@pytest.mark.usefixtures("recorded")
def test_offsets_as_parameters_keep_lines() -> None:
    x = torch.randn(31, 3).to("xla")
    for start in range(4):
        torch.testing.assert_close((x[start : start + 2] * 2).cpu(), x.cpu()[start : start + 2] * 2)


def test_live_buffers_tell_where_they_were_made() -> None:
    known = {one["storage"] for one in xla_go.debug.live_buffers()}

    def new() -> list[dict]:
        return sorted((one for one in xla_go.debug.live_buffers() if one["storage"] not in known), key=lambda one: one["op"])

    was = xla_go.debug.record_stacks(False)
    x = torch.ones(2, 13).to("xla")
    (one,) = new()
    assert one["op"] == "" and "XLA_GO_IR_DEBUG=1" in one["made_at"]
    xla_go.debug.record_stacks()
    y = inner(x)
    del x
    x = torch.ones(2, 13).to("xla")
    xla_go.sync()
    uploaded, made = new()
    assert uploaded["op"] == "" and re.fullmatch(here("test_live_buffers_tell_where_they_were_made") + ".*", uploaded["made_at"]), uploaded
    assert made["op"] == "aten::exp" and re.match(here("inner", "test_live"), made["made_at"]), made
    assert made["shape"] == "f32[2,13]" and made["bytes"] == 104
    del x, y
    assert new() == []
    xla_go.debug.record_stacks(was)


PROGRAM = """
    import torch, xla_go
    def f(x):
        {padding}
        return x.exp() * 2 + 1
    print(f(torch.zeros(3).to("xla")).tolist(), "in f" in xla_go.debug.graph(f(torch.ones(3).to("xla"))).ir)
    print(xla_go.metrics.counter_value("PersistentCacheHit"), xla_go.metrics.counter_value("PersistentCacheMiss"))
"""


@pytest.mark.parametrize("variable", ["XLA_GO_IR_DEBUG", *(pytest.param(name, marks=pytest.mark.slow) for name in ("XLA_IR_DEBUG", "XLA_HLO_DEBUG"))])
def test_variables_record_and_the_disk_knows_no_lines(child: Child, tmp_path: Path, variable: str) -> None:
    environment = {"PJRT_DEVICE": "CPU", variable: "1", "XLA_PERSISTENT_CACHE_PATH": str(tmp_path / "programs"), "XLA_GO_PERSISTENT_CACHE": "1"}
    first = child(PROGRAM.format(padding="pass"), env=environment).stdout.splitlines()
    assert first == ["[3.0, 3.0, 3.0] True", "None 1"]
    later = child(PROGRAM.format(padding="pass\n        pass"), env=environment).stdout.splitlines()
    assert later == ["[3.0, 3.0, 3.0] True", "1 None"]


FAILURE = """
    import ctypes, sys
    import torch, xla_go
    proxy = ctypes.CDLL({proxy!r})
    proxy.refuse.argtypes = [ctypes.c_char_p, ctypes.c_int64, ctypes.c_int]
    def f(x):
        return x.cosh()
    x = torch.ones(3).to("xla")
    proxy.refuse({sort!r}, 1, 13)
    for read in ("first", "second"):
        y = f(x)
        {other}
        try:
            y.cpu()
        except xla_go.errors.InternalError as error:
            print(error)
        else:
            print("no error")
        proxy.refuse({sort!r}, 0, 0)
"""


# A run with several outputs that fails once comes right when they are run apart: that one has a single output.
@pytest.mark.parametrize(("sort", "other"), [("compile", "pass"), ("compile", "z = y + 1"), ("execute", "pass")])
def test_errors_tell_operator_and_line(child: Child, proxy: Path, sort: str, other: str) -> None:
    spec = importlib.util.find_spec("fastatomstruct_xla_cpu")
    assert spec is not None and spec.origin is not None
    environment = {"PJRT_DEVICE": "CPU", "XLA_GO_PLUGIN_PATH": str(proxy), "XLA_GO_TEST_PROXIED": str(Path(spec.origin).parent / "libpjrt_cpu.so")}
    code = FAILURE.format(proxy=str(proxy), sort=sort.encode(), other=other)
    plain = child(code, env=environment).stdout
    assert "the proxy refuses" in plain
    with_lines = child(code, env=environment | {"XLA_GO_IR_DEBUG": "1"}, fresh=True).stdout
    assert "the proxy refuses" in with_lines
    assert "in aten::cosh" in plain or "aten::cosh : f32[3]" in plain, plain
    assert "XLA_GO_IR_DEBUG=1 shows the lines" in plain and "most recent call last" not in plain
    shown = r'aten::cosh.*called at \(most recent call last\):\n  File "<string>", line \d+, in <module>\n  File "<string>", line 7, in f\n'
    assert re.search(shown, with_lines, re.DOTALL), with_lines
    assert plain.rstrip().endswith("no error") and with_lines.rstrip().endswith("no error")


def test_scopes_stand_with_the_lines(child: Child) -> None:
    child(
        """
        import torch, xla_go
        xla_go.debug.record_stacks()
        def f(x):
            with xla_go.debug.scope("encoder"):
                with xla_go.debug.scope("layer"):
                    x = x.sin()
                return x.cos()
        shown = xla_go.debug.graph(f(torch.ones(3, device="xla")).exp())
        lines = {line.split(" = ")[1].split("(")[0]: line for line in shown.ir.splitlines() if " = " in line}
        assert "in f (scope=encoder/layer) < " in lines["aten::sin"] and "in f (scope=encoder) < " in lines["aten::cos"], lines
        assert "scope=" not in lines["aten::exp"] and 'op_name="<module>/f (scope=encoder/layer)/aten::sin"' in shown.hlo, shown.hlo
        """,
        fresh=True,
    )


CAUSES = """
    import torch, xla_go
    x = torch.ones(3).to("xla")
    y = x * 2
    xla_go.sync()
    y = x * 2
    xla_go.sync()
    (x + 1).cpu()
    w = torch.nn.Parameter(torch.ones(5, device="xla"))
    optimizer = torch.optim.SGD([w], lr=0.1)
    w.sum().backward()
    optimizer.step()
    for _ in range(30):
        y = y.sin()
    xla_go.sync()
    xla_go.debug.compiles()
"""


@pytest.mark.parametrize("level", ["0", pytest.param("1", marks=pytest.mark.slow), pytest.param("2", marks=pytest.mark.slow), ""])
def test_analysis(child: Child, tmp_path: Path, level: str) -> None:
    environment = {"PJRT_DEVICE": "CPU", "XLA_GO_NODE_LIMIT": "20", "PT_XLA_DEBUG_FILE": str(tmp_path / "analysis")}
    environment |= {"PT_XLA_DEBUG": "1"} if level == "" else {"PT_XLA_DEBUG_LEVEL": level}
    done = child(CAUSES, env=environment, fresh=True)  # whose stack begins with it
    assert done.stderr == ""
    text = (tmp_path / "analysis").read_text() if level != "0" else ""
    for cause in ("sync()", "read of a value (user code trying to access tensor value)", "optimizer step", "node limit"):
        assert (f"\nCompilation Analysis:   {cause}\n" in text) == (level != "0"), (cause, text)
        assert (f"\nExecution Analysis:   {cause}\n" in text) == (level in ("2", "")), (cause, text)
    assert text.count("\nExecution Analysis:   sync()\n") == text.count("\nCompilation Analysis:   sync()\n") + 1 or level in ("0", "1")
    if level != "0":
        blocks = re.findall(r"(?m)^([\w ]+): ={80}\n((?:\1: .*\n)+?)\1: ={80}\n", text)
        assert [title for title, _ in blocks][:3] == ["Compilation Analysis", "Post Compilation Analysis", "Execution Analysis" if level != "1" else "Compilation Analysis"]
        first = blocks[0][1].replace("Compilation Analysis: ", "")
        shown = r"Compilation Cause\n  sync\(\)\nGraph Info\n  Graph Hash: [0-9a-f]{32}\n  Number of Graph Inputs: 2\n  Number of Graph Outputs: 1\n  Nodes: 3\n  Device: CPU:0\n"
        shown += r"Python Frame Triggered Execution, the innermost first\n  sync \(.*_step.py:\d+\)\n  <module> \(<string>:5\)\n-{80}\n"
        assert re.fullmatch(shown, first), first
        sizes = ("Graph input size", "Graph output size", "Aliased Input size", "Intermediate tensor size", "Compiled program size")
        memory = "".join(rf"Post Compilation Analysis: {size}: \d+\.\d+ GB\n" for size in sizes)
        assert re.fullmatch(memory + r"Post Compilation Analysis: -{20} compile 1, graph [0-9a-f]{32}: compiled in \d+\.\d+ s\n", blocks[1][1]), blocks[1][1]


def test_log_of_executions(child: Child) -> None:
    code = """
        import torch, xla_go
        x = torch.ones(3).to("xla")
        for _ in range(2):
            (x * 2).cpu()
    """
    lines = child(code, env={"PJRT_DEVICE": "CPU", "XLA_GO_LOG": "none,executions"}).stderr.splitlines()
    shown = [re.fullmatch(r"xla_go: execution (\d) on CPU:0: <string>:5 in <module>: read of a value: program ([0-9a-f]{32}), (\w+) \(3 nodes, 2 inputs, 1 results\)", line) for line in lines]
    assert len(lines) == 2 and all(shown), lines
    assert [one.group(1, 3) for one in shown if one] == [("1", "compiled"), ("2", "known")]
    assert len({one.group(2) for one in shown if one}) == 1


def test_one_process_of_a_host_reports(child: Child) -> None:
    assert child(CAUSES, env={"PJRT_DEVICE": "CPU", "PT_XLA_DEBUG": "1", "PJRT_LOCAL_PROCESS_RANK": "1"}).stderr == ""
