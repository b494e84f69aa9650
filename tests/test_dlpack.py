"""DLPack both ways, of xla_go.client's data and of tensors: whose memory it is, how long it lives, who may write."""

from __future__ import annotations

import ctypes
import gc
import importlib.util
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

import xla_go
from support import Child
from xla_go import _runtime, client

CPU = (1, 0)


def lent() -> int:
    return _runtime.call("LiveReferences") if _runtime.loaded() else 0


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    client.devices()
    before = client.live(), lent()
    yield
    xla_go.sync(wait=True)
    gc.collect()
    assert (client.live(), lent()) == before


def aligned(shape: tuple[int, ...], dtype: Any = np.float32, offset: int = 0) -> np.ndarray[Any, Any]:
    """An array at an address that 64 divides, or at `offset` bytes past one."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    room = np.zeros(size + 128, np.uint8)
    start = -room.ctypes.data % 64 + offset
    return room[start : start + size].view(dtype).reshape(shape)


# ---- lending ----


def test_a_view_without_a_copy() -> None:
    data = client.upload(np.arange(6, dtype=np.float32).reshape(2, 3))
    assert data.__dlpack_device__() == CPU
    view = np.from_dlpack(data)
    assert view.ctypes.data == data.pointer() and lent() == 1
    np.testing.assert_array_equal(view, [[0, 1, 2], [3, 4, 5]])
    assert not view.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        view[0, 0] = 1
    tensor = torch.from_dlpack(data)
    assert tensor.data_ptr() == data.pointer() and tensor.tolist() == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize("dtype", ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 0, 3), (2, 3)])
def test_types_and_shapes_both_ways(dtype: str, shape: tuple[int, ...]) -> None:
    array = aligned(shape, dtype)
    array[...] = np.arange(array.size).reshape(shape).astype(dtype)
    view = np.from_dlpack(client.upload(array))
    assert view.dtype == array.dtype and view.shape == shape
    np.testing.assert_array_equal(view, array)
    back = client.from_dlpack(array)
    assert back.dtype == array.dtype and back.shape == shape
    np.testing.assert_array_equal(back.numpy(), array)


@pytest.mark.parametrize("name", ["bfloat16", "float8_e5m2", "float8_e4m3fn"])
def test_types_that_numpy_lacks_go_between_torch_and_the_device(name: str) -> None:
    dtype = getattr(torch, name)
    source = torch.tensor([0.5, -2, 1.25]).to(dtype)
    try:
        data = client.from_dlpack(source)
        back = torch.from_dlpack(data)
    except BufferError as error:
        # Older torch has no DLPack number for 8-bit floats.
        assert name.startswith("float8"), error
        pytest.skip(str(error))
    assert data.element == {"bfloat16": "bf16", "float8_e5m2": "f8e5m2", "float8_e4m3fn": "f8e4m3fn"}[name]
    assert back.dtype == dtype
    assert back.float().tolist() == [0.5, -2, 1.25]


def test_the_memory_outlives_the_data() -> None:
    data = client.upload(np.full(1000, 7, np.int32))
    view = np.from_dlpack(data)
    address = data.pointer()
    data.close()
    del data
    gc.collect()
    # New data would get the same memory if it were free.
    others = [client.upload(np.zeros(1000, np.int32)) for _ in range(20)]
    assert address not in [other.pointer() for other in others]
    assert view.sum() == 7000 and lent() == 1
    part = view[::2]
    del view
    gc.collect()
    assert part.sum() == 3500 and lent() == 1
    del part
    assert lent() == 0


def test_a_capsule_that_nobody_consumes() -> None:
    data = client.upload(1.0)
    for version in (None, (0, 8), (1, 0), (2, 0)):
        capsule = data.__dlpack__(max_version=version)
        assert ("versioned" in repr(capsule)) == (version is not None and version[0] >= 1)
        assert lent() == 1
        del capsule
        assert lent() == 0


def test_a_capsule_is_consumed_once() -> None:
    data = client.upload(np.arange(3))
    capsule = data.__dlpack__()
    tensor = torch.utils.dlpack.from_dlpack(capsule)
    with pytest.raises(ValueError, match="nobody has consumed"):
        _runtime.native().dlpack_take(capsule)
    del capsule
    gc.collect()
    assert tensor.tolist() == [0, 1, 2] and lent() == 1


def test_copies_and_other_devices_on_request() -> None:
    data = client.upload(np.arange(3.0))
    copied = np.from_dlpack(data, copy=True)
    assert copied.ctypes.data != data.pointer() and copied.flags.writeable
    copied[0] = 9
    assert data.numpy()[0] == 0
    assert np.from_dlpack(data, copy=False).ctypes.data == data.pointer()
    assert np.from_dlpack(data, device="cpu").ctypes.data == data.pointer()
    with pytest.raises(BufferError, match=r"expected dl_device \(1, 0\).*got \(2, 0\)"):
        data.__dlpack__(dl_device=(2, 0))
    with pytest.raises(BufferError, match="stream None"):
        data.__dlpack__(stream=5)
    data.__dlpack__(stream=-1)


def test_a_lent_value_is_not_donated() -> None:
    donating = client.compile("""
    module @donating { func.func public @main(%x: tensor<8xf32> {tf.aliasing_output = 0 : i32}) -> tensor<8xf32> {
      %y = stablehlo.add %x, %x : tensor<8xf32>
      return %y : tensor<8xf32> } }""")
    data = client.upload(np.ones(8, np.float32))
    view = np.from_dlpack(data)
    (result,) = donating(data)
    assert result.numpy().tolist() == [2.0] * 8
    assert view.tolist() == [1.0] * 8


def test_what_cannot_be_lent() -> None:
    closed = client.upload(1.0)
    closed.close()
    with pytest.raises(xla_go.errors.InvalidArgumentError, match="closed"):
        closed.__dlpack__()
    with pytest.raises(xla_go.errors.FailedPreconditionError):
        client.placeholder((2,), "float32").__dlpack__()


def test_sharded_data_is_lent_by_its_shards(child: Child) -> None:
    child(
        """
    import numpy as np
    from xla_go import client
    parts = [client.upload(np.full(2, i), device=d) for i, d in enumerate(client.devices())]
    whole = client.wrap_shards(parts, (4,), client.sharding.tiled([2]))
    for call in (whole.__dlpack__, whole.__dlpack_device__):
        try:
            call()
        except BufferError as error:
            assert "use one of its shards" in str(error)
        else:
            raise AssertionError
    assert np.from_dlpack(whole.shards[1]).tolist() == [1, 1]
    """,
        env={"CPU_NUM_DEVICES": "2"},
    )


# ---- borrowing ----


def test_borrowed_memory_is_used_as_it_is() -> None:
    array = aligned((4, 4))
    array[:] = 2
    data = client.from_dlpack(array)
    assert data.pointer() == array.ctypes.data
    tensor = torch.ones(4, 16)
    if tensor.data_ptr() % 64 == 0:
        assert client.from_dlpack(tensor).pointer() == tensor.data_ptr()
    assert client.from_dlpack(array, copy=True).pointer() != array.ctypes.data


class Counting:
    """A producer that counts its deleter's calls, with a record of its own making."""

    def __init__(self, array: np.ndarray[Any, Any], versioned: bool) -> None:
        self.array, self.calls, self.threads = array, 0, set[int]()
        self.shape = (ctypes.c_int64 * array.ndim)(*array.shape)
        tensor = [("data", ctypes.c_void_p), ("type", ctypes.c_int32), ("id", ctypes.c_int32), ("rank", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p), ("offset", ctypes.c_uint64)]
        head = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64)]
        fields = [*head, *tensor] if versioned else [*tensor, ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]
        record = type("Record", (ctypes.Structure,), {"_fields_": fields})
        self.deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self.delete)
        values = {"data": array.ctypes.data, "type": 1, "rank": array.ndim, "code": 2, "bits": 32, "lanes": 1, "shape": ctypes.addressof(self.shape)}
        if versioned:
            values["major"] = 1
        self.record = record(**values, deleter=ctypes.cast(self.deleter, ctypes.c_void_p).value)
        self.name = b"dltensor_versioned" if versioned else b"dltensor"

    def delete(self, _: int) -> None:
        self.calls += 1
        self.threads.add(threading.get_ident())

    def __dlpack_device__(self) -> tuple[int, int]:
        return CPU

    def __dlpack__(self, **_: Any) -> Any:
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(self.record), self.name, None)


