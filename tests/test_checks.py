"""When a position or class out of range raises, what is kept, and what it costs."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import xla_go
from support import Child

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))
from char_gpt import CharGPT

xla = torch.device("xla")


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """What a test leaves to be raised is not raised in another one."""
    xla_go.sync(wait=True)
    yield
    try:
        xla_go.sync(wait=True)
    except IndexError:
        xla_go.sync(wait=True)


def table() -> tuple[torch.Tensor, torch.Tensor]:
    """Three rows, and positions of which the second is not among them."""
    return torch.arange(12.0).reshape(3, 4).to(xla), torch.tensor([0, 5, 2]).to(xla)


def fallen() -> int:
    return xla_go.metrics.counter_value("FailedCheck") or 0


def ended() -> None:
    """Waits for all steps, without raising."""
    xla_go._runtime.wait("QueueWaitBegin")


def test_the_next_sync_raises_once() -> None:
    x, i = table()
    before = fallen()
    y = F.embedding(i, x)
    xla_go.sync()
    ended()
    assert fallen() == before + 1
    with pytest.raises(IndexError, match=r"^index out of range in self\nin aten::embedding"):
        xla_go.sync()
    xla_go.sync()
    assert torch.equal(y[0].cpu(), torch.arange(4.0))
    assert fallen() == before + 1


def test_a_sync_that_raises_keeps_what_was_traced() -> None:
    x, i = table()
    y = x[i]
    xla_go.sync()
    ended()
    z = x * 2
    with pytest.raises(IndexError):
        xla_go.sync()
    assert torch.equal(z.cpu(), torch.arange(12.0).reshape(3, 4) * 2)
    assert y.shape == (3, 4)


def test_a_sync_that_waits_raises_its_own() -> None:
    x, i = table()
    y = x[i]
    with pytest.raises(IndexError, match="index 5 is out of bounds for dimension 0 with size 3"):
        xla_go.sync(wait=True)
    xla_go.sync(wait=True)
    assert y.shape == (3, 4)


def test_a_read_raises_before_it_gives_a_wrong_value() -> None:
    x, i = table()
    for _ in range(50):  # whichever thread is faster
        with pytest.raises(IndexError):
            x.index_select(0, i).cpu()


def test_a_read_of_what_a_later_step_makes_of_it_raises() -> None:
    x, i = table()
    for _ in range(50):
        y = F.embedding(i, x)
        xla_go.sync()
        with pytest.raises(IndexError):
            (y * 2).sum().item()


def test_what_was_read_or_queued_before_is_not_concerned() -> None:
    x, i = table()
    earlier = x + 1
    assert torch.equal(earlier.cpu(), torch.arange(12.0).reshape(3, 4) + 1)
    y = x[i]
    value = earlier.sum()  # traced after it, and read with it: one program
    with pytest.raises(IndexError):
        value.item()
    assert value.item() == 78  # all values are kept
    assert torch.equal(y.cpu()[::2], torch.arange(12.0).reshape(3, 4)[::2])


def test_the_first_of_several_tells() -> None:
    x, i = table()
    _ = x[i], x.take(i + 100), F.embedding(i, x)
    with pytest.raises(IndexError, match="index 5 is out of bounds for dimension 0"):
        xla_go.sync(wait=True)
    xla_go.sync(wait=True)


def test_writes_in_place_keep_everything_else() -> None:
    x, i = table()
    x.index_copy_(0, i, torch.full((3, 4), 7.0, device=xla))
    x[1] += 1
    with pytest.raises(IndexError):
        xla_go.sync(wait=True)
    assert x.cpu().tolist() == [[7.0] * 4, [5.0, 6.0, 7.0, 8.0], [7.0] * 4]
    x.add_(1)  # and goes on
    assert x.cpu().tolist() == [[8.0] * 4, [6.0, 7.0, 8.0, 9.0], [8.0] * 4]


def test_a_training_goes_on_after_a_wrong_class() -> None:
    torch.manual_seed(0)
    model = nn.Linear(4, 3).to(xla)
    optimizer = torch.optim.Adam(model.parameters())
    inputs = torch.randn(5, 4).to(xla)
    losses, refused = [], []
    compiled = step = wrong = 0
    while step < 12:
        snapshot = {name: value.clone() for name, value in model.state_dict().items()}
        target = torch.tensor([0, 1, 2, 9 if step == 7 and not wrong else 0, -100])
        try:
            loss = F.cross_entropy(model(inputs), target.to(xla))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            step += 1
        except IndexError as error:
            wrong += 1
            refused.append((step, str(error).split("\n")[0]))
            model.load_state_dict(snapshot)
            optimizer.state.clear()
        if step == 2:
            compiled = len(xla_go.debug.compiles())
    assert refused == [(7, "Target 9 is out of bounds.")]
    assert len(losses) == 12 and losses[-1] < losses[0]
    assert len(xla_go.debug.compiles()) - compiled <= 2  # what goes back to the snapshot


def test_strict_mode_raises_at_the_sync_of_the_step() -> None:
    x, i = table()
    good = torch.tensor([0, 1, 2]).to(xla)
    for _ in range(2):
        y = F.embedding(good, x) * 3
        xla_go.sync(wait=True)
    with xla_go.strict():
        y = F.embedding(good, x) * 3
        xla_go.sync()
        y = F.embedding(i, x) * 3
        with pytest.raises(IndexError, match="index out of range in self"):
            xla_go.sync()
        y = F.embedding(good, x) * 3
        xla_go.sync()
    assert torch.equal(y.cpu(), torch.arange(12.0).reshape(3, 4) * 3)


def test_eager_mode_raises_at_the_call_and_keeps_values() -> None:
    x, i = table()
    xla_go.eager_mode(True)
    try:
        with pytest.raises(IndexError, match="index_copy_\\(\\): index 5 is out of bounds"):
            x.index_copy_(0, i, torch.full((3, 4), 7.0, device=xla))
        assert x.cpu().tolist() == [[7.0] * 4, [4.0, 5.0, 6.0, 7.0], [7.0] * 4]
        for _ in range(3):
            with pytest.raises(IndexError):
                F.embedding(i, x)
            assert torch.equal(F.embedding(i.clamp(max=2), x).cpu(), x.cpu()[[0, 2, 2]])
        out = torch.zeros(3, 4, device=xla)
        with pytest.raises(IndexError):
            torch.index_select(x, 0, i, out=out)
        assert not out.any()
    finally:
        xla_go.eager_mode(False)


def opcodes(text: str) -> list[str]:
    return re.findall(r"[\]})] ([a-z-]+)\(", text)


def program(*values: torch.Tensor) -> str:
    text = xla_go.debug.graph(*values).hlo
    xla_go.sync(wait=True)
    return text


def has_checks(text: str) -> bool:
    """Whether the program has an output more: one of two numbers at its end."""
    return re.search(r"ROOT .*, s64\[2\](\{0\})?\) tuple\(", text) is not None


def test_positions_that_are_inside_by_themselves_are_not_checked() -> None:
    x = torch.randn(3, 4).to(xla)
    i = torch.tensor([0, 2, 1]).to(xla)
    assert has_checks(program(F.embedding(i, x)))
    inside = [
        lambda: x.gather(1, x.argmax(1, keepdim=True)),
        lambda: x.gather(1, x.topk(2, 1).indices),
        lambda: x.gather(1, x.sort(1).indices),
        lambda: x.gather(1, x.max(1, keepdim=True).indices),
        lambda: F.embedding(torch.arange(3, device=xla), x),
        lambda: F.embedding(torch.arange(3, device=xla).unsqueeze(0).expand(2, 3), x),
        lambda: x[torch.zeros(2, dtype=torch.long, device=xla)],
        lambda: x.index_select(1, i.argsort()),
    ]
    for number, make in enumerate(inside):
        assert not has_checks(program(make())), number
    not_known = [  # numbers are no part of a program
        lambda: F.embedding(i.clamp(0, 2), x),
        lambda: F.embedding(i.clamp(-1, 2), x),
        lambda: x[i.clamp(-4, 2)],
        lambda: x.gather(1, i.unsqueeze(1) + 1),
    ]
    for number, make in enumerate(not_known):
        assert has_checks(program(make())), number
    assert has_checks(program_of_bad(F.embedding(torch.arange(4, device=xla), x)))


def test_a_position_that_is_checked_is_not_checked_again() -> None:
    x, i = table()
    text = program_of_bad(F.embedding(i, x), F.embedding(i, x + 1), x.index_select(0, i))
    assert opcodes(text).count("reduce") == 1


def program_of_bad(*values: torch.Tensor) -> str:
    text = xla_go.debug.graph(*values).hlo
    with pytest.raises(IndexError):
        xla_go.sync(wait=True)
    return text


def test_a_gpt_step_has_two_checks_and_compiles_nothing_more() -> None:
    torch.manual_seed(0)
    model = CharGPT(32, 16, width=32, heads=2, layers=1).to(xla)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    compiled = 0
    for step in range(20):
        if step == 3:
            compiled = len(xla_go.debug.compiles())
        text = (torch.randint(32, (4, 1)) + torch.arange(17)).remainder(32).to(xla)
        loss = F.cross_entropy(model(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        xla_go.sync()
    assert xla_go.debug.compiles()[compiled:] == []
    text = torch.randint(32, (4, 17)).to(xla)
    loss = F.cross_entropy(model(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten())
    loss.backward()
    plain = program(loss, *(p.grad for p in model.parameters() if p.grad is not None))
    minima = [line for line in plain.splitlines() if " reduce(" in line and "s32[] reduce" in line]
    assert has_checks(plain) and len(minima) == 2, minima  # of the tokens and of the targets


SWITCHED = """
    import torch, xla_go
    import torch.nn.functional as F
    x, i = torch.arange(12.0).reshape(3, 4).to("xla"), torch.tensor([0, 5]).to("xla")
    assert torch.equal(F.embedding(i, x).cpu(), x.cpu()[[0, 2]])
    assert "s64[2]{0}) tuple" not in xla_go.debug.graph(x.index_select(0, i)).hlo
