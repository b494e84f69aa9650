"""A batch of a data loader, moved to a device: tensors at any depth, everything else as it is."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping, MutableMapping
from typing import Any

import torch
from torch.utils import _pytree

from xla_go import _runtime
from xla_go.spmd import ShardingSpec, _tensor

__all__ = ["InputSharding", "to_device"]

# How the tensors of a batch are divided over the devices: all of them alike, or by the batch's keys.
InputSharding = ShardingSpec | Mapping[Any, ShardingSpec | None] | None


def to_device(batch: Any, device: torch.device, input_sharding: InputSharding = None) -> Any:
    """The batch with its tensors on the device, in containers of the same types; the batch itself is left as it is.

    Tensors are found in dicts, lists, tuples, named tuples, dataclasses, other mappings, and whatever is registered with
    torch's pytrees. Another object that has a method `to` is moved by it, others stay where they are. A tensor that
    comes twice is moved once. Without gradients.

    A ShardingSpec divides the tensors of its rank. One for each key of the batch, which has to be a mapping then, divides
    all tensors under that key; None leaves them whole. Divided tensors are waited for (BLOCKING). ValueError for a batch
    without keys, KeyError for a key without a sharding.
    """
    with torch.no_grad():
        mover = _Mover(device)
        if isinstance(input_sharding, Mapping):
            moved = _by_key(mover, batch, input_sharding)
        else:
            moved = mover.move(batch, input_sharding)
        mover.wait()
        return moved


def _by_key(mover: _Mover, batch: Any, shardings: Mapping[Any, ShardingSpec | None]) -> Any:
    if not isinstance(batch, MutableMapping):
        raise ValueError(f"input_sharding: expected a dict as batch where shardings are given by key, got {type(batch).__name__}")
    missing = [key for key in batch if key not in shardings]
    if missing:
        raise KeyError(f"input_sharding: expected a sharding for each key of the batch, got none for {missing}: None leaves a tensor whole")
    moved = copy.copy(batch)
    for key, value in batch.items():
        moved[key] = mover.move(value, shardings[key])
    return moved


def _moves_itself(value: Any) -> bool:
    """True for a tuple with a method `to`, such as PackedSequence, of which a part has to stay on the host."""
    return isinstance(value, tuple) and callable(getattr(value, "to", None))


class _Mover:
    """Moves the parts of one batch."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._moved: dict[tuple[int, int], tuple[torch.Tensor, torch.Tensor]] = {}  # with the source, so that its id stays its own
        self._divided: list[torch.Tensor] = []

    def move(self, value: Any, sharding: ShardingSpec | None) -> Any:
        leaves, structure = _pytree.tree_flatten(value, is_leaf=_moves_itself)
        return _pytree.tree_unflatten([self._leaf(leaf, sharding) for leaf in leaves], structure)

    def wait(self) -> None:
        """Until the shards are there; raises what their transfer ended with. BLOCKING in short slices."""
        for tensor in self._divided:
            _runtime.wait("ValueWaitBegin", _tensor.view(tensor))

    def _leaf(self, value: Any, sharding: ShardingSpec | None) -> Any:
        if isinstance(value, torch.Tensor):
            return self._tensor(value, sharding)
        if isinstance(value, MutableMapping):
            moved = copy.copy(value)
            for key, item in value.items():
                moved[key] = self.move(item, sharding)
            return moved
        if isinstance(value, type):
            return value
        if dataclasses.is_dataclass(value):
            changed = copy.copy(value)
            for field in dataclasses.fields(value):
                if hasattr(value, field.name):
                    object.__setattr__(changed, field.name, self.move(getattr(value, field.name), sharding))
            return changed
        if callable(getattr(value, "to", None)):
            return value.to(self._device)
        return value

    def _tensor(self, tensor: torch.Tensor, sharding: ShardingSpec | None) -> torch.Tensor:
        known = self._moved.get((id(tensor), id(sharding)))
        if known is not None:
            return known[1]
        moved = tensor.to(self._device)
        if sharding is not None and sharding.can_apply(moved):
            sharding.apply(moved)
            if moved.numel() > 0:
                self._divided.append(moved)
        self._moved[id(tensor), id(sharding)] = (tensor, moved)
        return moved
