"""A plugin's errors reach Python as the class of their code, with their message, from every kind of call.

The plugin is the one of pjrt/testplugin, which fails where it is told to.
"""

from __future__ import annotations

import json
import os
import pickle
import shutil
import subprocess
from pathlib import Path

import pytest

from support import Child
from xla_go import errors

pytestmark = pytest.mark.once

CODES = range(1, 17)

# What is called, and the plugin's function that fails then. None of them stands in another's way.
CALLS = {
    "program(x, x)": "LoadedExecutable_Execute",
    "x.numpy()": "Buffer_ToHostBuffer",
    "program.serialize()": "Executable_Serialize",
    "program.optimized_hlo()": "Executable_OptimizedProgram",
    "program.memory_analysis()": "Executable_GetCompiledMemoryStats",
    "x.copy_to_device(client.devices()[1])": "Buffer_CopyToMemory",
    "client.devices()[0].memory()": "Device_MemoryStats",
    "client.deserialize(kept)": "Executable_DeserializeAndLoad",
}

COLLECT = """
import json, sys
import numpy as np
from xla_go import client, errors
program = client.compile(open({program!r}, "rb").read(), name="pair")
x = client.upload(np.ones(4, np.float32))
kept = {kept}
caught = {{}}
for call in {calls!r}:
    try:
        eval(call)
    except errors.XlaError as error:
        caught[call] = [type(error).__name__, error.code, error.code_name, str(error)]
print(json.dumps(caught))
"""


@pytest.fixture(scope="session")
def plugin(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        pytest.skip("no C compiler here")
    path = tmp_path_factory.mktemp("plugin") / "plugin.so"
    source = root / "pjrt" / "testplugin" / "source"
    flags = ["-std=gnu11", "-shared", "-fPIC", "-pthread", f"-I{root / 'pjrt'}", f"-I{source}"]
    subprocess.run([compiler, *flags, "-o", str(path), *map(str, sorted(source.glob("*.c")))], check=True)
    return path


def collect(child: Child, root: Path, plugin: Path, options: str, calls: list[str], kept: str = "b''", **env: str) -> dict[str, tuple[str, int, str, str]]:
    """What each call raised: the class, the code, its name, the message."""
    program = root / "tests" / "testdata" / "jax" / "pair.hlo"
    code = COLLECT.format(program=str(program), calls=calls, kept=kept)
    done = child(code, env={"XLA_GO_PLUGIN_PATH": str(plugin), "TESTPLUGIN_OPTIONS": options, **env})
    return {call: tuple(raised) for call, raised in json.loads(done.stdout).items()}


def check(raised: tuple[str, int, str, str], code: int) -> None:
    class_name, number, code_name, message = raised
    cls = errors.class_of_code(code)
    assert (class_name, number, code_name) == (cls.__name__, code, cls.code_name)
    assert "the test asked for a failure" in message and not message.startswith(code_name)


@pytest.mark.parametrize("first", [1, 9])
def test_every_code_from_the_calls_of_a_program(child: Child, root: Path, plugin: Path, first: int) -> None:
    """Seven calls with seven codes in a process; 8 and 16 are those of `test_a_code_from_loading`."""
    calls = [call for call in CALLS if call != "client.deserialize(kept)"]
    codes = dict(zip(calls, range(first, first + len(calls)), strict=True))
    settings = ";".join(["devices=2", *(f"fail:{CALLS[call]}={code}" for call, code in codes.items())])
    raised = collect(child, root, plugin, settings, calls)
    assert list(raised) == calls
    for call, code in codes.items():
        check(raised[call], code)


@pytest.mark.parametrize("code", [8, 16])
def test_a_code_from_loading(child: Child, root: Path, plugin: Path, code: int) -> None:
    call = "client.deserialize(kept)"
    raised = collect(child, root, plugin, f"fail:{CALLS[call]}={code}", [call], kept="program.serialize()")
    check(raised[call], code)


def test_a_failed_compile_and_a_failed_upload(child: Child, root: Path, plugin: Path) -> None:
    for function, code, call in (("Client_Compile", 3, "client.compile(source)"), ("Client_BufferFromHostBuffer", 14, "client.upload(1.0)")):
        done = child(
            f"""
        from xla_go import client, errors
        source = open({str(root / "tests" / "testdata" / "jax" / "pair.hlo")!r}, "rb").read()
        try:
            {call}
        except errors.XlaError as error:
            print(type(error).__name__, error.code, "the test asked" in str(error))
        print(client.live())
        """,
            env={"XLA_GO_PLUGIN_PATH": str(plugin), "TESTPLUGIN_OPTIONS": f"fail:{function}={code}"},
        )
        assert done.stdout == f"{errors.class_of_code(code).__name__} {code} True\n(0, 0)\n"


@pytest.mark.parametrize("ifrt", ["0", "1"])
def test_an_error_of_the_run_is_in_its_results(child: Child, root: Path, plugin: Path, ifrt: str) -> None:
    """The run is queued; whatever reads or waits raises. A callback gets the error."""
    done = child(
        f"""
    import threading
    import numpy as np
    from xla_go import client, errors
    program = client.compile(open({str(root / "tests" / "testdata" / "jax" / "pair.hlo")!r}, "rb").read())
    x = client.upload(np.ones(4, np.float32))
    total, product = program(x, x)
    called, done = [], threading.Event()
    total.on_ready(lambda error: (called.append(error), done.set()))
    for call in (total.wait, total.numpy, product.numpy, total.pointer):
        try:
            call()
        except errors.DataLossError as error:
            assert error.code == 15 and "the test asked" in str(error), error
        else:
            raise AssertionError(call)
    assert done.wait(30) and isinstance(called[0], errors.DataLossError), called
    x.numpy()
    """,
        env={"XLA_GO_PLUGIN_PATH": str(plugin), "TESTPLUGIN_OPTIONS": "fail_result=15;delay_ms=20", "XLA_USE_IFRT": ifrt},
    )
    assert done.stderr == ""


def test_out_of_memory_tells_the_numbers(child: Child, plugin: Path) -> None:
    done = child(
        """
    import numpy as np
    from xla_go import client, errors
    held = client.upload(np.zeros(600, np.uint8))
    try:
        client.upload(np.zeros(600, np.uint8))
    except errors.ResourceExhaustedError as error:
        print(error)
    held.close()
    client.upload(np.zeros(600, np.uint8)).numpy()
    """,
        env={"XLA_GO_PLUGIN_PATH": str(plugin), "TESTPLUGIN_OPTIONS": "memory_limit=1000"},
    )
    # What the plugin says, what the runtime knows, and what the allocator tells.
    for words in ("600 bytes are asked for", "on TESTPLUGIN:0 open data hold 600 bytes", "bytes_limit=1000"):
        assert words in done.stdout


def test_the_classes() -> None:
    assert {errors.class_of_code(code).code for code in CODES} == set(CODES)
    for code in CODES:
        cls = errors.class_of_code(code)
        assert issubclass(cls, errors.XlaError) and issubclass(cls, RuntimeError)
        assert cls.__name__ in errors.__all__ and cls.__doc__
        error = errors.from_status(cls.code_name, "what happened")
        assert type(error) is cls and str(error) == "what happened" and (error.code, error.code_name) == (code, cls.code_name)
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is cls and str(again) == "what happened"
    assert errors.class_of_code(0) is errors.class_of_code(99) is errors.UnknownError
    assert type(errors.from_status("CODE_99", "")) is errors.UnknownError