"""


def test_checks_can_be_switched_off(child: Child) -> None:
    child(SWITCHED, env={"XLA_GO_INDEX_CHECKS": "0"})


def test_programs_from_disk_check_as_well(child: Child, tmp_path: Path) -> None:
    code = """
        import json, torch, xla_go
        import torch.nn.functional as F
        x, i = torch.arange(12.0).reshape(3, 4).to("xla"), torch.tensor([0, 5]).to("xla")
        try:
            F.embedding(i, x).cpu()
        except IndexError as error:
            print(json.dumps([str(error).split("\\n")[0], [c["from_disk"] for c in xla_go.debug.compiles()]]))
    """
    environment = {"XLA_PERSISTENT_CACHE_PATH": str(tmp_path / "programs"), "XLA_GO_PERSISTENT_CACHE": "1"}
    said = [json.loads(child(code, env=environment).stdout) for _ in range(2)]
    assert said == [["index out of range in self", [False]], ["index out of range in self", [True]]]


@pytest.mark.parametrize("variables", [{"XLA_USE_IFRT": "1"}, {"XLA_STABLEHLO_COMPILE": "1"}, {"XLA_PARAMETER_WRAPPING_THREADSHOLD": "1"}])
def test_other_ways_to_run_check_as_well(child: Child, variables: dict[str, str]) -> None:
    child(
        """
        import torch, xla_go
        import torch.nn.functional as F
        x = torch.arange(12.0).reshape(3, 4).to("xla")
        for bad in (5, -1, 3, 10**12):
            i = torch.tensor([[0, bad], [2, 2]]).to("xla")
            try:
                x.gather(1, i).sum().item()
            except RuntimeError as error:
                assert bad != 3 and str(error).startswith(f"index {bad} is out of bounds for dimension 1 with size 4"), error
            else:
                assert bad == 3
            x.add_(1)
        assert x[0, 0].item() == 4
        """,
        env=variables,
    )


@pytest.mark.parametrize("ifrt", ["0", "1"], ids=["pjrt", "ifrt"])
def test_partitioned_programs_check_as_well(child: Child, ifrt: str) -> None:
    child(
        """
        import torch, xla_go
        import torch.nn.functional as F
        from xla_go import runtime, spmd
        runtime.use_spmd()
        mesh = spmd.Mesh(range(8), (4, 2), ("data", "model"))
        x = torch.arange(24.0).reshape(6, 4).to("xla")
        for place, bad in ((13, 9), (2, -1), (15, 6), (7, 5)):
            numbers = torch.zeros(16, dtype=torch.long)
            numbers[place] = bad
            i = numbers.reshape(8, 2).to("xla")
            spmd.mark_sharding(i, mesh, ("data", "model"))
            y = F.embedding(i, x)
            t = i.flatten()
            spmd.mark_sharding(y, mesh, ("data", "model", None))
            loss = F.nll_loss(torch.zeros(16, 6, device="xla").log_softmax(1), t)
            try:
                y.sum().item()
            except IndexError as error:
                assert bad != 5 and "index out of range in self" in str(error), error
            else:
                assert bad == 5
            xla_go.sync(wait=True)
            loss = F.nll_loss(torch.zeros(16, 6, device="xla").log_softmax(1), t)
            try:
                loss.item()
            except IndexError as error:
                assert str(error).startswith(f"Target {bad} is out of bounds."), error
            else:
                assert bad == 5
        """,
        env={"CPU_NUM_DEVICES": "8", "XLA_USE_IFRT": ifrt},
    )


def test_the_error_tells_the_lines_that_asked_for_it(child: Child) -> None:
    child(
        """
        import torch, xla_go
        import torch.nn.functional as F
        x, i = torch.arange(12.0).reshape(3, 4).to("xla"), torch.tensor([0, 5]).to("xla")
        def look_up():
            return F.embedding(i, x)
        y = look_up() * 2
        try:
            y.cpu()
        except IndexError as error:
            assert "in aten::embedding, called at" in str(error) and "in look_up" in str(error), error
        else:
            raise AssertionError("expected an error")
        """,
        env={"XLA_GO_IR_DEBUG": "1"},
    )
