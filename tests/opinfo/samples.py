"""The inputs of an entry: which samples are taken, and how they come to another device."""

from __future__ import annotations

import itertools
import random
import zlib
from collections.abc import Callable
from typing import Any

import numpy
import torch

# As many samples of an entry and dtype are run, taken evenly from those that the database makes.
SAMPLES = 8
# Of more than these no sample is taken: some entries make thousands.
CONSIDERED = 96

WIDER = {
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float32: torch.float64,
    torch.complex32: torch.complex128,
    torch.complex64: torch.complex128,
}


def seed(*key: object) -> None:
    """Seeds every generator that samples are made with, by the words of the key."""
    number = zlib.crc32(" ".join(map(str, key)).encode())
    random.seed(number)
    numpy.random.seed(number)
    torch.manual_seed(number)


def choose(op: Any, dtype: torch.dtype, requires_grad: bool) -> list[Any]:
    """Up to SAMPLES samples of an entry on the CPU; the same ones in every process."""
    seed(op.full_name, dtype)
    made = list(itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=requires_grad), CONSIDERED))
    count = min(SAMPLES, len(made))
    return [made[i * len(made) // count] for i in range(count)]


# Their other tensor arguments are on the CPU for any device.
HOST_ARGUMENTS = frozenset({"tensor_split"})


class Mover:
    """Copies arguments to a device. What shares a storage shares one there too; sizes, strides and offsets stay."""

    def __init__(self, device: str, widen: bool = False) -> None:
        self.device = device
        self.widen = widen
        # By address, with the storage itself, so that its address is not another's meanwhile.
        self.storages: dict[tuple[int, torch.dtype], tuple[torch.UntypedStorage, torch.Tensor]] = {}

    def __call__(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return self.tensor(value)
        if isinstance(value, dict):
            return {k: self(v) for k, v in value.items()}
        if isinstance(value, torch.Size):
            return value
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*(self(v) for v in value))
        if isinstance(value, list | tuple):
            return type(value)(self(v) for v in value)
        if isinstance(value, torch.device) or (isinstance(value, str) and value == "cpu"):
            return torch.device(self.device)
        if isinstance(value, torch.dtype) and self.widen:
            return WIDER.get(value, value)
        return value

    def tensor(self, t: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            moved = self._copy(t.detach())
        return moved.requires_grad_() if t.requires_grad else moved

    def _copy(self, t: torch.Tensor) -> torch.Tensor:
        dtype = WIDER.get(t.dtype, t.dtype) if self.widen else t.dtype
        if t.layout != torch.strided:
            return t.to(device=self.device, dtype=dtype, copy=True)
        if t.is_conj():
            return self._copy(t.conj()).conj()
        if t.is_neg():
            return torch._neg_view(self._copy(torch._neg_view(t)))
        storage = t.untyped_storage()
        address = (storage.data_ptr(), t.dtype)
        if storage.nbytes() == 0 or address not in self.storages:
            flat = torch.empty(0, dtype=t.dtype).set_(storage, 0, (storage.nbytes() // t.element_size(),), (1,))
            self.storages[address] = storage, flat.to(dtype).clone().to(self.device)
        whole = self.storages[address][1]
        return whole.as_strided(t.size(), t.stride(), t.storage_offset()).detach()


def tensors(value: Any) -> list[torch.Tensor]:
    """The tensors in a nested value, in order."""
    found: list[torch.Tensor] = []
    walk(value, lambda v: found.append(v) if isinstance(v, torch.Tensor) else None)
    return found


def walk(value: Any, visit: Callable[[Any], Any]) -> None:
    """Calls visit with every leaf of nested lists, tuples and dicts."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple) and not isinstance(value, torch.Size):
        for v in value:
            walk(v, visit)
    else:
        visit(value)