@pytest.mark.parametrize("versioned", [False, True])
@pytest.mark.parametrize("offset", [0, 4], ids=["as it is", "copied"])
def test_the_owner_is_told_once(versioned: bool, offset: int) -> None:
    producer = Counting(aligned((5,), np.float32, offset), versioned)
    producer.array[:] = 3
    data = client.from_dlpack(producer)
    assert (data.pointer() == producer.array.ctypes.data) == (offset == 0)
    assert producer.calls == (0 if offset == 0 else 1)
    assert data.numpy().tolist() == [3.0] * 5
    twin = data.copy_to_device("CPU:0")
    data.close()
    assert producer.calls == (0 if offset == 0 else 1)
    assert twin.numpy().tolist() == [3.0] * 5
    twin.close()
    assert producer.calls == 1


def test_a_producers_errors_leave_nothing_taken() -> None:
    producer = Counting(aligned((5,), np.float32), True)
    producer.record.lanes = 4
    with pytest.raises(BufferError, match="4 lanes"):
        client.from_dlpack(producer)
    assert producer.calls == 1
    producer.record.major = 2
    with pytest.raises(BufferError, match="at most version 1"):
        client.from_dlpack(producer)
    assert producer.calls == 1  # the capsule is still the producer's

    class Elsewhere(Counting):
        def __dlpack_device__(self) -> tuple[int, int]:
            return 2, 0

    with pytest.raises(BufferError, match="host memory"):
        client.from_dlpack(Elsewhere(aligned((5,)), True))
    with pytest.raises(AttributeError):
        client.from_dlpack([1, 2])


