"""Planners of torch.distributed.checkpoint for tensors on device xla."""

from __future__ import annotations

import copy
import dataclasses
import io
import itertools
import math
from typing import Any

import torch
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner, DefaultSavePlanner
from torch.distributed.checkpoint.metadata import ChunkStorageMetadata, Metadata, MetadataIndex, TensorStorageMetadata
from torch.distributed.checkpoint.planner import (
    LoadItemType,
    LoadPlan,
    ReadItem,
    SavePlan,
    TensorWriteData,
    WriteItem,
    WriteItemType,
)
from torch.distributed.checkpoint.planner_helpers import create_read_items_for_chunk_list

import xla_go
from xla_go import runtime
from xla_go.spmd import _shards
from xla_go.spmd.sharded_tensor import unwrap_sharded_tensor

__all__ = ["SPMDLoadPlanner", "SPMDSavePlanner"]

_Offset = tuple[int, ...]


def _on_xla(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.device.type == "xla"


def _computed(state_dict: dict[str, Any]) -> dict[str, torch.Tensor]:
    """The tensors on device xla, once it is known how their values lie."""
    tensors = {fqn: unwrap_sharded_tensor(value).detach() for fqn, value in state_dict.items() if _on_xla(value)}
    if tensors:
        xla_go.sync(cause="checkpoint")
    return tensors


class _Parts:
    """The parts of a tensor that go into a checkpoint one by one, by where they begin."""

    def __init__(self, tensor: torch.Tensor) -> None:
        tensor = tensor.resolve_conj().resolve_neg()
        self.sizes: dict[_Offset, tuple[int, ...]] = {(0,) * tensor.dim(): tuple(tensor.shape)}
        self.divided = False
        self._host: dict[_Offset, torch.Tensor] = {}
        self._indices: dict[_Offset, int] = {}
        self._tensor: torch.Tensor | None = tensor
        if not runtime.is_spmd() or tensor.numel() == 0:
            return
        layout = _shards.layout(tensor)
        if layout.divided and not layout.whole:
            # A view of a divided storage: its shards are those of a copy on the devices.
            tensor = self._tensor = tensor.clone(memory_format=torch.contiguous_format)
            xla_go.sync(cause="checkpoint")
            layout = _shards.layout(tensor)
        self.divided = layout.divided
        if self.divided:
            self._indices = {layout.tiles[i].offset: i for i in _shards.distinct(layout.tiles)}
            self.sizes = {layout.tiles[i].offset: layout.tiles[i].size for i in self._indices.values()}

    def read(self, offset: _Offset) -> torch.Tensor:
        """The part on the CPU, dense. BLOCKING."""
        if offset in self._host:
            return self._host[offset]
        assert self._tensor is not None
        if not self.divided:
            return self._tensor.cpu()
        with _shards.Shards(self._tensor) as shards:
            data = shards.read(self._indices[offset])
        return data[tuple(slice(0, size) for size in self.sizes[offset])].contiguous()

    def stage(self) -> None:
        """Copies the parts to the host, each into memory of its own. BLOCKING."""
        self._host = {offset: self.read(offset) for offset in self.sizes}
        self._tensor = None

    def items(self, whole: WriteItem) -> list[WriteItem]:
        """What to write instead of the whole tensor."""
        assert whole.tensor_data is not None
        return [
            dataclasses.replace(
                whole,
                index=MetadataIndex(whole.index.fqn, torch.Size(offset), number),
                type=WriteItemType.SHARD,
                tensor_data=TensorWriteData(
                    chunk=ChunkStorageMetadata(offsets=torch.Size(offset), sizes=torch.Size(size)),
                    properties=whole.tensor_data.properties,
                    size=whole.tensor_data.size,
                ),
            )
            for number, (offset, size) in enumerate(self.sizes.items())
        ]


class SPMDSavePlanner(DefaultSavePlanner):
    """A save planner for states with tensors on device xla; anything else is saved as torch's own planner does.

    Of a divided tensor each different shard is one entry of the checkpoint, without padding, and is on the host only while
    it is written. A view of a divided tensor is copied on the devices first. The save ends the step.

    flatten_state_dict=False takes a state without nested dictionaries as it is.
    """

    state_dict: dict[str, Any]

    def __init__(self, flatten_state_dict: bool = True, **kwargs: Any) -> None:
        if kwargs.get("enable_plan_caching"):
            raise ValueError("SPMDSavePlanner(): expected no enable_plan_caching: how tensors lie can change between two saves")
        super().__init__(flatten_state_dict=flatten_state_dict, **kwargs)
        self._parts: dict[str, _Parts] = {}
        self._staged = False

    def set_up_planner(self, state_dict: dict[str, Any], storage_meta: Any = None, is_coordinator: bool = False) -> None:
        """Finds out how the tensors lie. BLOCKING until their values are known to be computable; transfers nothing."""
        if self._staged:
            self.is_coordinator = is_coordinator
            return
        super().set_up_planner(state_dict, storage_meta, is_coordinator)
        self._parts = {fqn: _Parts(tensor) for fqn, tensor in _computed(self.state_dict).items()}

    def stage(self, state_dict: dict[str, Any]) -> None:
        """Copies a state to the host, shard by shard: the planner saves that copy, whatever state it is given. BLOCKING."""
        self.set_up_planner(state_dict)
        staged: dict[str, Any] = {}
        for fqn, value in self.state_dict.items():
            if fqn in self._parts:
                self._parts[fqn].stage()
                staged[fqn] = torch.empty(value.shape, dtype=value.dtype, device="meta")
            else:
                staged[fqn] = value.detach().clone() if isinstance(value, torch.Tensor) else copy.deepcopy(value)
        self.state_dict = staged
        self._staged = True

    def create_local_plan(self) -> SavePlan:
        """torch's plan, with the shards of divided tensors in their place."""
        plan = super().create_local_plan()
        items: list[WriteItem] = []
        for item in plan.items:
            parts = self._parts.get(item.index.fqn)
            items += parts.items(item) if parts is not None and parts.divided else [item]
        self.plan = dataclasses.replace(plan, items=items)
        return self.plan

    def resolve_data(self, write_item: WriteItem) -> torch.Tensor | io.BytesIO:
        """What an item writes, on the CPU. BLOCKING."""
        parts = self._parts.get(write_item.index.fqn)
        if parts is None:
            return super().resolve_data(write_item)
        return parts.read(tuple(write_item.index.offset or ()))


def _check_parts(fqn: str, entry: TensorStorageMetadata) -> None:
    """ValueError for parts of a saved tensor that do not lie within it: the file may be damaged."""
    for chunk in entry.chunks:
        offsets, sizes = tuple(chunk.offsets), tuple(chunk.sizes)
        if not len(offsets) == len(sizes) == len(entry.size) or any(not 0 <= o <= o + s <= whole for o, s, whole in zip(offsets, sizes, entry.size, strict=True)):
            raise ValueError(f"SPMDLoadPlanner: expected parts of {fqn} within its sizes {tuple(entry.size)}, got one of sizes {sizes} at {offsets}")


def _check_apart(fqn: str, boxes: list[tuple[_Offset, _Offset]]) -> None:
    """ValueError for two boxes, of offsets and sizes, that overlap."""
    boxes = sorted(box for box in boxes if box[0] and 0 not in box[1])
    for i, (offset, size) in enumerate(boxes):
        for other, lengths in itertools.islice(boxes, i + 1, None):
            if other[0] >= offset[0] + size[0]:
                break
            if all(a < b + length and b < a + count for a, count, b, length in zip(offset, size, other, lengths, strict=True)):
                raise ValueError(f"SPMDLoadPlanner: expected parts of {fqn} that do not overlap, got two at {offset} and {other}")


class _Incoming:
    """A tensor on device xla that is being read: it keeps its old value until all of its parts are there."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self._tensor = tensor
        self._upload: _shards.Upload | None = None
        whole = tuple(tensor.shape)
        tiles = [_shards.Tile("", 0, (0,) * tensor.dim(), whole, whole)]
        if runtime.is_spmd() and tensor.numel() > 0:
            layout = _shards.layout(tensor)
            if layout.whole and layout.divided:
                self._upload, tiles = _shards.Upload(tensor), layout.tiles
        self._devices: dict[_Offset, list[str]] = {}
        self._sizes: dict[_Offset, tuple[int, ...]] = {}
        self._memory = tiles[0].memory
        self._padding: list[str] = []
        for tile in tiles:
            if self._upload is not None and 0 in tile.size:
                self._padding.append(tile.device)
                continue
            self._devices.setdefault(tile.offset, []).append(tile.device)
            self._sizes[tile.offset] = tile.size
        self._buffers: dict[_Offset, torch.Tensor] = {}
        self._missing = {offset: math.prod(size) for offset, size in self._sizes.items()}

    @property
    def chunks(self) -> list[ChunkStorageMetadata]:
        return [ChunkStorageMetadata(offsets=torch.Size(offset), sizes=torch.Size(size)) for offset, size in self._sizes.items()]

    def check(self, fqn: str, items: list[ReadItem]) -> None:
        """ValueError where the checkpoint has not all of the tensor, or a part of it twice."""
        _check_apart(fqn, [(tuple(a + b for a, b in zip(item.dest_offsets, item.dest_index.offset or (), strict=False)), tuple(item.lengths)) for item in items])
        found = sum(math.prod(item.lengths) for item in items)
        wanted = sum(self._missing.values())
        if found != wanted:
            raise ValueError(f"SPMDLoadPlanner: expected a checkpoint with all {wanted} elements of {fqn}, got {found} of them")

    def target(self, item: ReadItem) -> torch.Tensor:
        """Memory for what an item reads."""
        offset = tuple(item.dest_index.offset or ())
        buffer = self._buffers.get(offset)
        if buffer is None:
            buffer = self._buffers[offset] = torch.zeros(self._memory, dtype=self._tensor.dtype, device="cpu")
        for dimension, (start, length) in enumerate(zip(item.dest_offsets, item.lengths, strict=True)):
            buffer = buffer.narrow(dimension, start, length)
        return buffer

    def commit(self, item: ReadItem) -> None:
        """What `target` gave has been filled."""
        offset = tuple(item.dest_index.offset or ())
        self._missing[offset] -= math.prod(item.lengths)
        if self._missing[offset] > 0:
            return
        data = self._buffers.pop(offset)
        del self._missing[offset]
        if self._upload is None:
            with torch.no_grad():
                self._tensor.copy_(data)
            return
        for device in self._devices[offset]:
            self._upload.put(device, data)
        if not self._missing:
            for device in self._padding:
                self._upload.put(device, torch.zeros(self._memory, dtype=self._tensor.dtype, device="cpu"))
            self._upload.finish()

    def close(self) -> None:
        if self._upload is not None:
            self._upload.close()

    def __del__(self) -> None:
        self.close()  # of a load that failed


class SPMDLoadPlanner(DefaultLoadPlanner):
    """A load planner for states with tensors on device xla; anything else is loaded as torch's own planner does.

    Each device gets its shard of a tensor that is divided already, by `mark_sharding` for example; how it was divided when it
    was saved does not matter. A tensor takes its new value when all of it has been read, and lies then as before. A view
    of a divided tensor is read as a whole.

    A missing key (unless allow_partial_load), another size, or a checkpoint without all of a tensor raise before anything
    is changed. A fault while files are read leaves each tensor either as it was or as it was saved.
    """

    def __init__(self, flatten_state_dict: bool = True, **kwargs: Any) -> None:
        super().__init__(flatten_state_dict=flatten_state_dict, **kwargs)
        self._incoming: dict[str, _Incoming] = {}

    def set_up_planner(self, state_dict: dict[str, Any], metadata: Metadata | None = None, is_coordinator: bool = False) -> None:
        """Takes the state whose tensors are to be filled."""
        self._close()
        super().set_up_planner(state_dict, metadata, is_coordinator)

    def create_local_plan(self) -> LoadPlan:
        """torch's plan, with the shards of tensors on device xla in their place. BLOCKING while a program is compiled."""
        assert self.metadata is not None
        saved = self.metadata.state_dict_metadata
        for fqn in self.state_dict:
            if isinstance(entry := saved.get(fqn), TensorStorageMetadata):
                _check_parts(fqn, entry)
        plan = super().create_local_plan()
        for fqn, tensor in _computed(self.state_dict).items():
            if tensor.numel() > 0 and isinstance(saved.get(fqn), TensorStorageMetadata):
                self._incoming[fqn] = _Incoming(tensor)
        items = [item for item in plan.items if item.dest_index.fqn not in self._incoming]
        for fqn, incoming in self._incoming.items():
            whole = saved[fqn]
            assert isinstance(whole, TensorStorageMetadata)
            reads = create_read_items_for_chunk_list(fqn, whole, incoming.chunks)
            incoming.check(fqn, reads)
            items += reads
        return dataclasses.replace(plan, items=items)

    def resolve_tensor(self, read_item: ReadItem) -> torch.Tensor:
        """Memory on the CPU for what an item reads."""
        incoming = self._incoming.get(read_item.dest_index.fqn)
        return super().resolve_tensor(read_item) if incoming is None else incoming.target(read_item)

    def commit_tensor(self, read_item: ReadItem, tensor: torch.Tensor) -> None:
        """Sends a shard to its devices when it has been read. BLOCKING while it is copied."""
        incoming = self._incoming.get(read_item.dest_index.fqn)
        if incoming is None:
            super().commit_tensor(read_item, tensor)
            return
        assert read_item.type is LoadItemType.TENSOR
        incoming.commit(read_item)

    def _close(self) -> None:
        incoming, self._incoming = self._incoming, {}
        for each in incoming.values():
            each.close()
