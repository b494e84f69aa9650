"""Compiling, running and keeping programs through xla_go.client."""

from __future__ import annotations

import gc
import sys
import threading
import time
from typing import Any

import numpy as np
import pytest

import xla_go
from support import Child
from test_client import LOOP
from xla_go import client

pytestmark = pytest.mark.once

DONATING = """
module @donating {
  func.func public @main(%x: tensor<4xf32> {tf.aliasing_output = 0 : i32}, %y: tensor<4xf32>) -> tensor<4xf32> {
    %z = stablehlo.add %x, %y : tensor<4xf32>
    return %z : tensor<4xf32>
  }
}
"""
ONES = np.ones(4, np.float32)


def test_the_format_is_told_from_the_program() -> None:
    text = DONATING.replace(" {tf.aliasing_output = 0 : i32}", "")
    assert client.compile(text).parameters == ["f32[4]", "f32[4]"]
    assert client.compile(text.encode()).results == ["f32[4]"]
    module = client.compile(text).optimized_hlo()
    again = client.compile(module)
    np.testing.assert_array_equal(again(client.upload(ONES), client.upload(ONES))[0].numpy(), ONES * 2)
    with pytest.raises(ValueError, match="got HLO as text"):
        client.compile("HloModule m\n\nENTRY e { ROOT x = f32[] parameter(0) }")
    with pytest.raises(ValueError, match="no bytes"):
        client.compile(b"")
    with pytest.raises(xla_go.errors.XlaError):
        client.compile(b"\x0a\x01\xff\x00\x00nonsense")


def test_donation_and_its_opposite() -> None:
    with client.compile(DONATING) as program:
        x, y = client.upload(ONES), client.upload(ONES)
        np.testing.assert_array_equal(program(x, y, keep=(0,))[0].numpy(), ONES * 2)
        assert x.has_value
        np.testing.assert_array_equal(program(x, y)[0].numpy(), ONES * 2)
        assert not x.has_value and y.has_value
        with pytest.raises(xla_go.errors.XlaError, match="donated"):
            x.numpy()
        with pytest.raises(xla_go.errors.XlaError, match="argument 0"):
            program(x, y)
        with pytest.raises(xla_go.errors.InvalidArgumentError, match="NonDonatable"):
            program(client.upload(ONES), y, keep=(2,))


def test_serialize_and_load() -> None:
    with client.compile(DONATING, name="kept") as program:
        serialized = program.serialize()
        memory = program.memory_analysis()
    assert isinstance(serialized, bytes) and len(serialized) > 100
    assert "arguments: 32 bytes" in memory
    with client.deserialize(serialized) as loaded:
        assert loaded.parameters == ["f32[4]", "f32[4]"] and loaded.devices == client.devices()[:1]
        np.testing.assert_array_equal(loaded(client.upload(ONES), client.upload(ONES))[0].numpy(), ONES * 2)
    with pytest.raises(xla_go.errors.XlaError):
        client.deserialize(b"no executable")


def test_compile_options_change_the_environment() -> None:
    before = client.environment_hash()
    assert len(before) == 16 and client.environment_hash() == before
    client.set_compile_options({"xla_cpu_enable_fast_math": "true"})
    try:
        assert client.environment_hash() != before
        np.testing.assert_array_equal(client.compile(DONATING)(client.upload(ONES), client.upload(ONES))[0].numpy(), ONES * 2)
        client.set_compile_options({"xla_no_such_option": "1"})
        with pytest.raises(xla_go.errors.XlaError, match="xla_no_such_option"):
            client.compile(DONATING)
    finally:
        client.set_compile_options({})
    assert client.environment_hash() == before


def test_arguments_that_are_no_data() -> None:
    with client.compile(DONATING) as program:
        x = client.upload(ONES)
        with pytest.raises(TypeError, match=r"expected .*Data as argument 1, got numpy.ndarray: .*upload"):
            program(x, ONES)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="expected Data as argument 0, got ndarray"):
            program.execute_replicated(ONES, x)  # type: ignore[arg-type]
        with pytest.raises(xla_go.errors.InvalidArgumentError, match="expected 2 arguments, got 1"):
            program(x)
        with pytest.raises(xla_go.errors.InvalidArgumentError, match=r"expected shape f32\[4\], got f64\[4\]"):
            program(x, client.upload(np.ones(4)))
        with pytest.raises(xla_go.errors.InvalidArgumentError, match="CPU:9"):
            program(x, x, device="CPU:9")
    with pytest.raises(xla_go.errors.InvalidArgumentError, match="closed"):
        program(x, x)
    assert repr(program) == "<Computation closed>"


