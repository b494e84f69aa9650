"""Several devices through xla_go.client. The process's devices are fixed at its start, so each test is a child process."""

from __future__ import annotations

import pytest

from support import Child
from xla_go import client

pytestmark = pytest.mark.once

FOUR = {"CPU_NUM_DEVICES": "4"}


def test_one_device() -> None:
    (device,) = client.devices()
    assert device == "CPU:0" == client.default_device() and client.all_devices() == [device]
    assert isinstance(device, str) and device.ordinal == 0 and device.kind and isinstance(device.attributes, dict)
    assert client.platform_version()
    client.wait_device_ops()
    client.wait_device_ops([device])


def test_replicas(child: Child) -> None:
    done = child(
        """
    import numpy as np
    from xla_go import client, errors
    TWICE = '''module @twice { func.func public @main(%x: tensor<3xf32>) -> tensor<3xf32> {
      %y = stablehlo.add %x, %x : tensor<3xf32>
      return %y : tensor<3xf32> } }'''
    devices = client.devices()
    assert devices == ["CPU:0", "CPU:1", "CPU:2", "CPU:3"] and [d.ordinal for d in devices] == [0, 1, 2, 3]
    program = client.compile(TWICE, devices=devices)
    assert program.devices == devices and program.output_shardings is None
    parts = [client.upload(np.full(3, i, np.float32), device=d) for i, d in enumerate(devices)]
    assert [p.device for p in parts] == devices
    whole = client.wrap_shards(parts, (3,), client.sharding.replicated())
    assert whole.device == "SPMD:0" and whole.sharding == client.sharding.replicated()
    (result,) = program.execute_replicated(whole)
    assert [s.numpy().tolist() for s in result.shards] == [[2.0 * i] * 3 for i in range(4)]
    assert [s.device for s in result.shards] == devices
    # The same on a single device of a program compiled for it.
    one = client.compile(TWICE, device="CPU:2")
    assert one(parts[2])[0].device == "CPU:2"
    try:
        one(parts[1])
    except errors.InvalidArgumentError as error:
        assert "CPU:2" in str(error)
    moved = parts[1].copy_to_device("CPU:3")
    assert moved.device == "CPU:3" and moved.numpy().tolist() == [1, 1, 1]
    try:
        client.wrap_shards(parts[:2], (3,), client.sharding.replicated())
    except errors.InvalidArgumentError as error:
        print(error)
    try:
        client.compile(TWICE, device="CPU:0", devices=devices)
    except ValueError as error:
        print(error)
    del result, whole, parts, moved, program, one
    import gc; gc.collect()
    print(client.live())
    """,
        env=FOUR,
    )
    wrong, both, live = done.stdout.splitlines()
    assert "expected one shard for each of the 4 local devices, got 2" in wrong
    assert "got both" in both and live == "(0, 0)"


def test_a_partitioned_program_and_resharding(child: Child) -> None:
    child(
        """
    import numpy as np
    from xla_go import client
    ROWS = client.sharding.tiled([4, 1])
    SUM = '''module @sum attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
      func.func public @main(%x: tensor<8x2xf32> {mhlo.sharding = "{devices=[4,1]0,1,2,3}"})
          -> (tensor<8x2xf32> {mhlo.sharding = "{devices=[4,1]0,1,2,3}"}, tensor<2xf32> {mhlo.sharding = "{replicated}"}) {
        %zero = stablehlo.constant dense<0.0> : tensor<f32>
        %y = stablehlo.multiply %x, %x : tensor<8x2xf32>
        %s = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<8x2xf32>, tensor<f32>) -> tensor<2xf32>
        return %y, %s : tensor<8x2xf32>, tensor<2xf32>
      } }'''
    devices = client.devices()
    array = np.arange(16, dtype=np.float32).reshape(8, 2)
    parts = [client.upload(rows, device=d) for rows, d in zip(np.split(array, 4), devices)]
    whole = client.wrap_shards(parts, array.shape, ROWS)
    np.testing.assert_array_equal(whole.numpy(), array)
    program = client.compile(SUM, devices=devices, sharded=True)
    squares, total = program.execute_replicated(whole)
    assert squares.shape == (8, 2) and [s.shape for s in squares.shards] == [(2, 2)] * 4
    np.testing.assert_array_equal(squares.numpy(), array ** 2)
    np.testing.assert_array_equal(total.shards[3].numpy(), array.sum(0))
    np.testing.assert_array_equal(total.numpy(), array.sum(0))
    assert program.output_shardings is not None and len(program.output_shardings) == 2
    columns = whole.reshard(client.sharding.tiled([1, 2, 2], replicate_on_last=True))
    assert [s.shape for s in columns.shards] == [(8, 1)] * 4
    np.testing.assert_array_equal(columns.shards[2].numpy(), array[:, 1:])
    np.testing.assert_array_equal(columns.numpy(), array)
    everywhere = whole.reshard(client.sharding.replicated())
    np.testing.assert_array_equal(everywhere.shards[1].numpy(), array)
    assert whole.reshard(ROWS) is whole
    """,
        env=FOUR,
    )


def test_a_partitioned_program_of_the_other_client(child: Child) -> None:
    child(
        """
    import numpy as np
    from xla_go import client
    TWICE = '''module @twice attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
      func.func public @main(%x: tensor<8xf32> {mhlo.sharding = "{devices=[4]0,1,2,3}"}) -> (tensor<8xf32> {mhlo.sharding = "{devices=[4]0,1,2,3}"}) {
        %y = stablehlo.add %x, %x : tensor<8xf32>
        return %y : tensor<8xf32> } }'''
    array = np.arange(8, dtype=np.float32)
    parts = [client.upload(part, device=d) for part, d in zip(np.split(array, 4), client.devices())]
    whole = client.wrap_shards(parts, (8,), client.sharding.tiled([4]))
    (result,) = client.compile(TWICE, devices=client.devices(), sharded=True).execute_replicated(whole)
    np.testing.assert_array_equal(result.numpy(), array * 2)
    """,
        env={**FOUR, "XLA_USE_IFRT": "1"},
    )


def test_shardings_are_opsharding_messages() -> None:
    assert client.sharding.replicated() == bytes([8, 0])
    assert client.sharding.tiled([2, 1], devices=[1, 0]) == bytes([8, 3, 26, 2, 2, 1, 34, 2, 1, 0])
    assert client.sharding.tiled([1, 2], replicate_on_last=True)[-2:] == bytes([48, 1])
    long = client.sharding.tiled([300])
    assert bytes([0xAC, 0x02]) in long and bytes([0x81, 0x01]) in long
    for parts, devices in (([0], None), ([2], [0, 0]), ([2], [0, 2])):
        with pytest.raises(ValueError, match=r"tiled\(\): expected"):
            client.sharding.tiled(parts, devices)


def test_data_on_one_device_is_its_only_shard() -> None:
    data = client.upload(1.0)
    assert data.shards == [data] and data.sharding is None
    assert data.copy_to_device("CPU:0").numpy() == 1.0
