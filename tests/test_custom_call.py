"""Calls of what the plugin knows under a name, in HLO and in exported programs."""

from __future__ import annotations

import pytest
import torch

import xla_go
from xla_go import debug, errors, stablehlo
from xla_go.custom_call import custom_call

LIBRARY = torch.library.Library("xla_go_test", "DEF")
LIBRARY.define("halves(Tensor x) -> (Tensor, Tensor)")
LIBRARY.define("scaled(Tensor x, float factor) -> Tensor")
LIBRARY.impl("halves", lambda x: (x.new_empty(2), x.new_empty(x.numel() - 2)), "Meta")
LIBRARY.impl("scaled", lambda x, factor: torch.empty_like(x), "Meta")


def test_a_call_is_one_instruction() -> None:
    x = torch.ones(4, 2, device="xla")
    xla_go.sync()
    one, two = custom_call([x, x[0]], "some.target", [(3,), (2, 2)], [torch.int8, torch.float32], side_effect=True, configuration='k="v"', attributes={"b": "2", "a": "1"})
    assert (one.shape, one.dtype, two.shape, two.dtype) == ((3,), torch.int8, (2, 2), torch.float32)
    graph = debug.graph(one, two)
    assert graph.hlo.count("custom-call(") == 1 and 'custom_call_target="some.target", custom_call_has_side_effect=true' in graph.hlo
    assert 'frontend_attributes={a="1",b="2"}' in graph.hlo
    assert r'backend_config = "k=\22v\22"' in graph.stablehlo and 'mhlo.frontend_attributes = {a = "1", b = "2"}' in graph.stablehlo
    with pytest.raises(errors.XlaError, match=r"some\.target"):
        two.cpu()  # the plugin knows no such thing
    assert x.sum().item() == 8


def test_calls_are_told_apart_by_all_that_they_say() -> None:
    x = torch.ones(2, device="xla")
    told = [{}, {"side_effect": True}, {"configuration": "c"}, {"api_version": 2}, {"attributes": {"a": "b"}}]
    results = [custom_call([x], target, [(2,)], [torch.float32], **more)[0] for target in ("t", "u") for more in told]
    assert len({debug.graph(result).ir for result in results}) == len(results)


def test_what_does_not_fit() -> None:
    x = torch.ones(2, device="xla")
    for arguments, words in ((([x.cpu()], "t", [(2,)], [x.dtype]), "device xla"), (([x], "t", [(2,)], []), "a dtype for each shape"),
                             (([x], "t", [], []), "at least one result"), (([x], "", [(2,)], [x.dtype]), "name of a target")):  # fmt: skip
        with pytest.raises(ValueError, match=words):
            custom_call(*arguments)


def test_operators_of_a_library_are_exported_as_calls() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            first, rest = torch.ops.xla_go_test.halves(torch.ops.xla_go_test.scaled(x, 2.0))
            return first.sum() + rest.sum()

    program = stablehlo.export(Model(), (torch.ones(5),), custom_operators={"xla_go_test"})
    assert 'call_target_name = "xla_go_test.scaled.default"' in program.text
    readable = program.readable()
    assert "stablehlo.custom_call @xla_go_test.halves.default(" in readable
    assert "(tensor<5xf32>) -> tuple<tensor<2xf32>, tensor<3xf32>>" in readable and "stablehlo.get_tuple_element" in readable
    with pytest.raises(NotImplementedError, match="scaled"):
        stablehlo.export(Model(), (torch.ones(5),))


def test_numbers_of_an_exported_program_can_be_its_weights() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return (x * 1 - 5.5) / 3 + x.to(torch.int64) * 7

    x = torch.arange(4.0)
    program = stablehlo.export(model, (x,), inline_numbers=False)
    weights = program.weights()
    assert sorted(float(value) for value in weights.values()) == [3, 5.5, 7]
    torch.testing.assert_close(program(x), model(x))
    (name,) = (name for name, value in weights.items() if value == 5.5)
    program.set_weights({name: weights[name] * 2})
    torch.testing.assert_close(program(x), (x - 11) / 3 + x.to(torch.int64) * 7)
    assert not stablehlo.export(model, (x,)).weights()
    xla_go.sync()
