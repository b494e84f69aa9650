"""Importing xla_go: what it registers, and what it leaves alone."""

from __future__ import annotations

import os
from pathlib import Path

import torch

from support import Child
from xla_go import _adapter


def first_on_path(directory: Path) -> dict[str, str]:
    """An environment in which Python looks into `directory` first."""
    return {"PYTHONPATH": os.pathsep.join(filter(None, [str(directory), os.environ.get("PYTHONPATH")]))}


def test_importing_does_not_start_the_runtime(child: Child) -> None:
    done = child(
        """
        import torch, xla_go
        from xla_go import _adapter
        assert not _adapter.loaded().is_loaded()
        assert not torch.xla.is_initialized() and not torch.xla._initialized
        x = torch.ones(3, requires_grad=True)
        (x * 2).sum().backward()
        assert not _adapter.loaded().is_loaded()
        torch.ones(3, device="xla")
        assert _adapter.loaded().is_loaded() and torch.xla._initialized
        print("ok")
        """
    )
    assert done.stdout.strip() == "ok"


def test_importing_leaves_the_process_as_it_was(child: Child) -> None:
    done = child(
        """
        import os, signal, threading
        import torch

        def state():
            denormal = torch.tensor(1e-310, dtype=torch.float64) * 1
            handlers = {number: signal.getsignal(number) for number in signal.valid_signals() if number not in (9, 19)}
            return os.getcwd(), dict(os.environ), handlers, float(denormal) != 0.0, threading.active_count()

        before = state()
        import xla_go
        assert state() == before
        torch.ones(3, device="xla").cpu()
        after = state()
        assert after == before, [(a, b) for a, b in zip(before, after) if a != b]
        print("ok")
        """
    )
    assert done.stdout.strip() == "ok"


def test_every_runtime_row_can_be_served() -> None:
    assert _adapter.loaded().refused_rows() == []


def test_composites_that_torch_keeps_from_the_key_are_registered() -> None:
    assert _adapter.loaded().composite_count() > 20
    x = torch.arange(12.0).reshape(3, 4)
    d = x.to("xla")
    assert torch.equal(torch.diagonal_copy(d).cpu(), x.diagonal())
    assert torch.equal(
        torch.select_scatter(d, torch.zeros(4, device="xla"), 0, 1).cpu(), torch.select_scatter(x, torch.zeros(4), 0, 1)
    )
    assert torch.equal(torch.diag_embed(d).cpu(), torch.diag_embed(x))
    assert [t.shape for t in torch.unbind_copy(d)] == [torch.Size([4])] * 3


def test_torch_xla_after_xla_go_is_an_import_error(child: Child, tmp_path: Path) -> None:
    package = tmp_path / "other" / "torch_xla"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise SystemExit('torch_xla was imported')")
    done = child(
        """
        import torch, xla_go
        try:
            import torch_xla
        except ImportError as error:
            print(error)
        """,
        env=first_on_path(tmp_path / "other"),
    )
    assert "torch_xla cannot be imported after xla_go" in done.stdout
    assert "xla_go.compat.install()" in done.stdout


def test_xla_go_after_torch_xla_is_an_import_error(child: Child, tmp_path: Path) -> None:
    package = tmp_path / "other" / "torch_xla"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    done = child(
        """
        import torch, torch_xla
        try:
            import xla_go
        except ImportError as error:
            print(error)
        """,
        env=first_on_path(tmp_path / "other"),
    )
    assert "torch_xla is already imported in this process" in done.stdout


def test_a_wrong_torch_is_refused_in_words() -> None:
    module = _adapter.loaded()
    key = torch._C.DispatchKey
    keys = [int(key.XLA), int(key.CPU), int(key.AutogradXLA)]
    for version, numbers, text in (
        ("2.8.1", keys, "got torch 2.8.1"),
        (torch.__version__, [keys[0] + 1, *keys[1:]], "expected dispatch key XLA to be number"),
    ):
        try:
            module.initialize(version, *numbers, {})
        except ImportError as error:
            assert text in str(error)
        else:
            raise AssertionError("expected an ImportError")
