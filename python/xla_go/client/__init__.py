"""The runtime's contract itself, without tensors: compile a program, upload arrays, run it, read the results.

    computation = xla_go.client.compile(jax.jit(f).lower(x).as_text())
    (result,) = computation(xla_go.client.upload(x))
    print(result.numpy())

Programs are StableHLO (text or bytecode) or serialized HloModuleProto. Device memory is freed with `close`, at the end
of a `with` block, or with the last reference. The first call that needs a device starts the runtime.

Errors of the runtime are classes of `xla_go.errors`, one per canonical status code. Nothing here waits for a device
unless its text says BLOCKING; a wait lets other threads run, and Ctrl-C breaks it.

The key-value store and the barriers between the processes of a job are in `xla_go.coordinator`.
"""

from xla_go.client import sharding
from xla_go.client.computation import Computation, compile, deserialize, environment_hash, set_compile_options
from xla_go.client.data import Data, from_dlpack, live, placeholder, upload, wrap_shards
from xla_go.client.device import Device, all_devices, default_device, devices, platform_version, wait_device_ops

__all__ = [
    "Computation",
    "Data",
    "Device",
    "all_devices",
    "compile",
    "default_device",
    "deserialize",
    "devices",
    "environment_hash",
    "from_dlpack",
    "live",
    "placeholder",
    "platform_version",
    "set_compile_options",
    "sharding",
    "upload",
    "wait_device_ops",
    "wrap_shards",
]