def test_the_owner_keeps_the_memory_for_the_data() -> None:
    array = aligned((1000,), np.int64)
    array[:] = 5
    data = client.from_dlpack(array)
    del array
    gc.collect()
    churn = [np.ones(1000, np.int64) for _ in range(50)]
    assert data.numpy().sum() == 5000 and len(churn) == 50


@pytest.mark.parametrize("view", [np.arange(64, dtype=np.int32).reshape(8, 8).T, np.arange(64, dtype=np.int32)[::-1], np.arange(64, dtype=np.int32)[1::3]], ids=["transposed", "reversed", "stepped"])
def test_other_layouts_are_copied_or_refused(view: np.ndarray[Any, Any]) -> None:
    np.testing.assert_array_equal(client.from_dlpack(view).numpy(), view)
    with pytest.raises(BufferError, match="cannot do without a copy: the memory is not dense"):
        client.from_dlpack(view, copy=False)


def test_a_crooked_address_is_copied_or_refused() -> None:
    array = aligned((8,), np.float32, offset=4)
    data = client.from_dlpack(array)
    array[:] = 1
    assert data.numpy().sum() == 0
    with pytest.raises(BufferError, match="no multiple of 64"):
        client.from_dlpack(array, copy=False)


def test_a_program_never_writes_to_borrowed_memory() -> None:
    donating = client.compile("""
    module @donating { func.func public @main(%x: tensor<16xf32> {tf.aliasing_output = 0 : i32}) -> tensor<16xf32> {
      %y = stablehlo.add %x, %x : tensor<16xf32>
      return %y : tensor<16xf32> } }""")
    array = aligned((16,))
    array[:] = 1
    (result,) = donating(client.from_dlpack(array))
    assert result.numpy().tolist() == [2.0] * 16 and array.tolist() == [1.0] * 16
    read_only = aligned((16,))
    read_only.flags.writeable = False
    assert client.from_dlpack(read_only).numpy().tolist() == [0.0] * 16


def test_there_and_back_again() -> None:
    """Memory that is borrowed, lent on and borrowed again is one piece with one end."""
    producer = Counting(aligned((6,), np.float32), True)
    producer.array[:] = 1
    first = client.from_dlpack(producer)
    second = client.from_dlpack(first)
    view = np.from_dlpack(second)
    assert view.ctypes.data == producer.array.ctypes.data
    first.close()
    second.close()
    assert view.sum() == 6 and producer.calls == 0
    del view
    gc.collect()
    assert producer.calls == 1


