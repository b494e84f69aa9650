"""A Llama-style block trained on eight devices: FSDP, tensor parallel and both, against one device."""

from __future__ import annotations

from pathlib import Path

import pytest

from support import trained

pytestmark = pytest.mark.once

PROGRAM = Path(__file__).with_name("llama_block.py")


@pytest.mark.parametrize(
    ("way", "variable", "kinds", "shardings"),
    [
        # Weights are gathered before they are used; what is summed into a part of a gradient is a reduce-scatter, which
        # XLA:CPU writes as an all-reduce of which each device takes its slice.
        pytest.param("fsdp", "", {"all-gather", "all-reduce", "dynamic-slice"}, ["{devices=[8,1]0,1,2,3,4,5,6,7}"] * 3, marks=pytest.mark.slow),
        ("tensor", "", {"all-reduce"}, ["{devices=[8,1]0,1,2,3,4,5,6,7}", "{devices=[1,8]0,1,2,3,4,5,6,7}", "{devices=[8,1]0,1,2,3,4,5,6,7}"]),
        pytest.param("both", "", {"all-gather", "all-reduce"}, ["{devices=[2,4]0,2,4,6,1,3,5,7}", "{devices=[4,2]0,1,2,3,4,5,6,7}", "{devices=[2,4]0,2,4,6,1,3,5,7}"], marks=pytest.mark.slow),
        pytest.param("both", "XLA_USE_IFRT", {"all-gather", "all-reduce"}, ["{devices=[2,4]0,2,4,6,1,3,5,7}", "{devices=[4,2]0,1,2,3,4,5,6,7}", "{devices=[2,4]0,2,4,6,1,3,5,7}"], marks=pytest.mark.slow),
        ("both", "CONVERT_SHLO_TO_SHARDY", {"all-gather", "all-reduce"}, ["{devices=[2,4]0,2,4,6,1,3,5,7}", "{devices=[4,2]0,1,2,3,4,5,6,7}", "{devices=[2,4]0,2,4,6,1,3,5,7}"]),
    ],
)
def test_losses_are_those_of_one_device(way: str, variable: str, kinds: set[str], shardings: list[str]) -> None:
    one, many = trained(PROGRAM, "one", 1), trained(PROGRAM, way, 8, variable)
    assert len(one["losses"]) == 20 and one["losses"][-1] < 0.6 * one["losses"][0]
    assert many["losses"] == pytest.approx(one["losses"], rel=1e-4)
    assert many["late_compiles"] == 0 and many["replicated"] >= 20 and one["replicated"] == 0
    assert many["shardings"] == shardings  # of two weights and a moment of one
    opcodes = many["opcodes"]
    assert kinds <= set(opcodes), opcodes
    if way == "fsdp":  # each of the nine weights, in the forward pass at least
        assert opcodes["all-gather"] >= 9
    else:  # after attention and after the feed-forward layer, forward and backward
        assert opcodes["all-reduce"] >= 4
