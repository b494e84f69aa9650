"""The parts of a tensor that devices have: where they lie, and their transfer one by one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from types import TracebackType
from typing import Any, NamedTuple

import torch

from xla_go import _adapter, _runtime
from xla_go.spmd import _tensor


class Tile(NamedTuple):
    """What one device has of a tensor."""

    device: str  # the runtime's name, for example "CPU:3"
    replica: int  # numbers the devices that have the same tile, from 0
    offset: tuple[int, ...]  # in the tensor
    size: tuple[int, ...]  # without padding; 0 where a dimension has ended before the tile
    memory: tuple[int, ...]  # with padding


class Layout(NamedTuple):
    """How a tensor lies over the devices."""

    whole: bool  # it is all of its storage's value, in its dimensions
    divided: bool  # no device has all of its storage
    tiles: list[Tile]  # one for each device of this process, in their order


def _tile(described: dict[str, Any]) -> Tile:
    return Tile(
        described["device"], described["replica"], tuple(described["offset"]), tuple(described["size"]), tuple(described["memory"])
    )  # fmt: skip


def layout(tensor: torch.Tensor) -> Layout:
    """How a tensor with elements lies, as far as that is known before its value is computed. Transfers nothing."""
    described = json.loads(_runtime.call("TensorTiles", _tensor.view(tensor)))
    return Layout(described["whole"], described["divided"], [_tile(tile) for tile in described["tiles"]])


class Shards:
    """A tensor's present value on its devices: a context, within which `read` gives the shards. It keeps device memory.

    BLOCKING until the value is computed; compiles nothing else. ValueError and InvalidArgumentError as for `layout`, the
    latter also for a tensor that is not all of its storage.
    """

    def __init__(self, tensor: torch.Tensor) -> None:
        self._dtype = tensor.dtype
        token = _runtime.call("TensorShardsBegin", _tensor.view(tensor))
        _runtime.wait_for_read(_adapter.loaded(), token)
        described = json.loads(_runtime.call("TensorShards", token))
        self._handles: list[int] = [shard["handle"] for shard in described]
        self.tiles = [_tile(shard) for shard in described]

    def read(self, index: int) -> torch.Tensor:
        """All of the memory of shard `index` in a new tensor on the CPU. BLOCKING."""
        data = torch.empty(self.tiles[index].memory, dtype=self._dtype, device="cpu")
        if data.numel():
            _runtime.call("Read", self._handles[index], data.data_ptr(), data.numel() * data.element_size())
        return data

    def close(self) -> None:
        """Gives the device memory back. Idempotent."""
        handles, self._handles = self._handles, []
        for handle in handles:
            _runtime.native().close_data(handle)

    def __enter__(self) -> Shards:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class Upload:
    """A new value for a tensor, made of shards: `put` one for each device, then `finish`; `close` in any case.

    The tensor has to be all of its storage. It keeps its old value until `finish`.
    """

    def __init__(self, tensor: torch.Tensor) -> None:
        self._tensor = tensor
        self._element = _tensor.element_of(tensor)
        self._devices = _runtime.lines(_runtime.call("LocalDevices"))
        self._handles: dict[str, int] = {}

    def put(self, device: str, data: torch.Tensor) -> None:
        """Copies a shard, padding included, from the CPU to a device. BLOCKING."""
        dense = data.contiguous()
        dimensions = ",".join(map(str, dense.shape))
        handle = _runtime.call("Upload", dense.data_ptr(), self._element, dimensions, "", device)
        self._drop(self._handles.get(device))
        self._handles[device] = handle

    def finish(self) -> None:
        """Makes the shards the tensor's value. InvalidArgumentError where one is missing or does not fit."""
        request = {
            "element": self._element, "dimensions": list(self._tensor.shape),
            "sharding": _tensor.sharding(self._tensor).op_sharding,
            "shards": [self._handles[device] for device in self._devices if device in self._handles],
        }  # fmt: skip
        whole = _runtime.call("WrapShards", json.dumps(request))
        try:
            _runtime.call("AdoptData", _tensor.storage_of(self._tensor), whole)
        except BaseException:
            self._drop(whole)
            raise
        finally:
            self.close()

    def close(self) -> None:
        """Gives up what was put. Idempotent."""
        handles, self._handles = self._handles, {}
        for handle in handles.values():
            self._drop(handle)

    def _drop(self, handle: int | None) -> None:
        if handle is not None:
            _runtime.native().close_data(handle)


def distinct(tiles: Sequence[Tile]) -> list[int]:
    """The indices of one shard for each different part of the tensor that is not padding alone."""
    return [i for i, tile in enumerate(tiles) if tile.replica == 0 and 0 not in tile.size]
