"""What others use of torch_xla's dynamo bridge, over xla_go. A process for each test."""

from __future__ import annotations

from pathlib import Path

from support import Child

INSTALL = """
    import xla_go; xla_go.compat.install()
    import torch, torch_xla, torch_xla.core.xla_model as xm, torch_xla.debug.metrics as met
    from torch_xla import _XLAC
"""


def test_graph_runs_on_other_values(child: Child) -> None:
    child(
        INSTALL
        + """
    a, b, c = (torch.tensor(one).to("xla") for one in ([[1., 2.]], [[3., 4.]], [[5., 6.]]))
    product, sums = (a * 2 + b) @ c.T, a + b
    assert _XLAC._check_tensor_need_materialization([a, product, torch.ones(2)]) == [False, True, False]
    outputs = [product, sums, product, b]
    ids, values = _XLAC._get_tensors_xla_device_data_node(outputs)
    assert ids == [_XLAC._xla_get_tensor_id(one) for one in (c, b, a)], ids  # last operands first, as torch_xla has them
    assert _XLAC._get_tensors_handle(values) == _XLAC._get_tensors_handle([c, b, a])
    hlo = _XLAC._get_xla_tensors_hlo([torch.cat([(a * 2.5)[0], torch.ones(7).to("xla")]) * 1.5])  # numbered alike
    assert "{(f32[7]{0}, f32[1,2]{1,0}, u32[2]{0})->" in hlo and "(p0: f32[7], p1: f32[1,2], p2: u32[2])" in hlo, hlo
    assert "%p0.2 = f32[7]{0} parameter(0)" in hlo and "f32[1,2]{1,0} %p1.1, " in hlo and "concatenate(f32[2]{0} %reshape.9, f32[7]{0} %p0.2)" in hlo, hlo
    number = _XLAC._get_graph_hash(outputs)
    met.clear_all()
    _XLAC._xla_warm_up_cache(outputs, [])
    assert met.metric_data("CompileTime")[0] == 1 and met.metric_data("ExecuteTime") is None
    other = torch.tensor([[7., 8.]])
    for moved in (other.to("xla"), other):  # results of those that were pending, each storage once
        first, second = _XLAC._run_cached_graph(number, [c, moved, a])
        assert first.tolist() == [[5. * 9 + 6. * 12]] and second.tolist() == [[8., 10.]]
    assert met.metric_data("CompileTime")[0] == 1 and {"RunCachedGraphInputData", "RunCachedGraphOutputData"} <= set(met.metric_names())
    assert product.tolist() == [[5. * 5 + 6. * 8]] and a.tolist() == [[1., 2.]]
    for wrong in (lambda: _XLAC._run_cached_graph(number, [a]), lambda: _XLAC._run_cached_graph(b"", [])):
        try:
            wrong()
        except (ValueError, KeyError) as error:
            assert "expected" in str(error)
        else:
            raise AssertionError("expected an error")
    xm.set_rng_state(23)
    assert _XLAC._get_base_seed_as_tensor("xla:0").item() == 23 == xm.get_rng_state()
    torch.rand(2, device="xla")
    state = xm.get_rng_state()
    drawn = torch.rand(2, device="xla").tolist()
    xm.set_rng_state(state)
    assert state != 23 and torch.rand(2, device="xla").tolist() == drawn and _XLAC._get_base_seed_as_tensor("xla:0").item() == 23
    """
    )


def test_some_of_what_is_pending(child: Child) -> None:
    child(
        INSTALL
        + """
    x, kept = torch.tensor([1., 2.]).to("xla"), torch.tensor([5.]).to("xla")
    shared = x + 1
    double, triple = shared * 2, shared * 3
    kept.add_(1)
    met.clear_metrics()
    _XLAC._xla_sync_multi([double], devices=[], wait=True)
    assert met.metric_data("ExecuteTime")[0] == 1
    assert _XLAC._check_tensor_need_materialization([double, triple, shared]) == [False, True, True]
    assert triple.tolist() == [6., 9.] and double.tolist() == [4., 6.] and kept.tolist() == [6.]
    lost = x * 7
    kept.add_(1)
    _XLAC._clear_pending_irs("xla:0")
    assert kept.tolist() == [6.] and _XLAC._is_placecholder(lost)
    try:
        lost.tolist()
    except RuntimeError as error:
        assert "no value" in str(error)
    else:
        raise AssertionError("expected an error")
    """
    )


