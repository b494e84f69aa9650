"""What `torch_xla.distributed.spmd.debugging` gives after `xla_go.compat.install()`: pictures of shardings as tables of `rich`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch

from xla_go import runtime
from xla_go.spmd import XLAShardedTensor, _tensor, unwrap_sharded_tensor
from xla_go.spmd.visualize import tiles_of

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["visualize_sharding", "visualize_tensor_sharding"]

try:
    # Programs reach these as attributes of `rich` once this module is imported.
    import rich.align
    import rich.box
    import rich.console
    import rich.padding
    import rich.style
    import rich.table
except ImportError:
    _RICH = False
else:
    _RICH = True


def visualize_sharding(sharding: str, use_color: bool = True, scale: float = 1.0, min_width: int = 9, max_width: int = 80) -> Table:
    """Prints a table of the tiles with the devices that have each, and gives it: the first dimension down, the second across.

    sharding is the text of `XLAShardedTensor.sharding_spec`. On a terminal with colours each device has one of its own, unless
    use_color is False; cells have at least min_width characters times scale, the table at most max_width. ValueError without
    the package `rich`.
    """
    if not _RICH:
        raise ValueError("visualize_sharding(): expected the package rich: pip install rich, or use xla_go.spmd.visualize_sharding, which gives text")
    from rich.color import Color

    grid, tiles = tiles_of(sharding)
    rows, columns = grid[0], grid[1] if len(grid) > 1 else 1
    behind = math.prod(grid[2:])
    console = rich.console.Console(width=max_width)
    coloured = use_color and console.color_system is not None
    table = rich.table.Table(
        show_header=False, show_lines=not coloured, padding=0, pad_edge=False, highlight=not coloured, box=None if coloured else rich.box.SQUARE
    )  # fmt: skip
    if scale > 1:
        for _ in range(columns):
            table.add_column(min_width=min(max_width, int(min_width * scale)))
    # One device that has a tile alone is told by its number; whole tensors lie on a list of devices.
    divided = rows * columns * behind > 1
    for row in range(rows):
        cells = []
        for column in range(columns):
            devices = tiles[(row * columns + column) * behind]
            name = devices[0] if divided and len(devices) == 1 else devices
            colour = Color.from_ansi(devices[0] % 6 + 1) if coloured else None
            cell = rich.align.Align(f"{runtime.device_type()} {name}", "center", vertical="middle")
            cells.append(rich.padding.Padding(cell, 1, style=rich.style.Style(bgcolor=colour)))
        table.add_row(*cells)
    console.print(table)
    return table


def visualize_tensor_sharding(t: torch.Tensor | XLAShardedTensor, **kwargs: Any) -> Table:
    """`visualize_sharding` of a tensor on device xla."""
    return visualize_sharding(_tensor.sharding(unwrap_sharded_tensor(t)).text, **kwargs)
