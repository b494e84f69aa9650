"""torch_xla's names in the processes that multiprocessing starts: those import the program's file anew, and with it torch_xla."""

from __future__ import annotations

import functools
from multiprocessing import spawn
from typing import Any


class _Install:
    """Installs the names where it is unpickled."""

    def __reduce__(self) -> tuple[Any, tuple[()]]:
        from xla_go import compat

        return compat.install, ()


def follow() -> None:
    """Has processes of the methods "spawn" and "forkserver" install the names before they import anything else. Idempotent."""
    original = spawn.get_preparation_data
    if getattr(original, "_of_compat", False):
        return

    @functools.wraps(original)
    def get_preparation_data(name: str) -> dict[str, Any]:
        # It is unpickled first of all, and what it does not know is left alone.
        return {"xla_go.compat": _Install(), **original(name)}

    get_preparation_data._of_compat = True  # type: ignore[attr-defined]
    spawn.get_preparation_data = get_preparation_data