def test_released_on_other_threads() -> None:
    data = client.upload(np.arange(100.0))
    failures = []

    def work() -> None:
        try:
            for _ in range(100):
                assert np.from_dlpack(data).sum() == 4950
                assert client.from_dlpack(aligned((32,))).numpy().sum() == 0
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_the_interpreter_ends_with_memory_lent_and_borrowed(child: Child) -> None:
    done = child("""
    import numpy as np, torch
    from xla_go import client
    import xla_go
    data = client.upload(np.ones(1000))
    views = [np.from_dlpack(data), torch.from_dlpack(data), data.__dlpack__(), data.__dlpack__(max_version=(1, 0))]
    borrowed = client.from_dlpack(torch.ones(1024)), client.from_dlpack(np.ones(1024))
    tensor = xla_go.from_dlpack(torch.ones(1024))
    on = np.from_dlpack(tensor + 1)
    cycle = [views, borrowed]
    cycle.append(cycle)
    """)
    assert done.stderr == ""


# ---- tensors ----


def test_a_tensors_memory_is_lent() -> None:
    tensor = torch.arange(12.0, device="xla").reshape(3, 4)
    assert tensor.__dlpack_device__() == CPU
    view = np.from_dlpack(tensor)
    np.testing.assert_array_equal(view, np.arange(12).reshape(3, 4))
    assert not view.flags.writeable and lent() == 1
    on_cpu = torch.from_dlpack(tensor)
    assert on_cpu.device.type == "cpu" and on_cpu.data_ptr() == view.ctypes.data
    turned = np.from_dlpack(tensor.T[1:])
    assert turned.strides == (4, 16) and turned.tolist() == tensor.cpu().numpy().T[1:].tolist()
    assert turned.ctypes.data == view.ctypes.data + 4
    assert torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(tensor)).tolist() == tensor.tolist()
    data = client.from_dlpack(tensor)
    assert data.pointer() == view.ctypes.data


def test_a_lent_tensor_is_as_it_was() -> None:
    tensor = torch.ones(64, device="xla")
    view = np.from_dlpack(tensor)
    for _ in range(4):
        tensor.add_(1)
        xla_go.sync()
    assert tensor.sum().item() == 320 and view.sum() == 64
    assert np.from_dlpack(tensor).sum() == 320
    del tensor
    gc.collect()
    xla_go.sync(wait=True)
    assert view.sum() == 64


def test_tensors_of_every_sort() -> None:
    assert np.from_dlpack(torch.tensor(3, device="xla")) == 3
    assert np.from_dlpack(torch.empty(0, 3, device="xla")).shape == (0, 3)
    assert np.from_dlpack(torch.empty(2, 3, device="xla")).shape == (2, 3)
    assert np.from_dlpack(torch.zeros(2, dtype=torch.bool, device="xla")).tolist() == [False, False]
    assert torch.from_dlpack(torch.ones(2, dtype=torch.bfloat16, device="xla")).dtype == torch.bfloat16
    assert np.from_dlpack(torch.ones(3, device="xla").expand(2, 3)).strides == (0, 4)
    assert np.from_dlpack(torch.ones(2, dtype=torch.complex64, device="xla").imag.neg()).tolist() == [0, 0]
    negative = torch.tensor([1 + 2j], device="xla").conj().imag
    assert np.from_dlpack(negative).tolist() == [-2]


def test_tensors_that_are_not_lent() -> None:
    with pytest.raises(BufferError, match="require gradient"):
        torch.ones(2, device="xla", requires_grad=True).__dlpack__()
    with pytest.raises(BufferError, match="conjugate"):
        torch.ones(2, dtype=torch.complex64, device="xla").conj().__dlpack__()
    tensor = torch.ones(2, device="xla")
    with pytest.raises(BufferError, match="dl_device"):
        tensor.__dlpack__(dl_device=(2, 0))
    with pytest.raises(BufferError, match="stream None"):
        tensor.__dlpack__(stream=3)
    with pytest.raises(BufferError, match="max_version"):
        tensor.__dlpack__(read_only=True)
    copied = np.from_dlpack(tensor, copy=True)
    assert copied.ctypes.data != np.from_dlpack(tensor).ctypes.data


