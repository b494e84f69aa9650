"""Runs workloads for one implementation: reads [device, workload] per line, answers with the figure, all as JSON.

Usage: worker.py xla_go|torch_xla [--once], worker.py jax PATH-OF-THE-GOLDEN-STEPS. A worker stays alive over all rounds, so
that rounds of different implementations can be interleaved without starting processes in between. Beside its own device
each has torch's CPU, eager ("cpu") and through torch.compile ("compile"). With --once it prints what a process can tell
once: the seconds of the first two steps of a GPT, and, after 20 more, the most memory that was resident, in MiB.
"""

from __future__ import annotations

import json
import resource
import sys

import torch
from workloads import WORKLOADS, Device, first_step, training_step


def nothing() -> None:
    pass


def devices(implementation: str) -> dict[str, Device]:
    """The implementation's device, and torch's CPU in the same process."""
    found = {"cpu": Device("cpu", nothing, nothing), "compile": Device("cpu", nothing, nothing, compiled=True)}
    if implementation == "xla_go":
        import xla_go

        found["xla_go"] = Device("xla", xla_go.sync, lambda: xla_go.sync(wait=True))
        found["xla_go jit"] = Device("xla", xla_go.sync, lambda: xla_go.sync(wait=True), jit=xla_go.jit)
    elif implementation == "torch_xla":
        import torch_xla
        import torch_xla.core.xla_model as xm

        found["torch_xla"] = Device("xla", torch_xla.sync, xm.wait_device_ops)
    return found


def once(device: Device) -> dict[str, float]:
    cold, second = first_step(device)
    step = training_step("GPT", device)
    for _ in range(20):
        step()
    device.wait()
    return {"first step": cold, "second step": second, "resident": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def main() -> None:
    known = devices(sys.argv[1])
    if "--once" in sys.argv:
        print(json.dumps(once(known[sys.argv[1]])))
        return
    about = {"torch": torch.__version__, "devices": sorted(known)}
    if sys.argv[1] == "xla_go":
        import xla_go
        from xla_go import _runtime

        xla_go.runtime.device_type()  # starts the runtime
        plugin = _runtime.plugin()
        about["plugin"] = "" if plugin is None else str(plugin.path)
    print(json.dumps(about), flush=True)
    for line in sys.stdin:
        device, workload = json.loads(line)
        print(json.dumps(WORKLOADS[workload](known[device])), flush=True)


if __name__ == "__main__":
    main()