def test_many_arguments_and_results() -> None:
    """More than the extension keeps on its stack."""
    n = 70
    parameters = ", ".join(f"%a{i}: tensor<f32>" for i in range(n))
    body = "\n".join(f"%r{i} = stablehlo.add %a{i}, %a{n - 1 - i} : tensor<f32>" for i in range(n))
    results = ", ".join(f"%r{i}" for i in range(n))
    types = ", ".join(["tensor<f32>"] * n)
    before = client.live()
    with client.compile(f"module @many {{ func.func public @main({parameters}) -> ({types}) {{\n{body}\nreturn {results} : {types} }} }}") as program:
        values = [client.upload(np.float32(i)) for i in range(n)]
        assert [float(r.numpy()) for r in program(*values, keep=tuple(range(n)))] == [n - 1] * n
        del values
    gc.collect()
    assert client.live() == before


def test_dispatch_creates_and_frees_nothing_in_the_long_run() -> None:
    with client.compile(DONATING) as program:
        x, y = client.upload(ONES), client.upload(ONES)
        before = client.live()
        objects = sys.getallocatedblocks()
        for _ in range(2000):
            program(x, y, keep=(0,))
        gc.collect()
        assert client.live() == before
        assert sys.getallocatedblocks() - objects < 500


def test_results_close_from_other_threads() -> None:
    with client.compile(DONATING) as program:
        x, y = client.upload(ONES), client.upload(ONES)
        before = client.live()
        failures: list[BaseException] = []

        def work() -> None:
            try:
                for _ in range(300):
                    (result,) = program(x, y, keep=(0,))
                    assert result.numpy()[0] == 2
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures
        gc.collect()
        assert client.live() == before


def test_callbacks_and_timeouts() -> None:
    with client.compile(LOOP) as loop:
        x = client.upload(np.eye(200, dtype=np.float32))
        loop(client.upload(np.int32(1)), x)[0].wait()
        called: list[tuple[Any, float, str]] = []
        done = threading.Event()

        def callback(error: xla_go.errors.XlaError | None) -> None:
            called.append((error, time.perf_counter(), threading.current_thread().name))
            done.set()

        (result,) = loop(client.upload(np.int32(2000)), x)
        result.on_ready(callback)
        with pytest.raises(xla_go.errors.DeadlineExceededError, match="not computed within"):
            result.wait(timeout=0.001)
        assert not called and not result.is_ready()
        assert done.wait(30) and result.is_ready()
        assert called[0][0] is None and called[0][2] != threading.current_thread().name
        result.wait(timeout=0)


def test_a_callbacks_exception_is_reported_and_the_next_one_runs(child: Child) -> None:
    done = child("""
    from xla_go import client
    data = client.upload(1.0)
    data.on_ready(lambda error: 1 / 0)
    data.on_ready(lambda error: print("second", error))
    """)
    assert done.stdout == "second None\n"
    assert "ZeroDivisionError" in done.stderr


def test_an_interrupt_breaks_a_compile(child: Child) -> None:
    """The compiler goes on; what it makes is closed, since nobody has asked for it any more."""
    done = child("""
    import os, signal, threading, time
    from xla_go import client
    body = "".join(f"%y{i + 1} = stablehlo.dot_general %y{i}, %y{i}, contracting_dims = [1] x [0] : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>\\n%z{i} = stablehlo.sine %y{i + 1} : tensor<64x64xf32>\\n" for i in range(3000))
    TEXT = f"module @long {{ func.func public @main(%y0: tensor<64x64xf32>) -> tensor<64x64xf32> {{\\n{body}return %y3000 : tensor<64x64xf32> }} }}"
    client.devices()
    started = time.perf_counter()
    threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    try:
        client.compile(TEXT)
    except KeyboardInterrupt:
        interrupted = time.perf_counter() - started
    else:
        raise AssertionError("compiled before the interrupt")
    assert client.live() == (0, 0)
    started = time.perf_counter()
    program = client.compile(TEXT)
    whole = time.perf_counter() - started
    program.close()
    print(interrupted < 0.2 + whole / 2, client.live())
    """)
    assert done.stdout == "True (0, 0)\n"


def test_the_interpreter_ends_with_everything_open(child: Child) -> None:
    done = child(f"""
    import numpy as np
    from xla_go import client
    program = client.compile({DONATING!r})
    x = client.upload(np.ones(4, np.float32))
    kept = [program(x, x, keep=(0,)) for _ in range(50)]
    cycle = [x]
    cycle.append(cycle)
    """)
    assert done.stderr == ""


def test_a_fork_leaves_the_parents_data_alone(child: Child) -> None:
    done = child(f"""
    import os
    import numpy as np
    from xla_go import client, errors
    program = client.compile({DONATING!r})
    x = client.upload(np.ones(4, np.float32))
    pid = os.fork()
    if pid == 0:
        try:
            program(x, x)
        except errors.FailedPreconditionError as error:
            assert "spawn" in str(error)
            x.close()
            del x, program
            os._exit(7)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
    print(program(x, x, keep=(0,))[0].numpy().tolist(), x.numpy().tolist())
    """)
    assert done.stdout == "[2.0, 2.0, 2.0, 2.0] [1.0, 1.0, 1.0, 1.0]\n"
