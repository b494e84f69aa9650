"""What `torch_xla.utils.utils` gives after `xla_go.compat.install()`: small helpers of scripts and tests."""

from __future__ import annotations

import os
import shutil
import socket
import sys
import tempfile
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

_T = TypeVar("_T")


class Cleaner:
    """Calls a function when it is dropped."""

    def __init__(self, func: Callable[[], Any]) -> None:
        self.func = func
        self._finalizer = weakref.finalize(self, func)


class LazyProperty:
    """A value that is made when it is asked for first."""

    def __init__(self, gen_fn: Callable[[], Any]) -> None:
        self._make: Callable[[], Any] | None = gen_fn
        self._value: Any = None

    @property
    def value(self) -> Any:
        if self._make is not None:
            self._value, self._make = self._make(), None
        return self._value


class TmpFolder:
    """A temporary directory, `name`, that is removed with the object."""

    def __init__(self) -> None:
        self.name = tempfile.mkdtemp()
        name = self.name
        self.cleaner = Cleaner(lambda: shutil.rmtree(name, ignore_errors=True))


class _Counted:
    """An iterator of known length whose `iter` begins anew."""

    _total: int
    _given = 0

    def _item(self) -> Any:
        raise NotImplementedError

    def __len__(self) -> int:
        return self._total

    def __next__(self) -> Any:
        if self._given >= self._total:
            raise StopIteration
        self._given += 1
        return self._item()

    def next(self) -> Any:
        return self.__next__()


class SampleGenerator(_Counted):
    """Gives the same `data` `sample_count` times, in place of a data loader."""

    def __init__(self, data: Any, sample_count: int) -> None:
        self._data, self._total = data, sample_count

    def __iter__(self) -> SampleGenerator:
        return SampleGenerator(self._data, self._total)

    def _item(self) -> Any:
        return self._data


class FnDataGenerator(_Counted):
    """Gives (data, func(data)) `count` times, of data that `gen_tensor(batch_size, *dims)` makes."""

    def __init__(
        self,
        func: Callable[[Any], Any],
        batch_size: int,
        gen_tensor: Callable[..., Any],
        dims: Sequence[int] | None = None,
        count: int = 1,
    ) -> None:
        self._func, self._batch_size, self._gen_tensor = func, batch_size, gen_tensor
        self._dims, self._total = list(dims) if dims else [1], count

    def __iter__(self) -> FnDataGenerator:
        return FnDataGenerator(self._func, self._batch_size, self._gen_tensor, self._dims, self._total)

    def _item(self) -> Any:
        data = self._gen_tensor(self._batch_size, *self._dims)
        return data, self._func(data)


class DataWrapper:
    """An object whose tensors a loader takes to the device: get_tensors gives them, from_tensors makes the object of the copies."""

    def get_tensors(self) -> list[Any]:
        raise NotImplementedError("get_tensors(): expected a subclass to define it")

    def from_tensors(self, tensors: list[Any]) -> Any:
        raise NotImplementedError("from_tensors(): expected a subclass to define it")


def as_list(t: Any) -> Any:
    """A list or tuple as it is, anything else in a list."""
    return t if isinstance(t, (list, tuple)) else [t]


def getenv_as(name: str, type: Callable[[Any], _T], defval: _T | None = None) -> _T | None:
    """An environment variable as a type; bool is of "true" or "1" (any number but 0). `defval` where it is not set."""
    value = os.environ.get(name)
    if value is None:
        return defval
    if type is bool:
        text = value.strip().lower()
        return (text == "true" or (text.lstrip("-").isdigit() and int(text) != 0))  # type: ignore[return-value]
    return type(value)


def check_env_flag(name: str, default: str = "") -> bool:
    """Whether an environment variable is "true" or a positive number."""
    value = os.environ.get(name, default)
    return value == "true" or (value.isdigit() and int(value) > 0)


