"""The programs that are kept on disk for other processes: `python -m xla_go cache list|verify|clear`."""

from __future__ import annotations

import json
import time
from typing import Any

from xla_go import _runtime

ACTIONS = {
    "list": "show the programs, the last used one first",
    "verify": "read all of them, remove those that are damaged; status 1 where there were any",
    "clear": "remove all of them",
}


def directory() -> str:
    """The directory of this environment's programs, "" where none are kept. Does not start the runtime."""
    return _runtime.call("CacheDirectory")


def entries(path: str) -> list[dict[str, Any]]:
    """What the directory holds: key, description, bytes, last_used, fault ("" where the entry is whole). Reads all of it."""
    return json.loads(_runtime.call("CacheEntries", path))


def main(action: str, path: str) -> int:
    """Runs the command and gives its exit status. An empty path is that of the environment."""
    path = path or directory()
    if not path:
        print("no programs are kept: XLA_GO_PERSISTENT_CACHE=0, or there is no home directory and no XLA_PERSISTENT_CACHE_PATH")
        return 0
    if action == "clear":
        print(f"{path}: removed {_runtime.call('CacheClear', path, False)} programs")
        return 0
    found = entries(path)
    damaged = sum(1 for entry in found if entry["fault"])
    if action == "verify":
        for entry in found:
            if entry["fault"]:
                print(f"{entry['key']}: {entry['fault']}")
        removed = _runtime.call("CacheClear", path, True) if damaged else 0
        print(f"{path}: {len(found) - damaged} whole programs, {damaged} damaged ones, {removed} of them removed")
        return 1 if damaged else 0
    for entry in found:
        print(f"{entry['key'][:16]}  {_size(entry['bytes']):>9}  {_age(entry['last_used']):>8} ago  {entry['fault'] or entry['description']}")
    print(f"{path}: {len(found)} programs, {_size(sum(entry['bytes'] for entry in found))}")
    return 0


def _size(count: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"


def _age(moment: str) -> str:
    """The time since a moment as Go writes it, 2026-11-29T19:00:00.123456789Z, in its largest unit."""
    seconds = time.time() - _parse(moment)
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"


def _parse(moment: str) -> float:
    from datetime import datetime

    # Python 3.10 reads neither nanoseconds nor a "Z".
    whole, _, rest = moment.partition(".")
    zone = rest.lstrip("0123456789") if rest else ""
    if not rest:
        whole, zone = moment[:19], moment[19:]
    return datetime.fromisoformat(whole + ("+00:00" if zone == "Z" else zone)).timestamp()
