"""The contract from Python, through the extension: compile, upload, execute, read."""

from __future__ import annotations

import gc
import threading
import time

import numpy as np
import pytest

import xla_go
from support import Child

pytestmark = pytest.mark.once

DOUBLE = """
module @double {
  func.func public @main(%x: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<f32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %twice = stablehlo.add %x, %x : tensor<2x3xf32>
    %sum = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<f32>
    return %twice, %sum : tensor<2x3xf32>, tensor<f32>
  }
}
"""

# Counts to %n, one matrix product a time: as long as it is told to take.
LOOP = """
module @loop {
  func.func public @main(%n: tensor<s32>, %x: tensor<200x200xf32>) -> tensor<200x200xf32> {
    %zero = stablehlo.constant dense<0> : tensor<s32>
    %one = stablehlo.constant dense<1> : tensor<s32>
    %r:2 = stablehlo.while(%i = %zero, %y = %x) : tensor<s32>, tensor<200x200xf32>
    cond {
      %c = stablehlo.compare LT, %i, %n : (tensor<s32>, tensor<s32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %next = stablehlo.add %i, %one : tensor<s32>
      %z = stablehlo.dot_general %y, %x, contracting_dims = [1] x [0] : (tensor<200x200xf32>, tensor<200x200xf32>) -> tensor<200x200xf32>
      stablehlo.return %next, %z : tensor<s32>, tensor<200x200xf32>
    }
    return %r#1 : tensor<200x200xf32>
  }
}
""".replace("s32", "i32")


def test_compile_upload_execute_read() -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    with xla_go.client.compile(DOUBLE, "mlir", "double") as double:
        info = double.info()
        assert info["parameters"] == ["f32[2,3]"] and info["results"] == ["f32[2,3]", "f32[]"]
        with xla_go.client.upload(array) as x:
            assert (x.shape, x.element, x.device) == ((2, 3), "f32", xla_go.client.devices()[0])
            twice, total = double(x)
            np.testing.assert_array_equal(twice.numpy(), array * 2)
            assert total.numpy() == 15.0
            assert twice.is_ready()


@pytest.mark.parametrize("dtype", ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64", "complex64"])
@pytest.mark.parametrize("shape", [(), (5,), (2, 0, 3), (3, 4)])
def test_upload_and_read_back(dtype: str, shape: tuple[int, ...]) -> None:
    array = np.arange(max(1, int(np.prod(shape)))).reshape(-1)[: int(np.prod(shape))].reshape(shape).astype(dtype)
    back = xla_go.client.upload(array).numpy()
    assert back.dtype == array.dtype and back.shape == array.shape
    np.testing.assert_array_equal(back, array)


def test_upload_copies_at_once_and_takes_strided_arrays() -> None:
    array = np.arange(12, dtype=np.int32).reshape(3, 4)
    data = xla_go.client.upload(array.T[::2])
    want = array.T[::2].copy()
    array[:] = -1
    np.testing.assert_array_equal(data.numpy(), want)


def test_memory_is_freed_with_the_last_reference() -> None:
    before = xla_go.client.live()
    data = [xla_go.client.upload(np.zeros(4)) for _ in range(10)]
    assert xla_go.client.live()[0] == before[0] + 10
    data[0].close()
    data[0].close()
    assert "closed" in repr(data[0])
    del data
    gc.collect()
    assert xla_go.client.live() == before


def test_errors_have_their_class() -> None:
    with pytest.raises(xla_go.errors.XlaError, match="custom op 'this' is unknown"):
        xla_go.client.compile("this is no program", "mlir")
    with pytest.raises(xla_go.errors.InvalidArgumentError, match='expected format hlo or mlir, got "cuda"'):
        xla_go.client.compile("x", "cuda")  # type: ignore[arg-type]
    with pytest.raises(xla_go.errors.InvalidArgumentError, match="CPU:77"):
        xla_go.client.upload(np.zeros(3), device="CPU:77")
    with pytest.raises(TypeError, match="expected one of the types bool"):
        xla_go.client.upload(np.array(["a"]))
    closed = xla_go.client.upload(np.zeros(3))
    closed.close()
    with pytest.raises(xla_go.errors.InvalidArgumentError, match="closed"):
        closed.numpy()
    with xla_go.client.compile(DOUBLE, "mlir") as double, pytest.raises(xla_go.errors.XlaError):
        double()


def test_a_read_lets_other_threads_run() -> None:
    ticks = 0
    stop = threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not stop.is_set():
            ticks += 1
            time.sleep(0.001)

    with xla_go.client.compile(LOOP, "mlir", "loop") as loop:
        x = xla_go.client.upload(np.eye(200, dtype=np.float32))
        loop(xla_go.client.upload(np.int32(1)), x)[0].wait()
        thread = threading.Thread(target=tick)
        thread.start()
        try:
            start = time.perf_counter()
            (result,) = loop(xla_go.client.upload(np.int32(2000)), x)
            queued = time.perf_counter() - start
            before = ticks
            result.numpy()
            during = ticks - before
            elapsed = time.perf_counter() - start
        finally:
            stop.set()
            thread.join()
    assert elapsed > 0.1, "the program is too short to show anything"
    assert queued < elapsed / 2, "execute waited for the result"
    # A thread that could not run would have ticked once or twice; sleeping 1 ms takes up to a few.
    assert during > elapsed * 1000 / 20


def test_interrupt_breaks_a_wait(child: Child) -> None:
    done = child(
        f"""
    import os, signal, threading, time
    import numpy as np
    import xla_go
    loop = xla_go.client.compile({LOOP!r}, "mlir")
    x = xla_go.client.upload(np.eye(200, dtype=np.float32))
    (result,) = loop(xla_go.client.upload(np.int32(40000)), x)
    threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    start = time.perf_counter()
    try:
        result.wait()
    except KeyboardInterrupt:
        elapsed = time.perf_counter() - start
        assert not result.is_ready(), "the program ended before the interrupt"
        assert elapsed < 1.5, elapsed
        print("interrupted", flush=True)
    os._exit(0)   # not to wait for the program
    """
    )
    assert done.stdout.strip() == "interrupted"


def test_a_forked_child_raises_at_once(child: Child) -> None:
    done = child("""
    import os, sys, time
    import numpy as np
    import xla_go
    data = xla_go.client.upload(np.zeros(3))
    pid = os.fork()
    if pid == 0:
        start = time.perf_counter()
        try:
            data.numpy()
        except xla_go.errors.FailedPreconditionError as error:
            assert "spawn" in str(error)
            del data
            sys.stdout.write("raised" if time.perf_counter() - start < 1 else "late")
            sys.stdout.flush()
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    assert status == 0
    assert data.numpy().tolist() == [0.0, 0.0, 0.0]
    """)
    assert done.stdout == "raised"
