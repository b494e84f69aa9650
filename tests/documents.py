"""The Python code of a page of Markdown: its blocks, how they are to be run, and what they are to print.

A comment of HTML before a block says where it differs from the rest of its page:

    <!-- not run: REASON -->              it is only compiled
    <!-- run in a new process -->         it begins a process, which the blocks after it go on in
    <!-- run in a new process: CPU_NUM_DEVICES=8 accelerate slow -->
                                          with variables, needing packages, taking more than half a minute

What is printed is compared where the page tells it: by a comment behind a `print`, on its line, or by a block marked
`text` that follows, for all that the block before it prints. `...` stands for anything.
"""

from __future__ import annotations

import ast
import io
import json
import re
import tokenize
from dataclasses import dataclass, field
from pathlib import Path

FENCE = re.compile(r"^(?P<indent> *)(?P<ticks>```+)(?P<info>[^`\n]*)$")
MARK = re.compile(r"^ *<!-- *((?:not )?run\b.*?) *-->$")
VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*=\S+")

# Ends what one statement has printed.
END = "\x1e"

# Runs statement by statement, as typed, in a module __main__ that has nothing else in it. Lines are those of the page, so
# tracebacks, and what looks at source code, find them there.
DRIVER = """
import ast, json, sys, types
old, main = sys.modules["__main__"], types.ModuleType("__main__")
sys.modules["__main__"] = main
for page, line, code in json.loads({blocks!r}):
    for statement in ast.parse(code).body:
        ast.increment_lineno(statement, line - 1)
        exec(compile(ast.Module([statement], []), page, "exec"), main.__dict__)
        print({end!r}, end="", flush=True)
"""


class PageError(ValueError):
    """A page that is not written as this module expects."""


@dataclass
class Block:
    """A block of Python; `line` is that of its first line of code, `shown` what a `text` block after it has."""

    line: int
    code: str
    shown: str | None = None


@dataclass
class Process:
    """Blocks that run one after the other in one process."""

    blocks: list[Block] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)
    packages: list[str] = field(default_factory=list)
    slow: bool = False


def processes(text: str) -> list[Process]:
    """The processes that a page's blocks run in; blocks that are not run are compiled. Raises PageError."""
    found = [Process()]
    mark, last = "", None  # last: the block that a `text` block would show the output of
    lines = iter(enumerate(text.splitlines(), 1))
    for number, line in lines:
        if match := MARK.match(line):
            if mark:
                raise PageError(f"line {number}: expected a block of Python between two marks")
            mark = match[1]
        elif match := FENCE.match(line):
            body = []
            for _, inner in lines:
                if inner.strip() == match["ticks"]:
                    break
                body.append(inner)
            else:
                raise PageError(f"line {number}: the block has no end")
            info, code = match["info"].strip(), "\n".join(body)
            if info == "text" and last is not None:
                last.shown = code
            last = None
            if info.startswith("python"):
                if info != "python" or match["indent"]:
                    raise PageError(f"line {number}: expected ```python alone on its line, got {line!r}")
                last = _take(found, mark, Block(number + 1, code))
                mark = ""
        elif mark and line.strip():
            raise PageError(f"line {number}: expected a block of Python after the mark {mark!r}, got {line!r}")
    if mark:
        raise PageError(f"expected a block of Python after the mark {mark!r}")
    return [process for process in found if process.blocks]


def _take(found: list[Process], mark: str, block: Block) -> Block | None:
    kind, _, words = (part.strip() for part in mark.partition(":"))
    if kind == "not run":
        if not words:
            raise PageError(f"line {block.line}: expected a reason: <!-- not run: REASON -->")
        compile(block.code, f"line {block.line}", "exec")
        return None
    if kind == "run in a new process":
        found.append(Process())
        for word in words.split():
            if VARIABLE.fullmatch(word):
                name, _, value = word.partition("=")
                found[-1].variables[name] = value
            elif word == "slow":
                found[-1].slow = True
            else:
                found[-1].packages.append(word)
    elif mark:
        raise PageError(f"line {block.line}: expected 'not run: REASON' or 'run in a new process', got {mark!r}")
    found[-1].blocks.append(block)
    return block


def driver(page: Path, blocks: list[Block]) -> str:
    """A program that runs blocks; what each statement prints ends with END."""
    return DRIVER.format(blocks=json.dumps([(str(page), block.line, block.code) for block in blocks]), end=END)


def printed(blocks: list[Block], output: str) -> list[list[str]]:
    """What a driver has printed: for each block, what each statement has."""
    pieces = iter(output.split(END)[:-1])
    return [[next(pieces) for _ in ast.parse(block.code).body] for block in blocks]


def differences(block: Block, pieces: list[str]) -> list[str]:
    """Where a block has not printed what the page says."""
    comments = {
        token.start[0]: token.string.lstrip("# ")
        for token in tokenize.generate_tokens(io.StringIO(block.code).readline)
        if token.type == tokenize.COMMENT
    }
    found = []
    for statement, got in zip(ast.parse(block.code).body, pieces, strict=True):
        calls = [node for node in ast.walk(statement) if isinstance(node, ast.Expr) and _prints(node) and node.end_lineno in comments]
        for node in calls:
            expected = comments[node.end_lineno or 0]
            # Inside of a compound statement others may print too, so it is one among the lines.
            texts = [got.rstrip("\n")] if node is statement else got.splitlines()
            if not any(fits(expected, text) for text in texts):
                found.append(f"line {block.line - 1 + node.lineno}: expected {expected!r}, got {got!r}")
    if block.shown is not None and not fits(block.shown, whole := "".join(pieces)):
        found.append(f"line {block.line}: expected the block to print\n{block.shown}\n--- got\n{whole}")
    return found


def _prints(node: ast.Expr) -> bool:
    return isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Name) and node.value.func.id == "print"


def fits(expected: str, got: str) -> bool:
    """Whether the texts are the same but for spaces at the ends of lines and where expected has `...`."""
    expected, got = ("\n".join(map(str.rstrip, text.rstrip().split("\n"))) for text in (expected, got))
    return re.fullmatch(".*".join(map(re.escape, expected.split("..."))), got, re.DOTALL) is not None
