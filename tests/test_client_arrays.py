"""Arrays of every kind go to a device and come back as they were."""

from __future__ import annotations

import array
import copy
import gc
import pickle
from typing import Any

import numpy as np
import pytest

import xla_go
from xla_go import client

pytestmark = pytest.mark.once

CUBE = np.arange(24, dtype=np.int32).reshape(2, 3, 4)


@pytest.mark.parametrize(
    "view",
    [
        CUBE[::-1],
        CUBE[:, ::-1, ::-2],
        CUBE.T,
        CUBE.transpose(1, 2, 0),
        CUBE[:, 1],
        CUBE[:, :, 3:],
        np.broadcast_to(CUBE[0, 0], (3, 2, 4)),
        np.broadcast_to(np.int32(7), (2, 2)),
        np.asfortranarray(CUBE),
        CUBE[:0],
        CUBE[:, :, 4:].T,
        CUBE[0, 0, 0],
        np.lib.stride_tricks.sliding_window_view(CUBE[0, 0], 2),
    ],
    ids=lambda view: f"{view.shape}{view.strides}",
)
def test_strides(view: np.ndarray[Any, Any]) -> None:
    back = client.upload(view).numpy()
    assert back.dtype == view.dtype and back.flags.c_contiguous and back.flags.writeable
    np.testing.assert_array_equal(back, view)


def test_read_only_memory_and_buffers() -> None:
    frozen = np.arange(5.0)
    frozen.flags.writeable = False
    np.testing.assert_array_equal(client.upload(frozen).numpy(), frozen)
    np.testing.assert_array_equal(client.upload(np.frombuffer(b"abcd", np.uint8)).numpy(), [97, 98, 99, 100])
    np.testing.assert_array_equal(client.upload(array.array("d", [1, 2])).numpy(), [1.0, 2.0])
    np.testing.assert_array_equal(client.upload(memoryview(array.array("i", [3, 4]))).numpy(), np.array([3, 4], np.int32))


def test_numbers_and_lists_are_as_in_numpy() -> None:
    assert client.upload(2.5).element == "f64" and client.upload(2.5).numpy() == 2.5
    assert client.upload(True).element == "pred" and client.upload(3).element == "s64"
    nested = client.upload([[1, 2], [3, 4]], dtype=np.float32)
    assert (nested.element, nested.shape, nested.dtype, nested.nbytes) == ("f32", (2, 2), np.float32, 16)
    with pytest.raises(ValueError, match="inhomogeneous"):
        client.upload([[1], [2, 3]])


def test_the_other_byte_order_is_turned_round() -> None:
    swapped = np.array([1, 2, 300], dtype=np.dtype(np.int32).newbyteorder())
    assert not swapped.dtype.isnative
    data = client.upload(swapped)
    assert data.numpy().tolist() == [1, 2, 300] and data.numpy().dtype.isnative


@pytest.mark.parametrize("name", ["bfloat16", "float8_e5m2", "float8_e4m3fn", "float8_e5m2fnuz", "float8_e4m3fnuz"])
def test_types_of_ml_dtypes(name: str) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    dtype = np.dtype(getattr(ml_dtypes, name))
    values = np.array([[0.5, -2, 1.25], [0, 3, -0.25]]).astype(dtype)
    data = client.upload(values.T)
    back = data.numpy()
    assert back.dtype == dtype and data.dtype == dtype
    np.testing.assert_array_equal(back.view(np.dtype(f"u{dtype.itemsize}")), values.T.view(np.dtype(f"u{dtype.itemsize}")))
    assert client.upload([1, 2], dtype=dtype).numpy().dtype == dtype


def test_without_ml_dtypes_the_message_names_it(child: Any) -> None:
    done = child("""
    import sys
    sys.modules["ml_dtypes"] = None   # importing it fails
    from xla_go import client
    P = '''module @c { func.func public @main(%x: tensor<2xf32>) -> tensor<2xbf16> {
      %y = stablehlo.convert %x : (tensor<2xf32>) -> tensor<2xbf16>
      return %y : tensor<2xbf16> } }'''
    (result,) = client.compile(P)(client.upload([1, 2], dtype="float32"))
    try:
        result.numpy()
    except TypeError as error:
        print(error)
    """)
    assert "pip install ml_dtypes" in done.stdout and "bfloat16" in done.stdout


@pytest.mark.parametrize("value", [np.array(["a"]), np.array([None]), np.array([1], "datetime64[s]"), np.zeros(2, [("a", "i4")]), np.zeros(2, np.longdouble)], ids=str)
def test_types_that_devices_lack(value: np.ndarray[Any, Any]) -> None:
    with pytest.raises(TypeError, match=r"upload\(\): expected one of the types bool, .* got "):
        client.upload(value)


def test_int4_is_refused_by_name() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    with pytest.raises(TypeError, match="got int4"):
        client.upload(np.array([1, 2], ml_dtypes.int4))


def test_data_is_an_array_to_numpy() -> None:
    data = client.upload(CUBE)
    np.testing.assert_array_equal(np.asarray(data), CUBE)
    assert np.asarray(data, dtype=np.float64).dtype == np.float64
    with pytest.raises(ValueError, match=r"numpy\.from_dlpack"):
        np.array(data, copy=False)


def test_what_was_read_is_the_readers_own() -> None:
    data = client.upload(CUBE)
    first = data.numpy()
    first[:] = 0
    np.testing.assert_array_equal(data.numpy(), CUBE)
    data.close()
    assert first.sum() == 0


def test_a_handle_is_not_shared_by_copies() -> None:
    data = client.upload(CUBE)
    for duplicate in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="cannot be copied or pickled"):
            duplicate(data)
    assert data.numpy().shape == CUBE.shape


def test_placeholders() -> None:
    before = client.live()
    hole = client.placeholder((2, 3, 4), np.int32)
    assert not hole.has_value and hole.shape == CUBE.shape
    with pytest.raises(xla_go.errors.FailedPreconditionError, match="no value yet"):
        hole.numpy()
    with pytest.raises(xla_go.errors.InvalidArgumentError):
        hole.assign(client.upload(CUBE[0]))
    source = client.upload(CUBE)
    hole.assign(source)
    source.close()
    np.testing.assert_array_equal(hole.numpy(), CUBE)
    hole.close()
    del hole, source
    gc.collect()
    assert client.live() == before


def test_live_counts_and_reads_of_many_sizes() -> None:
    before = client.live()
    for count in (0, 1, 255, 4096, 1 << 20):
        values = np.arange(count, dtype=np.uint8)
        np.testing.assert_array_equal(client.upload(values).numpy(), values)
    gc.collect()
    assert client.live() == before
