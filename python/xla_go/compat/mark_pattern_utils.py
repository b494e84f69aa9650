"""What `torch_xla.experimental.mark_pattern_utils` gives after `xla_go.compat.install()`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xla_go.composite import Composite


class StableHLOCompositeBuilder(Composite):
    """xla_go.composite.Composite under torch_xla's name."""

    def __init__(self, name: str, attr: Mapping[str, Any] | None = None) -> None:
        super().__init__(name, attr)
        self.attr = attr
