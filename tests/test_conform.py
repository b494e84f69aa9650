"""`python -m xla_go conform`: the table over all plugins, and what it makes of plugins that hang and crash."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support import DEVICE_VARIABLES
from xla_go import conform, errors

pytestmark = pytest.mark.once

# What a plugin may lack, by the name of its file; every other case passes or does not apply. The words are the
# plugin's own.
UNSUPPORTED = {
    "libpjrt_cpu": {"MemoryInfo": "GetAllocatorStats is not supported"},
    "xla_cpu_pjrt": {"MemoryInfo": "GetAllocatorStats is not supported"},
    "pjrt_c_api_cpu_plugin": {"MemoryInfo": "GetAllocatorStats is not supported"},
    "testplugin": {
        "AddEveryType": "add of another type than F32 and S32",
        "MLIR": "takes hlo only",
        "PartitionedMLIR": "takes hlo only",
        "PartitionedMLIRBytecode": "takes hlo only",
        "PartitionedByShardy": "takes hlo only",
        "Partitioned": "takes no value that is divided",
        "Reshard": "takes no value that is divided",
        "ReshardBadInput": "takes no value that is divided",
        "ReshardEveryPair": "takes no value that is divided",
        "ReshardSeveralAtOnce": "takes no value that is divided",
        "ReshardSharesWhatStays": "takes no value that is divided",
    },
}

# Cases of all sorts that take about a second together.
QUICK = "[acdhmnost]*"


def cpu_plugin() -> str:
    spec = importlib.util.find_spec("fastatomstruct_xla_cpu")
    assert spec is not None and spec.origin is not None
    return str(Path(spec.origin).parent / "libpjrt_cpu.so")


def real_plugins() -> list[str]:
    """The CPU plugin, and the paths in XLA_GO_TEST_PLUGINS."""
    paths = [cpu_plugin(), *filter(None, os.environ.get("XLA_GO_TEST_PLUGINS", "").split(os.pathsep))]
    return list(dict.fromkeys(os.path.abspath(path) for path in paths))


@pytest.fixture(scope="module")
def testplugin(root: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The plugin that fails on demand."""
    path = tmp_path_factory.mktemp("plugin") / "testplugin.so"
    source = root / "pjrt" / "testplugin" / "source"
    flags = ["-std=gnu11", "-O1", "-g", "-shared", "-fPIC", "-pthread", "-fvisibility=hidden", f"-I{root / 'pjrt'}", f"-I{source}"]
    subprocess.run(["cc", *flags, "-o", str(path), *map(str, sorted(source.glob("*.c")))], check=True)
    return str(path)