def test_a_tensor_over_borrowed_memory() -> None:
    array = aligned((8, 8))
    array[:] = 1
    tensor = xla_go.from_dlpack(array)
    assert tensor.device == torch.device("xla", 0) and tensor.shape == (8, 8) and tensor.dtype == torch.float32
    assert np.from_dlpack(tensor).ctypes.data == array.ctypes.data
    assert (tensor @ tensor).sum().item() == 512
    for _ in range(4):
        tensor.mul_(2)
        xla_go.sync()
    assert tensor.sum().item() == 1024 and array.sum() == 64


def test_a_tensor_over_torchs_memory() -> None:
    source = torch.arange(6, dtype=torch.bfloat16)
    tensor = xla_go.from_dlpack(source, device="xla:0")
    assert tensor.dtype == torch.bfloat16 and tensor.tolist() == [0, 1, 2, 3, 4, 5]
    assert xla_go.from_dlpack(torch.empty(0, 2)).shape == (0, 2)
    assert xla_go.from_dlpack(torch.tensor(2.5), copy=True).item() == 2.5
    assert xla_go.from_dlpack(torch.arange(6).reshape(2, 3).T).tolist() == [[0, 3], [1, 4], [2, 5]]
    producer = Counting(aligned((5,), np.float32), True)
    adopted = xla_go.from_dlpack(producer)
    total = adopted + 1
    del adopted
    gc.collect()
    assert total.tolist() == [1.0] * 5
    del total
    gc.collect()
    xla_go.sync(wait=True)
    assert producer.calls == 1
    for device, message in (("cpu", "expected an xla device, got cpu"), ("xla:7", "below 1, got 7")):
        with pytest.raises(ValueError, match=message):
            xla_go.from_dlpack(source, device=device)


def test_both_ways_over_the_other_client(child: Child) -> None:
    child(
        """
    import gc
    import numpy as np, torch
    import xla_go
    from xla_go import _runtime, client
    data = client.upload(np.arange(64, dtype=np.float32))
    view = np.from_dlpack(data)
    assert view.ctypes.data == data.pointer() and view.sum() == 2016
    room = np.zeros(320, np.uint8)
    start = -room.ctypes.data % 64
    array = room[start:start + 256].view(np.float32)
    borrowed = client.from_dlpack(array)
    assert borrowed.pointer() == array.ctypes.data
    tensor = xla_go.from_dlpack(array)
    tensor += 1
    xla_go.sync(wait=True)
    assert np.from_dlpack(tensor).sum() == 64 and array.sum() == 0
    del data, view, borrowed, tensor
    gc.collect()
    xla_go.sync(wait=True)
    assert _runtime.call("LiveReferences") == 0 and client.live() == (0, 0)
    """,
        env={"XLA_USE_IFRT": "1"},
    )


def test_jax_arrays_both_ways(child: Child) -> None:
    if importlib.util.find_spec("jax") is None:
        pytest.skip("JAX is not installed in this environment")
    child("""
    import gc
    import numpy as np, torch
    import jax, jax.numpy as jnp
    import xla_go
    from xla_go import _runtime, client
    array = jnp.arange(64.0).reshape(8, 8)
    data = client.from_dlpack(array)
    assert data.pointer() == array.unsafe_buffer_pointer()
    del array
    gc.collect()
    assert data.numpy().sum() == 2016
    back = jnp.from_dlpack(data)
    assert back.unsafe_buffer_pointer() == data.pointer() and back.sum() == 2016
    assert client.from_dlpack(jnp.ones(4, jnp.bfloat16)).element == "bf16"
    assert xla_go.from_dlpack(jnp.ones((4, 4))).sum().item() == 16
    assert jnp.from_dlpack(torch.ones(3, device="xla")).tolist() == [1, 1, 1]
    # A donation by JAX leaves lent memory as it is.
    lent = client.upload(np.ones(256, np.float32))
    doubled = jax.jit(lambda x: x * 2, donate_argnums=0)(jnp.from_dlpack(lent))
    assert doubled.sum() == 512 and lent.numpy().sum() == 256
    del data, back, lent, doubled
    gc.collect()
    xla_go.sync(wait=True)
    gc.collect()
    assert client.live() == (0, 0) and _runtime.call("LiveReferences") == 0
    """)
