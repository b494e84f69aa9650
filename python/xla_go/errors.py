"""Exceptions raised by operators and by the runtime, one class per canonical status code."""

from __future__ import annotations

__all__ = [
    "AbortedError",
    "AccuracyError",
    "AlreadyExistsError",
    "CancelledError",
    "DataLossError",
    "DeadlineExceededError",
    "FailedPreconditionError",
    "InternalError",
    "InvalidArgumentError",
    "MeshError",
    "NotFoundError",
    "OutOfRangeError",
    "PermissionDeniedError",
    "ResourceExhaustedError",
    "UnauthenticatedError",
    "UnavailableError",
    "UnimplementedError",
    "UnknownError",
    "XlaError",
    "class_of_code",
    "from_status",
]


class XlaError(RuntimeError):
    """The base of every error with a status code.

    ``code`` is the canonical code (the numbers of ``PJRT_Error_Code``), ``code_name`` its name.
    """

    code: int = 2
    code_name: str = "UNKNOWN"


class AccuracyError(AssertionError):
    """An operator gave another result than on the CPU, where XLA_GO_CHECK=cpu compares them."""


class MeshError(ValueError, AssertionError):
    """The devices, shape or names given make no mesh. Programs that were written for torch_xla catch it as an AssertionError."""


class CancelledError(XlaError):
    """The work was cancelled."""

    code = 1
    code_name = "CANCELLED"


class UnknownError(XlaError):
    """An error whose cause the runtime does not know."""

    code = 2
    code_name = "UNKNOWN"


class InvalidArgumentError(XlaError):
    """An argument has the wrong shape, dtype or value."""

    code = 3
    code_name = "INVALID_ARGUMENT"


class DeadlineExceededError(XlaError):
    """The work did not end in time."""

    code = 4
    code_name = "DEADLINE_EXCEEDED"


class NotFoundError(XlaError):
    """Something asked for by name does not exist."""

    code = 5
    code_name = "NOT_FOUND"


class AlreadyExistsError(XlaError):
    """Something to be made exists already."""

    code = 6
    code_name = "ALREADY_EXISTS"


class PermissionDeniedError(XlaError):
    """The caller may not do this."""

    code = 7
    code_name = "PERMISSION_DENIED"


class ResourceExhaustedError(XlaError):
    """Out of memory, on the device as a rule."""

    code = 8
    code_name = "RESOURCE_EXHAUSTED"


class FailedPreconditionError(XlaError):
    """The system is not in a state in which this can be done."""

    code = 9
    code_name = "FAILED_PRECONDITION"


class AbortedError(XlaError):
    """The work was aborted, by a conflict as a rule."""

    code = 10
    code_name = "ABORTED"


class OutOfRangeError(XlaError):
    """A value lies past the valid range."""

    code = 11
    code_name = "OUT_OF_RANGE"


class UnimplementedError(XlaError):
    """The plugin or the runtime cannot do this."""

    code = 12
    code_name = "UNIMPLEMENTED"


class InternalError(XlaError):
    """An invariant of the runtime or the plugin is broken."""

    code = 13
    code_name = "INTERNAL"


class UnavailableError(XlaError):
    """A service or device cannot be reached now."""

    code = 14
    code_name = "UNAVAILABLE"


class DataLossError(XlaError):
    """Data is lost or corrupt."""

    code = 15
    code_name = "DATA_LOSS"


class UnauthenticatedError(XlaError):
    """The caller is not known."""

    code = 16
    code_name = "UNAUTHENTICATED"


_CLASSES: dict[int, type[XlaError]] = {
    cls.code: cls
    for cls in (
        CancelledError,
        UnknownError,
        InvalidArgumentError,
        DeadlineExceededError,
        NotFoundError,
        AlreadyExistsError,
        PermissionDeniedError,
        ResourceExhaustedError,
        FailedPreconditionError,
        AbortedError,
        OutOfRangeError,
        UnimplementedError,
        InternalError,
        UnavailableError,
        DataLossError,
        UnauthenticatedError,
    )
}

_NAMES: dict[str, type[XlaError]] = {cls.code_name: cls for cls in _CLASSES.values()}


def class_of_code(code: int) -> type[XlaError]:
    """The class of a canonical status code; ``UnknownError`` for a number that is none."""
    return _CLASSES.get(code, UnknownError)


def from_status(code_name: str, message: str) -> XlaError:
    """The exception for a runtime error with the named code, such as ``"INVALID_ARGUMENT"``."""
    return _NAMES.get(code_name, UnknownError)(message)
