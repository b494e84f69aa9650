"""Writes the layout of PJRT 0.114 beside this file, from the ctypes declarations in the wheel pypjrt 0.1.1.

No published wheel ships a C header newer than 0.81, but pypjrt's declarations were checked against
the layout of a 0.114 header when they were made. They hold the extensions too.
Usage: python gen_abi_ctypes.py, where pypjrt is installed.
"""

from __future__ import annotations

import ctypes
import re
from pathlib import Path

from pypjrt._abi import pjrt_0_114 as abi

HERE = Path(__file__).parent


def rows(name: str) -> list[str]:
    struct = getattr(abi, name)
    named = [f[0] for f in struct._fields_]
    for field in struct._fields_:
        if field[0].startswith("_anon"):
            named += [member[0] for member in field[1]._fields_]
    named = [n for n in named if not n.startswith("_anon")]
    size = getattr(abi, f"{name}_STRUCT_SIZE", 0)
    lines = [f"{name} - {size} {ctypes.sizeof(struct)}"]
    for n in named:
        field = getattr(struct, n)
        lines.append(f"{name} {n} {field.offset} {field.size}")
    return lines


def main() -> None:
    declared = "".join(p.read_text() for p in HERE.parent.glob("abi_fields*.h"))
    structs = sorted(set(re.findall(r"PJRT_STRUCT\((\w+),", declared)))
    extensions = (HERE.parent / "abi_extensions.h").read_text()
    tables = sorted(set(re.findall(r"F\((PJRT_\w+), \d+, \d+,", extensions)))
    out = [f"version {abi.PJRT_API_MAJOR}.{abi.PJRT_API_MINOR}"]
    for name in structs:
        if hasattr(abi, name):
            out += rows(name)
    for name in tables:
        if hasattr(abi, name):
            out += [r for r in rows(name) if r.split()[1] not in ("-", "base")]
    out += [r for r in rows("PJRT_Api") if r.split()[1] != "-"]
    (HERE / "abi_0_114.txt").write_text("\n".join(out) + "\n")


if __name__ == "__main__":
    main()
