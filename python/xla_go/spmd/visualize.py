"""Shardings as pictures: made of text, and drawn."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

import torch

from xla_go import runtime
from xla_go.spmd import _tensor
from xla_go.spmd.sharded_tensor import XLAShardedTensor, unwrap_sharded_tensor

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_sharding", "visualize_sharding", "visualize_tensor_sharding"]


def tiles_of(sharding: str) -> tuple[list[int], list[list[int]]]:
    """The numbers of tiles along the dimensions, and the devices that have each tile, row-major."""
    if sharding in ("", "{replicated}"):
        return [1], [list(range(runtime.global_runtime_device_count()))]
    if match := re.fullmatch(r"\{maximal device=(\d+)\}", sharding):
        return [1], [[int(match.group(1))]]
    match = re.fullmatch(r"\{devices=\[(\d+(?:,\d+)*)\](\d+(?:,\d+)*)( last_tile_dim_replicate)?\}", sharding)
    if match is None:
        raise ValueError(f"visualize_sharding(): expected a sharding as sharding_spec gives it, got {sharding!r}")
    grid, devices = ([int(number) for number in match.group(i).split(",")] for i in (1, 2))
    if min(grid) < 1 or math.prod(grid) != len(devices) or (match.group(3) and len(grid) < 2):
        raise ValueError(f"visualize_sharding(): expected one device for each tile, got {sharding!r}")
    copies = grid.pop() if match.group(3) else 1
    return grid, [devices[i : i + copies] for i in range(0, len(devices), copies)]


def visualize_sharding(sharding: str, min_width: int = 9, max_width: int = 80) -> str:
    """A table of the tiles with the devices that have each, as text: the first dimension down, the last across.

    sharding is the text of `XLAShardedTensor.sharding_spec`. Dimensions before the last two are tables of their own.
    max_width bounds a table's characters where there is room for the names of the devices.
    """
    grid, tiles = tiles_of(sharding)
    grid = [1] * (2 - len(grid)) + grid if len(grid) > 1 else [grid[0], 1]
    kind = runtime.device_type()
    rows, columns = grid[-2:]
    labels = [f"{kind} {devices[0]}" if len(devices) == 1 else f"{kind} {devices}".replace(" ", "").replace(kind, kind + " ") for devices in tiles]
    widest = max(map(len, labels))
    width = max(widest, min(max(min_width, widest + 2), max_width // columns - 1))
    line = "+" + ("-" * width + "+") * columns
    pictures = []
    for outer in range(math.prod(grid[:-2])):
        picture = [line]
        for row in range(rows):
            start = (outer * rows + row) * columns
            picture += ["|" + "".join(f"{label:^{width}}|" for label in labels[start : start + columns]), line]
        pictures.append("\n".join(picture))
    return "\n\n".join(pictures)


def visualize_tensor_sharding(t: torch.Tensor | XLAShardedTensor, min_width: int = 9, max_width: int = 80) -> str:
    """`visualize_sharding` of a tensor on device xla."""
    return visualize_sharding(_tensor.sharding(unwrap_sharded_tensor(t)).text, min_width, max_width)


def draw_sharding(sharding: str | torch.Tensor | XLAShardedTensor, ax: Axes | None = None) -> Axes:
    """Draws the tiles of a sharding, or of a tensor's, in colours of the devices that have them, with their numbers.

    The first dimension goes down, the last across; dimensions between them are rows of their own. Draws into `ax`, or a new
    figure, and gives the axes: `draw_sharding(t).figure.savefig("t.png")`. Raises ImportError without matplotlib.
    """
    try:
        from matplotlib import colormaps, pyplot
        from matplotlib.patches import Rectangle
    except ImportError as error:
        raise ImportError("draw_sharding(): expected matplotlib: pip install matplotlib") from error
    dims: tuple[int, ...] | None = None
    if not isinstance(sharding, str):
        dims = tuple(sharding.shape)
        sharding = _tensor.sharding(unwrap_sharded_tensor(sharding)).text
    grid, tiles = tiles_of(sharding)
    grid = [1] * (2 - len(grid)) + grid if len(grid) > 1 else [grid[0], 1]
    rows, columns = math.prod(grid[:-1]), grid[-1]
    if ax is None:
        _, ax = pyplot.subplots(figsize=(max(3.0, 1.2 * columns), max(2.0, 0.7 * rows)), layout="constrained")
    # Devices that share a tile have one colour, by the first of them.
    firsts = sorted({devices[0] for devices in tiles})
    palette: Any = colormaps["tab10" if len(firsts) <= 10 else "viridis"]
    for place, devices in enumerate(tiles):
        row, column = divmod(place, columns)
        number = firsts.index(devices[0])
        colour = palette(number) if len(firsts) <= 10 else palette(number / (len(firsts) - 1))
        ax.add_patch(Rectangle((column, row), 1, 1, facecolor=colour, alpha=0.45, edgecolor="black"))
        label = ", ".join(map(str, devices)) if len(devices) <= 8 else f"{devices[0]}, {devices[1]}, … {devices[-1]}"
        ax.text(column + 0.5, row + 0.5, label, ha="center", va="center", fontsize=9)
    ax.set(xlim=(0, columns), ylim=(rows, 0), xticks=[], yticks=[])
    kind = runtime.device_type()
    ax.set_title((f"{list(dims)} over {kind} devices" if dims is not None else f"{kind} devices") + f"\n{sharding or '{replicated}'}", fontsize=9)
    return ax