def command(*arguments: str, tmp_path: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name not in DEVICE_VARIABLES}
    return subprocess.run(
        [sys.executable, "-m", "xla_go", "conform", *arguments],
        cwd=tmp_path, env={**environment, **variables}, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip


def check(report: conform.Report, names: list[str]) -> None:
    """No fail, and no unsupported but those that are known, by the plugin's word."""
    problems = []
    for column in report.columns:
        assert [result.case for result in column.results] == [*names, conform.PROCESS_END]
        allowed = UNSUPPORTED[Path(column.plugin).stem]
        for result in column.results:
            expected = allowed.get(result.case, "")
            wrong = result.outcome == "fail" or (result.outcome == "unsupported") != bool(expected)
            if wrong or expected not in result.text or (result.outcome in ("skip", "unsupported") and not result.text):
                problems.append(f"{column.client} on {Path(column.plugin).stem}, {result.case}: {result.outcome}\n{result.text}")
    assert not problems, "\n".join(problems)


def test_suite_on_the_cpu_plugin_and_the_test_plugin(testplugin: str) -> None:
    report = conform.run([cpu_plugin(), testplugin], case=QUICK)
    check(report, conform.cases(QUICK))
    assert {column.device_type for column in report.columns} == {"CPU", "TESTPLUGIN"}


@pytest.mark.parametrize("path", [path for path in real_plugins() if path != cpu_plugin()], ids=lambda path: Path(path).stem)
def test_suite_on_other_plugins(path: str) -> None:
    check(conform.run([path], case="[a-e]*"), conform.cases("[a-e]*"))


@pytest.mark.slow
def test_whole_suite_on_all_plugins(testplugin: str) -> None:
    check(conform.run([*real_plugins(), testplugin]), conform.cases())


@pytest.mark.slow
@pytest.mark.parametrize("devices", [2, 3, 8])
def test_suite_on_other_numbers_of_devices(devices: int) -> None:
    report = conform.run([cpu_plugin()], devices=devices)
    check(report, conform.cases())
    skipped = {result.text for result in report.columns[0].results if result.outcome == "skip"}
    assert f"needs four devices; there are {devices}" in skipped


def outcomes(column: conform.Column) -> dict[str, str]:
    return {result.case: result.outcome for result in column.results}


def test_a_case_that_hangs_fails_and_the_next_one_goes_on(testplugin: str) -> None:
    seen: list[str] = []
    report = conform.run(
        [testplugin], clients=["ifrt"], case="transfer[br]*", timeout=8, options={"never:Buffer_ToHostBuffer": 1},
        progress=lambda column, result: seen.append(result.case),
    )  # fmt: skip
    (column,) = report.columns
    assert report.failed
    assert outcomes(column)["TransferBadInput"] == "pass"
    hung = column.of("TransferRoundTrip")
    assert hung is not None and (hung.outcome, hung.text) == ("fail", "the time limit has passed") and 8 <= hung.seconds < 14
    assert seen == [*conform.cases("transfer[br]*"), conform.PROCESS_END]


def test_a_case_that_crashes_fails_and_the_next_one_goes_on(testplugin: str) -> None:
    report = conform.run([testplugin], clients=["pjrt"], case="transfer[br]*", options={"crash:Buffer_ToHostBuffer": 1})
    (column,) = report.columns
    crashed = column.of("TransferRoundTrip")
    assert crashed is not None and crashed.outcome == "fail"
    assert crashed.text.startswith("the process was ended by SIG") and "the test asked for a crash in Buffer_ToHostBuffer" in crashed.text
    assert outcomes(column)["TransferBadInput"] == "pass" and outcomes(column)[conform.PROCESS_END] == "pass"
    assert [result.case for result in column.results] == [*conform.cases("transfer[br]*"), conform.PROCESS_END]


def test_failures_are_told(testplugin: str, tmp_path: Path) -> None:
    done = command(
        "--plugin", testplugin, "--client", "pjrt", "--case", "execute", "--option", "fail:LoadedExecutable_Execute=13",
        "--json", "report.json", tmp_path=tmp_path,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert "Execute (pjrt on testplugin)" in done.stdout and "INTERNAL" in done.stdout and "the test asked for a failure" in done.stdout
    report: dict[str, Any] = json.loads((tmp_path / "report.json").read_text())
    (column,) = report["columns"]
    assert (column["client"], column["plugin"], column["device_type"]) == ("pjrt", testplugin, "TESTPLUGIN")
    (result,) = [result for result in column["results"] if result["case"] == "Execute"]
    assert result["outcome"] == "fail" and "cases_program.go:" in result["text"] and result["seconds"] > 0
    assert column["counts"]["fail"] >= 1


def test_a_plugin_that_cannot_be_started(testplugin: str) -> None:
    report = conform.run([testplugin], case="Execute", options={"no_such_option": 1})
    for column in report.columns:
        result = column.of("Execute")
        assert result is not None and result.outcome == "fail" and "the client could not be made" in result.text and "no_such_option" in result.text
    crashed = conform.run([testplugin], clients=["pjrt"], case="Execute*", options={"crash:Client_Devices": 1})
    assert set(outcomes(crashed.columns[0]).values()) == {"fail"}
    assert "the test asked for a crash in Client_Devices" in crashed.text()


def test_plugin_that_discovery_finds_without_torch(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise AssertionError('torch was imported')\n")
    done = command("--case", "Topology", "--client", "both", tmp_path=tmp_path, PYTHONPATH=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert cpu_plugin() in done.stdout and "pjrt" in done.stdout and "ifrt" in done.stdout
    assert not done.stderr


def test_options_of_the_interpreter_do_not_bring_torch_in(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise AssertionError('torch was imported')\n")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    line = [sys.executable, "-X", "utf8", "-W", "default", "-m", "xla_go", "conform", "--list"]
    done = subprocess.run(line, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0 and done.stdout.split() == conform.cases(), done.stderr


def test_command_line(tmp_path: Path) -> None:
    listed = command("--list", tmp_path=tmp_path)
    assert listed.returncode == 0 and listed.stdout.split() == conform.cases()
    for arguments, words in {
        ("--case", "Nothing*"): "Nothing*",
        ("--plugin", "absent.so"): "no such file",
        ("--option", "count"): "NAME=VALUE",
        ("--client", "tfrt"): "tfrt",
    }.items():
        done = command(*arguments, tmp_path=tmp_path)
        assert done.returncode == 2 and words in done.stderr, done


def test_arguments_of_the_library(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="tfrt"):
        conform.run(clients=["tfrt"])
    with pytest.raises(ValueError, match="matches none"):
        conform.run(case="Nothing*")
    with pytest.raises(errors.NotFoundError, match="no such file"):
        conform.run([tmp_path / "absent.so"])
    broken = tmp_path / "broken.so"
    broken.write_text("no library")
    report = conform.run([broken], clients=["pjrt"], case="Execute")
    assert report.failed and "broken.so" in report.text()
