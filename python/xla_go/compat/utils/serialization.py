"""What `torch_xla.utils.serialization` gives after `xla_go.compat.install()`: saving tensor by tensor, to spare host memory."""

from __future__ import annotations

import os
import shutil
from typing import Any

import torch

from xla_go.compat import xla_model
from xla_go.compat.utils.utils import for_each_instance_rewrite


class TensorReference:
    """Stands in the saved data for the tensor number `tid` of the directory beside it."""

    def __init__(self, tid: int) -> None:
        self.tid = tid


def _directory(path: Any) -> str:
    return os.fspath(path) + ".tensors"


def _file(path: Any, number: int) -> str:
    return os.path.join(_directory(path), f"tensor_{number}.pt")


def save(data: Any, path: Any, master_only: bool = True, global_master: bool = False) -> None:
    """Saves `data` in `path`, and each tensor on device xla in a file of its own in the directory `path` + ".tensors".

    One tensor at a time is on the host. With master_only the first replica writes, of this host or of all. BLOCKING until
    all replicas have come.
    """
    if not master_only or xla_model.is_master_ordinal(local=not global_master):
        shutil.rmtree(_directory(path), ignore_errors=True)
        os.mkdir(_directory(path))
        count = 0

        def write(tensor: torch.Tensor) -> TensorReference:
            nonlocal count
            torch.save(tensor.cpu(), _file(path, count))
            count += 1
            return TensorReference(count - 1)

        def on_device(value: Any) -> bool:
            return isinstance(value, torch.Tensor) and value.device.type == "xla"

        torch.save(for_each_instance_rewrite(data, on_device, write), path)
    xla_model.rendezvous("xla_go.compat.utils.serialization.save")


def load(path: Any) -> Any:
    """What `save` wrote, with its tensors on the CPU."""
    with torch.serialization.safe_globals([TensorReference]):
        data = torch.load(path, weights_only=True)
    return for_each_instance_rewrite(
        data,
        lambda value: isinstance(value, TensorReference),
        lambda reference: torch.load(_file(path, reference.tid), weights_only=True),
    )
