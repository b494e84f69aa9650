# Types of the functions of xla_go._native. The texts of their RuntimeErrors begin with a status code's name.

from typing import TypeVar

# Those that are written by hand, in extension.c.

_Data = TypeVar("_Data")

def close_data(handle: int, /) -> None: ...
def execute(computation: int, arguments: tuple[_Data, ...], result_type: type[_Data], device: str | None, kept: tuple[int, ...], /) -> list[_Data]: ...
def dlpack_lend(
    reference: int,
    address: int,
    code: int,
    bits: int,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    device_type: int,
    device_id: int,
    versioned: bool,
    flags: int,
    /,
) -> object: ...
def dlpack_take(capsule: object, /) -> tuple[int, int, int, int, int, int, tuple[int, ...], tuple[int, ...] | None, int, int, int]: ...
def dlpack_view(record: int, versioned: bool, address: int, element: str, shape: tuple[int, ...], device: str, /) -> int: ...
def dlpack_close(record: int, versioned: bool, /) -> None: ...
