"""The code of README.md and of every page in docs/ runs as it stands, and prints what the page says."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from documents import Block, PageError, differences, driver, fits, printed, processes
from support import Child
from xla_go import errors

pytestmark = pytest.mark.once

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def readme(blocks: list[str], directory: Path) -> None:
    quick_start, seeing = blocks
    assert float(quick_start.splitlines()[0]) < 1.0
    assert "Metric: CompileTime" in quick_start and "aten::" not in quick_start
    assert seeing.startswith("%0 = parameter() : f32[8,3]")
    assert "the first program" in seeing and "'source': 'data'" in seeing
    assert (directory / "trace.json").stat().st_size > 0


# What a page promises beside what it shows, from what its first process has printed.
PROMISES: dict[str, Callable[[list[str], Path], None]] = {"README.md": readme}


def parameters() -> list[object]:
    found = []
    for page in PAGES:
        for number, process in enumerate(processes(page.read_text(encoding="utf-8"))):
            missing = [package for package in process.packages if importlib.util.find_spec(package) is None]
            marks = [pytest.mark.skipif(bool(missing), reason=f"not installed: {missing}"), *([pytest.mark.slow] if process.slow else [])]
            found.append(pytest.param(page, number, id=f"{page.name}:{process.blocks[0].line}", marks=marks))
    return found


@pytest.mark.parametrize(("page", "number"), parameters())
def test_the_code_of_a_page(child: Child, tmp_path: Path, page: Path, number: int) -> None:
    process = processes(page.read_text(encoding="utf-8"))[number]
    done = child(driver(page, process.blocks), env=process.variables, timeout=600)
    pieces = printed(process.blocks, done.stdout)
    wrong = [difference for block, own in zip(process.blocks, pieces, strict=True) for difference in differences(block, own)]
    assert not wrong, "\n".join(wrong)
    if number == 0 and page.name in PROMISES:
        PROMISES[page.name](["".join(own) for own in pieces], tmp_path)


def test_links_lead_somewhere() -> None:
    for document in [*PAGES, ROOT / "CONTRIBUTING.md"]:
        for target in re.findall(r"\]\(([^)#:]+)\)", document.read_text(encoding="utf-8")):
            assert (document.parent / target).exists(), f"{document.name}: {target}"


def test_commands_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for document in [*PAGES, ROOT / "CONTRIBUTING.md"]:
        named = set(re.findall(r"(?:`|^ *)make ([a-z][a-z-]+)(?![a-z/_.-])", document.read_text(encoding="utf-8"), re.MULTILINE))
        assert named <= targets, f"{document.name}: {named - targets}"


def test_every_error_is_described() -> None:
    page = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    for name in errors.__all__:
        found = getattr(errors, name)
        if isinstance(found, type):
            assert f"`{name}`" in page, name
    for code in range(1, 17):
        assert re.search(rf"^## .*\b{errors.class_of_code(code).code_name}\b", page, re.MULTILINE), code


def test_the_messages_of_the_page_of_errors_exist() -> None:
    sources = [*(ROOT / "python").rglob("*.py"), *(ROOT / "gosrc").rglob("*.go"), *(ROOT / "pjrt").rglob("*.go")]
    text = "".join(file.read_text(encoding="utf-8") for file in sources if not file.name.endswith("_test.go"))
    messages = re.findall(r"^> `(.*)`$", (ROOT / "docs" / "errors.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(messages) > 10
    for message in messages:
        for piece in message.split("..."):
            assert piece in text, f"{message}: nothing says {piece!r}"


# ---- what the pages are read with ----

PAGE = """
```python
x = 1
print(x)  # 1
```

```text
1
```

<!-- {mark} -->

```python
for i in range(2):
    print(i, x if "x" in globals() else None)  # 1 None
```
"""


@pytest.mark.parametrize("mark", ["not run", "not run:", "run", "run in a new processes", "run somewhere: X=1"])
def test_marks_that_are_none(mark: str) -> None:
    with pytest.raises(PageError):
        processes(PAGE.format(mark=mark))


@pytest.mark.parametrize("page", ["```python x=1\n1\n```", "1. a\n\n   ```python\n   1\n   ```", "```python\n1", "<!-- not run: why -->\ntext", "<!-- not run: why -->"])
def test_pages_that_are_none(page: str) -> None:
    with pytest.raises(PageError):
        processes(page)


def test_marks() -> None:
    (only,) = processes(PAGE.format(mark="not run: no printer here"))
    assert [(block.line, block.shown) for block in only.blocks] == [(3, "1")]
    with pytest.raises(SyntaxError):
        processes("<!-- not run: why -->\n```python\nx = = 1\n```")
    first, second = processes(PAGE.format(mark="run in a new process: CPU_NUM_DEVICES=2 numpy slow"))
    assert (second.variables, second.packages, second.slow) == ({"CPU_NUM_DEVICES": "2"}, ["numpy"], True)
    assert (first.variables, first.packages, first.slow) == ({}, [], False)


def test_blocks_run_and_are_compared(child: Child, tmp_path: Path) -> None:
    for process in processes(PAGE.format(mark="run in a new process")):
        pieces = printed(process.blocks, child(driver(tmp_path, process.blocks)).stdout)
        assert [difference for block, own in zip(process.blocks, pieces, strict=True) for difference in differences(block, own)] == []
    block = Block(5, "print(1)  # 2\nif True:\n    print(3)  # 4\n", "1\n4")
    assert [text.split(":")[0] for text in differences(block, ["1\n", "3\n"])] == ["line 5", "line 7", "line 5"]
    failed = child(driver(tmp_path / "page.md", [Block(7, "x = 1\n\nx / 0\n")]), check=False)
    assert failed.returncode != 0 and 'page.md", line 9' in failed.stderr


def test_dots_stand_for_anything() -> None:
    assert fits("a ... c", "a b\nb c\n") and fits("a\nb", "a  \nb\n") and fits("x.y", "x.y")
    assert not fits("a ... c", "a b") and not fits("x.y", "xzy") and not fits("a", "ab")