def test_compiled_functions(child: Child, tmp_path: Path) -> None:
    child(
        INSTALL
        + """
    import pytest, torch_xla._dynamo.dynamo_bridge as bridge
    from torch_xla._dynamo import config
    traced = torch.fx.symbolic_trace(lambda a, b: torch.sin(a) + b)
    met.clear_all()
    compiled = bridge.extract_compiled_graph(traced, (torch.ones(3, device="xla"), torch.ones(3, device="xla")))
    a = torch.tensor([0., 1., 2.]).to("xla")
    result = compiled(a, a)
    assert met.counter_value("DynamoExtractCompiledGraph") == 1
    torch.testing.assert_close(result.cpu(), torch.sin(a.cpu()) + a.cpu())
    collector = bridge.UnsupportedNodesCollector(traced)
    collector.run(a, torch.ones(3, device="xla"))
    assert collector.get_unsupported_nodes() == []
    collector = bridge.UnsupportedNodesCollector(traced)
    collector.run(torch.ones(3), torch.ones(3))
    assert [node.op for node in collector.get_unsupported_nodes()] == ["placeholder", "placeholder", "call_function", "call_function", "output"]

    f = torch.compile(lambda a: (a * 2).cos(), backend="openxla")
    f(a + 1)
    config.skip_input_data_check = True
    with pytest.raises(RuntimeError, match="pending"):
        f(a + 1)
    config.skip_input_data_check = False
    torch_xla.experimental.eager_mode(True)
    b = a + 1
    met.clear_all()
    torch.testing.assert_close(f(b).cpu(), torch.cos(b.cpu() * 2))
    assert met.metric_data("ExecuteTime")[0] == 1 and met.metric_data("EagerOpExecuteTime") is None
    """
    )
    saved = {"XLA_SAVE_TENSORS_FILE": str(tmp_path / "graphs")}
    child(INSTALL + "    f = torch.compile(lambda a: a * 2, backend='openxla'); a = torch.ones(3).to('xla'); f(a), f(a)", env={"PJRT_DEVICE": "CPU", **saved})
    lines = (tmp_path / "graphs.0").read_text().splitlines()
    assert sum("aten::mul" in line for line in lines) == 1 and len({line for line in lines if line.startswith("Graph Hash: ")}) == 1, lines
    assert [line.split(", ")[1] for line in lines if line.startswith("# step")] == ["1 results", "run of a compiled function", "run of a compiled function"]


def test_floats_of_changing_sizes(child: Child) -> None:
    child(
        """
    import torch, xla_go
    class Scaled(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight, self.factor = torch.nn.Parameter(torch.ones(4)), 0.5
        def forward(self, x):
            return (x * self.weight * self.factor).sum(0)
    model = Scaled().to("xla")
    f = torch.compile(model, backend="xla_go", dynamic=True)
    for factor in (0.5, 0.25):
        model.factor = factor
        for n in (3, 5):
            model.zero_grad()
            f(torch.ones(n, 4, device="xla")).sum().backward()
            assert model.weight.grad.tolist() == [n * factor] * 4, (n, factor, model.weight.grad)
    """
    )


def test_each_size_has_a_program(child: Child) -> None:
    child(
        INSTALL
        + """
    from torch_xla._dynamo import config
    def compiles(sizes, dynamic=True):
        f = torch.compile(torch.nn.Linear(6, 3).to("xla"), backend="openxla", dynamic=dynamic)
        met.clear_all()
        for n in sizes:
            assert f(torch.ones(n, 6).to("xla")).cpu().shape == (n, 3)
        return met.metric_data("CompileTime")[0]
    with torch.no_grad():
        assert compiles([9, 12, 16, 9]) == 3
        config.pad_sizes = True
        torch._dynamo.reset()
        assert compiles([17, 20, 32, 17]) == 1
        torch._dynamo.reset()
        assert compiles([33, 40, 64, 33], None) == 3 and met.counter_value("DynamoExtractCompiledGraph") == 3
        torch._dynamo.config.automatic_dynamic_shapes = True
        torch._dynamo.reset()
        assert compiles([65, 70, 71, 72], None) == 2  # the first, and what they are padded to
    """
    )
