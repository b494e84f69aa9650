"""What all tests share. They run against the installed wheel, never against the source tree."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from fork_server import PREPARED_TOO_LATE, ForkServer
from support import DEVICE_VARIABLES, Child

ROOT = Path(__file__).resolve().parent.parent


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--share", type=int, default=1, metavar="N", help="of each operator's test run one case in N, the same ones each time")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    share = config.getoption("--share")
    if share == 1:
        return
    met: set[str] = set()
    kept, left_out = [], []
    for item in items:
        test = item.nodeid.partition("[")[0]
        # By the name: every third of a grid of three types would be one type.
        whole = item.path.parent.name != "ops" or test not in met or zlib.crc32(item.name.encode()) % share == 0
        (kept if whole else left_out).append(item)
        met.add(test)
    config.hook.pytest_deselected(items=left_out)
    items[:] = kept


def pytest_configure(config: pytest.Config) -> None:
    import importlib.util

    # What is compiled here is to be compiled, whatever earlier runs have left on the disk.
    os.environ["XLA_GO_PERSISTENT_CACHE"] = "0"
    os.environ["XLA_GO_LOG"] = "none"  # one line of a test may well compile many programs
    os.environ.setdefault("CI", "1")  # torch then raises where it warns otherwise, here as in continuous integration

    spec = importlib.util.find_spec("xla_go")
    if spec is None or spec.origin is None:
        raise pytest.UsageError("xla_go is not installed in this environment: run the tests by `make test-python`")
    if Path(spec.origin).resolve().is_relative_to(ROOT / "python"):
        raise pytest.UsageError(f"expected the installed wheel, got the source tree {spec.origin}: run the tests by `make test-python`")


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout that the tests lie in."""
    return ROOT


@pytest.fixture(scope="session")
def proxy(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A plugin in front of the real one (XLA_GO_TEST_PROXIED), which refuses the calls that it is told to."""
    library = tmp_path_factory.mktemp("proxy") / "proxy.so"
    source = root / "pjrt" / "testplugin" / "proxy" / "proxy.c"
    subprocess.run(
        ["cc", "-std=gnu11", "-fPIC", "-shared", "-fvisibility=hidden", f"-I{root / 'pjrt'}", str(source), "-o", str(library), "-ldl"], check=True
    )
    return library


@pytest.fixture(scope="session")
def fork_server() -> Iterator[ForkServer]:
    """Forks processes that have imported torch."""
    server = ForkServer()
    yield server
    server.close()


@pytest.fixture
def child(tmp_path: Path, fork_server: ForkServer) -> Child:
    """Runs Python code in a process of its own, with the same interpreter, and gives the finished process.

    child(code, env={...}, timeout=120, check=True, flags=(), fresh=False): `env` is added to an environment without device
    variables; `check` fails the test with the child's output where its exit status is not 0. The process is forked from one
    that has imported torch; `fresh`, or any of Python's flags, starts an interpreter of its own, for tests of what is
    imported, and when, and of how a process begins.
    """

    def run(
        code: str,
        env: dict[str, str] | None = None,
        timeout: float = 120,
        check: bool = True,
        flags: tuple[str, ...] = (),
        fresh: bool = False,
    ) -> subprocess.CompletedProcess[str]:
        environment = {name: value for name, value in os.environ.items() if name not in DEVICE_VARIABLES}
        environment.update(env or {})
        code = textwrap.dedent(code)
        if fresh or flags or any(name.startswith(PREPARED_TOO_LATE) for name in env or {}):
            done = subprocess.run(
                [sys.executable, *flags, "-c", code],
                cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=timeout, check=False,
            )  # fmt: skip
        else:
            done = fork_server.run(code, environment, tmp_path, timeout)
        if check and done.returncode != 0:
            pytest.fail(f"the child ended with status {done.returncode}\n--- output\n{done.stdout}\n--- errors\n{done.stderr}")
        return done

    return run
