"""xla_go.jit: a step that is replayed does to every tensor what its Python would have done, or is not replayed."""

from __future__ import annotations

import copy
import gc
import logging
import types
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import xla_go
from support import Child

CALLS = 7
Step = Callable[..., Any]


def replays() -> int:
    return xla_go.metrics.counter_value("ReplayedProgram") or 0


class Training:
    """A small model with its optimizer, and batches on the device."""

    def __init__(self, optimizer: Callable[..., torch.optim.Optimizer] = torch.optim.SGD, dropout: float = 0.0, calls: int = CALLS, **settings: Any) -> None:
        xla_go.manual_seed(3)
        torch.manual_seed(3)
        layers = [torch.nn.Linear(6, 8), torch.nn.BatchNorm1d(8), torch.nn.ReLU(), torch.nn.Dropout(dropout), torch.nn.Linear(8, 3)]
        self.model = torch.nn.Sequential(*layers).to("xla")
        self.optimizer = optimizer(self.model.parameters(), **{"lr": 0.05, **settings})
        self.batches = [(torch.randn(5, 6).to("xla"), torch.randint(3, (5,)).to("xla")) for _ in range(calls)]

    def loss(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(self.model(x), y)

    def step(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        self.optimizer.zero_grad()
        loss = self.loss(x, y)
        loss.backward()
        self.optimizer.step()
        return loss

    def tensors(self) -> list[torch.Tensor | None]:
        parameters = list(self.model.parameters())
        return [*parameters, *self.model.buffers(), *[p.grad for p in parameters]]


def compare(ours: Training, theirs: Training, losses: list[torch.Tensor], expected: list[torch.Tensor]) -> None:
    """Both have done the same, to the bit: they are the same programs."""
    for loss, other in zip(losses, expected, strict=True):
        assert loss.item() == other.item()
    for tensor, other in zip(ours.tensors(), theirs.tensors(), strict=True):
        assert (tensor is None) == (other is None)
        if tensor is not None and other is not None:
            torch.testing.assert_close(tensor.detach().cpu(), other.detach().cpu(), rtol=1e-6, atol=1e-7)


def both(body: Callable[[Training], Step], between: Callable[[Training, int], None] = lambda *_: None, **settings: Any) -> int:
    """Runs a step as it is and through jit, with `between` before each call; gives how many calls were replayed."""
    theirs, ours = Training(**settings), Training(**settings)
    results: list[list[torch.Tensor]] = []
    replayed = 0
    for training, step in ((theirs, body(theirs)), (ours, xla_go.jit(body(ours)))):
        xla_go.manual_seed(5)
        before = replays()
        losses = []
        for number, batch in enumerate(training.batches):
            between(training, number)
            losses.append(step(*batch))
            xla_go.sync()
        replayed = replays() - before
        results.append(losses)
    compare(ours, theirs, results[1], results[0])
    return replayed


# Momentum and Adam's states are made in the first call, whose program is one of its own.
@pytest.mark.parametrize(
    ("settings", "least"),
    [
        ({}, CALLS - 3),
        ({"momentum": 0.9}, CALLS - 3),
        ({"optimizer": torch.optim.AdamW, "capturable": True}, CALLS - 3),
        ({"optimizer": torch.optim.AdamW, "fused": True}, CALLS - 3),
        ({"dropout": 0.5}, CALLS - 3),
    ],
    ids=["sgd", "momentum", "adamw", "fused adamw", "dropout"],
)
def test_a_replayed_training_is_the_traced_one(settings: dict[str, Any], least: int) -> None:
    assert both(lambda t: lambda x, y: t.step(x, y), **settings) >= least


def forward_and_backward(training: Training) -> Step:
    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        loss = training.loss(x, y)
        loss.backward()
        return loss

    return step


def test_gradients_add_up_over_replayed_calls() -> None:
    assert both(forward_and_backward) > 0


def test_gradients_are_given_to_parameters_that_have_none() -> None:
    def between(training: Training, number: int) -> None:
        if number:
            training.optimizer.step()
        training.optimizer.zero_grad()

    assert both(forward_and_backward, between) > 0


def test_no_gradients_are_left_where_the_step_takes_them_away() -> None:
    def body(training: Training) -> Step:
        def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            loss = training.step(x, y)
            training.optimizer.zero_grad()
            return loss

        return step

    assert both(body) > 0


def test_settings_modes_and_states_that_change_are_heeded() -> None:
    """Each change needs calls of its own to be traced: calls after these are replayed again."""
    saved: dict[int, Any] = {}

    def between(training: Training, number: int) -> None:
        if number == 5:
            saved[id(training)] = copy.deepcopy((training.model.state_dict(), training.optimizer.state_dict()))
            training.optimizer.param_groups[0]["lr"] = 0.2
        elif number == 9:
            training.model.eval()
        elif number == 13:
            training.model.train()
            training.model.load_state_dict(saved[id(training)][0])
            training.optimizer.load_state_dict(saved[id(training)][1])
        elif number == 17:
            training.model[0].weight = torch.nn.Parameter(torch.ones(8, 6).to("xla"))

    assert both(lambda t: lambda x, y: t.step(x, y), between, momentum=0.9, calls=22) >= 2 + 4 * 2


def test_a_schedule_on_the_device_is_replayed() -> None:
    def training_of() -> tuple[Training, torch.optim.lr_scheduler.LRScheduler]:
        training = Training(torch.optim.AdamW, capturable=True, lr=torch.tensor(0.1).to("xla"))
        return training, torch.optim.lr_scheduler.ExponentialLR(training.optimizer, 0.5)

    (ours, our_schedule), (theirs, their_schedule) = training_of(), training_of()
    step = xla_go.jit(lambda x, y: ours.step(x, y))
    before = replays()
    losses, expected = [], []
    for batch in ours.batches:
        losses.append(step(*batch))
        our_schedule.step()
        expected.append(theirs.step(*batch))
        their_schedule.step()
        xla_go.sync()
    assert replays() - before >= CALLS - 4
    compare(ours, theirs, losses, expected)


def test_variables_and_arguments_that_are_numbers_are_heeded() -> None:
    scale = 1.0
    x = torch.ones(3).to("xla")

    @xla_go.jit
    def scaled(y: torch.Tensor, add: int, *, twice: bool = False) -> torch.Tensor:
        return (x + y) * scale + add + (x if twice else 0)

    before = replays()
    for number in range(12):
        scale = 1.0 if number < 6 else 3.0
        y = torch.full((3,), float(number)).to("xla")
        expected = (1 + number) * scale + number % 2 + (number % 2)
        assert scaled(y, number % 2, twice=number % 2 == 1).tolist() == [expected] * 3
    assert replays() > before
    x.add_(1)  # a variable's tensor is read anew
    assert scaled(torch.zeros(3).to("xla"), 0).tolist() == [6.0] * 3
    assert scaled(torch.zeros(2, 3).to("xla"), 0).shape == (2, 3)


total = 0  # also the name of an attribute


def adding(x: torch.Tensor, owner: Any) -> torch.Tensor:
    return x + owner.total


def test_an_attribute_is_no_variable_of_its_name() -> None:
    global total
    owner = types.SimpleNamespace(total=2.0)
    step = xla_go.jit(lambda x: adding(x, owner))
    by_itself = xla_go.jit(adding)
    x, before = torch.ones(2).to("xla"), replays()
    for total in range(6):  # noqa: B007
        assert step(x).tolist() == [3.0, 3.0]
        assert by_itself(x, Owner).tolist() == [4.0, 4.0]
    assert replays() - before == 8


class Owner:
    total = 3.0


def test_results_come_as_the_function_gives_them() -> None:
    @xla_go.jit
    def f(x: torch.Tensor) -> dict[str, Any]:
        return {"double": x * 2, "parts": (x + 1, [x, "text"]), "nothing": None}

    x = torch.arange(3.0).to("xla")
    before = replays()
    for _ in range(5):
        results = f(x)
        assert results["double"].tolist() == [0, 2, 4]
        assert results["parts"][0].tolist() == [1, 2, 3]
        assert results["parts"][1][0].tolist() == [0, 1, 2]
        assert results["parts"][1][1] == "text"
        assert results["nothing"] is None
        assert not results["double"].requires_grad
    assert replays() == before + 3


def test_a_model_by_itself_is_replayed() -> None:
    training = Training(dropout=0.5)
    model = xla_go.jit(training.model.eval())
    before = replays()
    with torch.no_grad():
        for x, _ in training.batches:
            assert torch.equal(model(x).cpu(), training.model(x).cpu())
    assert replays() - before >= CALLS - 3


def test_clear_lets_go_of_models() -> None:
    held: list[Training] = [Training()]
    step = xla_go.jit(lambda x, y: held[0].step(x, y))
    batches = held[0].batches
    for batch in batches[:4]:
        step(*batch)
    gone = weakref.ref(held[0].model)
    held[0] = Training()
    step.clear()
    gc.collect()
    assert gone() is None
    before = replays()
    for batch in batches[:5]:
        step(*batch)
    assert replays() > before


def test_a_method_is_a_function_of_its_object() -> None:
    class Counter:
        def __init__(self, start: float) -> None:
            self.total = torch.tensor(start).to("xla")

        @xla_go.jit
        def add(self, x: torch.Tensor) -> torch.Tensor:
            self.total += x
            return self.total * 1

    first, second = Counter(0.0), copy.deepcopy(Counter(100.0))
    one = torch.tensor(1.0).to("xla")
    before = replays()
    for number in range(1, 6):
        assert first.add(one).item() == number
        assert second.add(one).item() == 100 + number
    assert replays() > before
    third = copy.deepcopy(first)
    assert third.add(one).item() == 6
    assert first.total.item() == 5
    assert xla_go.jit(first.add) is first.add


def test_an_old_graph_sees_that_a_replayed_step_has_changed_its_weights() -> None:
    training = Training()
    step = xla_go.jit(lambda x, y: training.step(x, y))
    for batch in training.batches[:5]:
        step(*batch)
    loss = training.loss(*training.batches[5])
    before = replays()
    step(*training.batches[6])
    assert replays() == before + 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def reading(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if x.sum().item() > 0 else x


def on_the_host(x: torch.Tensor) -> torch.Tensor:
    return x + torch.ones(2, dtype=torch.float32).to("xla")


kept: list[torch.Tensor] = []


def keeping(x: torch.Tensor) -> torch.Tensor:
    kept.append(x * 3)
    return x + kept[-1]


@pytest.mark.parametrize(
    ("function", "reason"),
    [(reading, "read"), (on_the_host, "brought to the device"), (keeping, "something else was traced")],
)
def test_what_cannot_be_replayed_is_traced_and_the_log_says_why(function: Step, reason: str, caplog: pytest.LogCaptureFixture) -> None:
    step = xla_go.jit(function)
    before = replays()
    with caplog.at_level(logging.WARNING, logger="xla_go"):
        for number in range(10):
            x = torch.tensor([1.0, float(number)]).to("xla")
            assert step(x).tolist() == function(x).tolist()
    assert replays() == before
    messages = [record.getMessage() for record in caplog.records if "xla_go.jit" in record.getMessage()]
    assert len(messages) == 1
    assert reason in messages[0]
    assert function.__name__ in messages[0]


def test_an_optimizer_that_counts_on_the_host_is_named(caplog: pytest.LogCaptureFixture) -> None:
    training = Training(torch.optim.AdamW)
    step = xla_go.jit(lambda x, y: training.step(x, y))
    with caplog.at_level(logging.WARNING, logger="xla_go"):
        for batch in training.batches + training.batches:
            step(*batch)
    assert "AdamW's step is counted on the host: make the optimizer with capturable=True" in caplog.text


def test_arguments_that_cannot_be_followed(caplog: pytest.LogCaptureFixture) -> None:
    step = xla_go.jit(lambda x: x.to("xla") * 2)
    with caplog.at_level(logging.WARNING, logger="xla_go"):
        for number in range(10):
            assert step(torch.tensor(float(number))).item() == 2 * number
    assert "an argument is on device cpu" in caplog.text
    with pytest.raises(TypeError, match="expected arguments that are tensors, or hashable"):
        step(bytearray(b"x"))
    with pytest.raises(TypeError, match="expected a function, got int"):
        xla_go.jit(3)  # type: ignore[call-overload]


def test_an_error_in_the_step_is_the_callers_and_nothing_is_lost() -> None:
    fail = False
    total = torch.zeros(2).to("xla")

    @xla_go.jit
    def step(x: torch.Tensor) -> torch.Tensor:
        total.add_(x)
        if fail:
            raise KeyError("mine")
        return total * 1

    one = torch.ones(2).to("xla")
    for _ in range(4):
        step(one)
    fail = True
    with pytest.raises(KeyError, match="mine"):
        step(one)
    fail = False
    assert step(one).tolist() == [6.0, 6.0]
    assert step(one).tolist() == [7.0, 7.0]


def test_a_step_over_all_devices_is_replayed(child: Child) -> None:
    child(
        """
        import numpy as np, torch, xla_go
        import torch.nn.functional as F
        from xla_go import spmd

        xla_go.runtime.use_spmd()
        mesh = spmd.Mesh(np.arange(4), (4,), ("data",))
        torch.manual_seed(0)
        batches = [(torch.randn(8, 8), torch.randint(4, (8,))) for _ in range(7)]

        def train(wrap):
            torch.manual_seed(0)
            model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)).to("xla")
            for p in model.parameters():
                if p.dim() == 2:
                    spmd.mark_sharding(p, mesh, ("data", None))
            optimizer = torch.optim.AdamW(model.parameters(), capturable=True)

            def step(x, y):
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                return loss

            step, losses = wrap(step), []
            for x, y in batches:
                x, y = x.to("xla"), y.to("xla")
                spmd.mark_sharding(x, mesh, ("data", None))
                losses.append(step(x, y))
                xla_go.sync()
            return [loss.item() for loss in losses]

        expected = train(lambda step: step)
        before = xla_go.metrics.counter_value("ReplayedProgram") or 0
        assert train(xla_go.jit) == expected
        assert (xla_go.metrics.counter_value("ReplayedProgram") or 0) - before >= 3
        """,
        env={"CPU_NUM_DEVICES": "4"},
    )


@pytest.mark.slow
def test_a_language_model_with_clipped_gradients_is_replayed() -> None:
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 2}
    config = transformers.LlamaConfig(vocab_size=100, max_position_embeddings=32, **sizes)
    losses: list[list[float]] = []
    for wrap in (lambda step: step, xla_go.jit):
        torch.manual_seed(0)
        model = transformers.LlamaForCausalLM(config).to("xla")
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)

        def step(tokens: torch.Tensor, model: Any = model, optimizer: Any = optimizer) -> torch.Tensor:
            loss = model(input_ids=tokens, labels=tokens).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            return loss

        call, before = wrap(step), replays()
        batches = [torch.randint(100, (2, 16), generator=torch.Generator().manual_seed(seed)) for seed in range(CALLS)]
        losses.append([call(tokens.to("xla")).item() for tokens in batches])
    assert losses[0] == losses[1]
    assert replays() - before >= CALLS - 3
