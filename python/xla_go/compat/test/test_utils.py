"""What `torch_xla.test.test_utils` gives after `xla_go.compat.install()`."""

from __future__ import annotations

import functools
import multiprocessing
from collections.abc import Callable
from datetime import datetime
from typing import Any, NoReturn

from xla_go import runtime


def mp_test(func: Callable[..., Any]) -> Callable[..., Any]:
    """A test that runs in a forked process of its own. That can use the device where this process has not."""

    @functools.wraps(func)
    def wrapper(*arguments: Any, **keywords: Any) -> Any:
        process = multiprocessing.get_context("fork").Process(target=func, args=arguments, kwargs=keywords)
        process.start()
        process.join()
        if process.exitcode:
            raise AssertionError(f"{func.__qualname__}: expected its process to end with status 0, got {process.exitcode}")
        return process.exitcode

    return wrapper


def now(format: str = "%H:%M:%S") -> str:
    """The time, written."""
    return datetime.now().strftime(format)


def print_training_update(device: Any, step: int, loss: float, rate: float, global_rate: float, epoch: int | None = None, summary_writer: Any = None) -> None:
    """Prints a line on how training goes, and has a TensorBoard writer keep the rates where there is one."""
    fields = [f"Device={device}/{runtime.global_ordinal()}", f"Step={step}", f"Loss={loss:.5f}", f"Rate={rate:.2f}", f"GlobalRate={global_rate:.2f}", f"Time={now()}"]
    if epoch is not None:
        fields.insert(1, f"Epoch={epoch}")
    print("| Training", *fields, flush=True)
    write_to_summary(summary_writer, dict_to_write={"examples/sec": rate, "average_examples/sec": global_rate})


def print_test_update(device: Any, accuracy: float | None, epoch: int | None = None, step: int | None = None) -> None:
    """Prints a line on how a test goes."""
    named = {"Step": step, "Epoch": epoch, "Accuracy": None if accuracy is None else f"{accuracy:.2f}"}
    print("| Test", f"Device={device}/{runtime.global_ordinal()}", *(f"{name}={value}" for name, value in named.items() if value is not None), f"Time={now()}", flush=True)


def get_summary_writer(logdir: str | None) -> Any:
    """A TensorBoard writer for a folder, None without one."""
    if not logdir:
        return None
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(log_dir=logdir)


def write_to_summary(summary_writer: Any, global_step: int | None = None, dict_to_write: dict[str, Any] | None = None, write_xla_metrics: bool = False) -> None:
    """Has a writer, where there is one, keep scalars by their names."""
    if write_xla_metrics:
        raise NotImplementedError("write_to_summary(): expected write_xla_metrics=False: use torch_xla.debug.metrics")
    for name, value in (dict_to_write or {}).items() if summary_writer is not None else ():
        summary_writer.add_scalar(name, value, global_step)


def close_summary_writer(summary_writer: Any) -> None:
    """Ends a writer, where there is one."""
    if summary_writer is not None:
        summary_writer.close()


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(f"xla_go.compat: torch_xla.test.test_utils.{name} is not provided")