def _children(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [part for pair in value.items() for part in pair]
    if isinstance(value, (list, tuple, set)):
        return list(value)
    return list(value.__dict__.values()) if hasattr(value, "__dict__") else []


def for_each_instance(value: Any, select_fn: Callable[[Any], bool], fn: Callable[[Any], Any]) -> None:
    """Calls `fn` on each object that `select_fn` picks, at any depth of lists, tuples, sets, dicts and attributes, once each."""
    seen: set[int] = set()
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if select_fn(one):
            fn(one)
        else:
            waiting.extend(reversed(_children(one)))


def for_each_instance_rewrite(value: Any, select_fn: Callable[[Any], bool], fn: Callable[[Any], Any]) -> Any:
    """The value with each object that `select_fn` picks replaced by `fn` of it. Containers are new; objects with attributes are
    changed in place. An object that is there twice is one in the result as well."""
    done: dict[int, tuple[Any, Any]] = {}  # the old object beside the new one: its id stays its own

    def rewrite(one: Any) -> Any:
        if id(one) in done:
            return done[id(one)][1]
        result = one
        if select_fn(one):
            result = fn(one)
        elif isinstance(one, dict):
            result = type(one)()
            done[id(one)] = one, result
            for key, item in one.items():
                new = rewrite(key)  # before its item, as for_each_instance has it
                result[new] = rewrite(item)
        elif isinstance(one, list):
            result = type(one)()
            done[id(one)] = one, result
            result.extend(rewrite(item) for item in one)
        elif isinstance(one, set):
            result = type(one)(rewrite(item) for item in one)
        elif isinstance(one, tuple):
            items = [rewrite(item) for item in one]
            result = type(one)(*items) if hasattr(one, "_fields") else type(one)(items)
        elif hasattr(one, "__dict__") and not isinstance(one, type):
            done[id(one)] = one, one
            for key, item in list(one.__dict__.items()):
                one.__dict__[key] = rewrite(item)
        done[id(one)] = one, result
        return result

    return rewrite(value)


def shape(inputs: Any) -> list[int]:
    """The sizes of nested lists or tuples. ValueError where they differ."""
    if not isinstance(inputs, (list, tuple)):
        return []
    inner = [shape(item) for item in inputs]
    if any(one != inner[0] for one in inner):
        raise ValueError("shape(): expected nested lists of equal sizes")
    return [len(inputs), *(inner[0] if inner else [])]


def flatten_nested_tuple(inputs: Any) -> tuple[Any, ...]:
    """The items at all depths of lists and tuples."""

    def flat(one: Any) -> Iterator[Any]:
        if isinstance(one, (list, tuple)):
            for item in one:
                yield from flat(item)
        else:
            yield one

    return tuple(flat(inputs))


def list_copy_append(ilist: Sequence[Any], item: Any) -> list[Any]:
    return [*ilist, item]


def null_print(*args: Any, **kwargs: Any) -> None:
    """Prints nothing."""


def eprint(*args: Any, **kwargs: Any) -> None:
    """Prints to standard error."""
    print(*args, file=sys.stderr, **kwargs)


def get_print_fn(debug: int | None = None) -> Callable[..., None]:
    """`eprint`, or `null_print` where neither `debug` nor DEBUG asks for output."""
    wanted = int(os.environ.get("DEBUG", "0")) if debug is None else debug
    return eprint if wanted else null_print


class TimedScope:
    """Prints how long the block took, in milliseconds, unless `set_error` was called in it."""

    def __init__(self, msg: str = "", printfn: Callable[..., None] | None = eprint) -> None:
        self._message, self._print = msg, printfn or get_print_fn()
        self._error: Any = None

    def __enter__(self) -> TimedScope:
        self._start = time.perf_counter()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._error is None:
            self._print(f"{self._message}{1e3 * (time.perf_counter() - self._start):.3f}ms")

    def set_error(self, error: Any) -> None:
        self._error = error


def timed(fn: Callable[[], _T], msg: str = "", printfn: Callable[..., None] | None = eprint) -> _T:
    """`fn()`, printing how long it took, in milliseconds."""
    with TimedScope(msg, printfn):
        return fn()


def get_free_tcp_ports(n: int = 1) -> list[int]:
    """Ports that were free when they were asked for."""
    sockets = [socket.socket() for _ in range(n)]
    try:
        for one in sockets:
            one.bind(("", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


def parallel_work(num_workers: int, fn: Callable[..., _T], *args: Any) -> list[_T]:
    """`map(fn, *args)` on threads. BLOCKING; raises what a call raised."""
    with ThreadPoolExecutor(num_workers) as pool:
        return list(pool.map(fn, *args))
