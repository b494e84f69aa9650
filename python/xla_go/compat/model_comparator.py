"""What `torch_xla.debug.model_comparator` gives after `xla_go.compat.install()`: tensors of two runs, saved and compared."""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from pathlib import Path

import torch

from xla_go.compat import xla_model

_directory: str | None = None
_step: int | None = None
_saved: Counter[str] = Counter()
_FILE = re.compile(r".*\.\d+")


def configure(save_dir: str | None) -> None:
    """Where `save` writes from now on; None for nowhere. Without a call it is the environment's MODELCMP_SAVEDIR."""
    global _directory, _step
    _directory, _step = save_dir, None
    _saved.clear()


def save(name: str | None, tensor: torch.Tensor, step: int | None = None) -> torch.Tensor:
    """Writes a tensor under a name (by default the caller's file and line) and gives it back. BLOCKING, where it writes."""
    global _step
    directory = _directory if _directory is not None else os.environ.get("MODELCMP_SAVEDIR")
    if directory is None:
        return tensor
    value = tensor.detach().cpu()
    if xla_model.is_master_ordinal():
        if name is None:
            caller = sys._getframe(1)
            name = f"{Path(caller.f_code.co_filename).name}.l{caller.f_lineno}"
        folder = Path(directory)
        if step is not None:
            folder /= f"step-{step}"
            folder.mkdir(exist_ok=True)
            if step != _step:
                _step = step
                _saved.clear()
        torch.save(value, folder / f"{name}.{_saved[name]}")
        _saved[name] += 1
    return tensor


def compare_tensors(tensor1: torch.Tensor, tensor2: torch.Tensor, rtol: float = 1e-05, atol: float = 1e-08, max_diffs: int = 25) -> str:
    """The largest differences, a line each; "" where there are none above both bounds."""
    if tensor1.shape != tensor2.shape:
        return f"shapes differ: {list(tensor1.shape)} and {list(tensor2.shape)}\n"
    first, second = tensor1.double(), tensor2.double()
    error = (first - second).abs()
    bound = (torch.maximum(first.abs(), second.abs()) * rtol).clamp(min=atol)
    places = (error > bound).nonzero()
    order = sorted(places.tolist(), key=lambda place: -error[tuple(place)].item())
    lines = [f"{place}: {tensor1[tuple(place)].item()} and {tensor2[tuple(place)].item()}, error {error[tuple(place)].item()}" for place in order[:max_diffs]]
    if len(order) > max_diffs:
        lines.append(f"and {len(order) - max_diffs} more")
    return "".join(f"{line}\n" for line in lines)


def compare(save_dir1: str, save_dir2: str, rtol: float = 1e-05, atol: float = 1e-08, max_diffs: int = 25) -> str:
    """The differences between all that was saved in two folders; "" where there are none."""
    first, second = (
        {path.relative_to(folder) for path in Path(folder).rglob("*") if path.is_file() and _FILE.fullmatch(path.name)} for folder in (save_dir1, save_dir2)
    )
    report = "".join(f"{name} is only in {save_dir1}\n" for name in sorted(first - second))
    report += "".join(f"{name} is only in {save_dir2}\n" for name in sorted(second - first))
    for name in sorted(first & second):
        found = compare_tensors(torch.load(Path(save_dir1, name)), torch.load(Path(save_dir2, name)), rtol, atol, max_diffs)
        if found:
            report += f"{name} differs:\n" + "".join(f"  {line}\n" for line in found.splitlines())
    return report
