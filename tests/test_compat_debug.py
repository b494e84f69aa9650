"""torch_xla's debugging functions, its builder of computations and its helpers over xla_go. A process for each test."""

from __future__ import annotations

from support import Child

INSTALL = """
    import xla_go; xla_go.compat.install()
    import torch, torch_xla, torch_xla.core.xla_model as xm, torch_xla.core.xla_builder as xb
    from torch_xla import _XLAC
"""


def test_text_of_programs(child: Child) -> None:
    child(
        INSTALL
        + """
    x = torch.ones(2, 3).to("xla")
    y = (x + 2)[:, 1]
    lines = _XLAC._get_xla_tensors_text([y]).split("\\n")
    assert lines[0] == "IR {" and lines[-2:] == ["}", ""]
    assert "prim::Constant()" in lines[1] and "xla::device_data()" in lines[2] and "xla_shape=f32[2,3]{1,0}" in lines[2], lines
    assert "f32[2]{0}" in lines[-3] and lines[-3].endswith("ROOT=0"), lines  # of the view, not of the whole storage
    assert any("aten::add(" in line for line in lines)
    assert "add(" in _XLAC._get_xla_tensors_hlo([y]) and "digraph" in _XLAC._get_xla_tensors_dot([y])
    same, other = _XLAC._get_graph_hash([x + 3]), _XLAC._get_graph_hash([x * 3])
    assert same == _XLAC._get_graph_hash([x + 4]) != other
    z = x * 5
    text = _XLAC._get_xla_tensor_debug_info(z)
    assert "aten::mul" in text and "XLAData: None" in text and "XLA Shape: f32[2,3]{1,0}" in text, text
    torch_xla.sync()
    text = _XLAC._get_xla_tensor_debug_info(z)
    assert "IR: None" in text and "XLAData: None" not in text and "Data Handle: None" not in text, text
    assert "Not a XLATensor" in _XLAC._get_xla_tensor_debug_info(torch.ones(2))
    """
    )


def test_placeholders(child: Child) -> None:
    child(
        INSTALL
        + """
    p = xb.create_placeholder_tensor((2, 3), torch.bfloat16)
    assert p.shape == (2, 3) and p.dtype == torch.bfloat16 and p.device == torch_xla.device()
    assert _XLAC._is_placecholder(p) and not _XLAC._is_placecholder(torch.ones(2).to("xla"))
    assert "parameter(0)" in _XLAC._get_xla_tensors_hlo([p @ p.T])
    for read in (p.cpu, (p + 1).cpu):
        try:
            read()
        except RuntimeError as error:
            assert "no value" in str(error)
        else:
            raise AssertionError("expected an error")
    a, b = torch.ones(2, device="xla"), torch.ones(2, device="xla")
    torch_xla.sync()
    first, second, third = _XLAC._get_tensors_handle([a, b, a.view(1, 2)])
    assert first == third != second
    """
    )


def test_lowering_context(child: Child) -> None:
    child(
        INSTALL
        + """
    import json
    a, b = torch.tensor([1., 2., 3.]).to("xla"), torch.tensor([[4., 5., 6.]]).to("xla")
    context = _XLAC.lowering.LoweringContext("MyName")
    try:
        context.hlo()
    except RuntimeError as error:
        assert "build" in str(error)
    context.build([a * 2 + b])
    assert "MyName" in context.hlo_text() and 'opcode: "add"' in context.hlo_text() and b"MyName" in context.hlo()
    shapes = json.loads(context.hlo_json())["hostProgramShape"]["parameters"]
    values = context.parameter_id_tensor_mapping()
    assert len(values) == len(shapes) == 3   # the last one holds the 2
    found = {str(one.tolist()) for one in values.values()}
    assert found == {"[1.0, 2.0, 3.0]", "[[4.0, 5.0, 6.0]]", "[1073741824]"}, found
    number = context.tensor_parameter_id(a)
    assert values[number].tolist() == [1., 2., 3.] and context.tensor_parameter_id(torch.ones(3, device="xla")) == -1
    held = context.device_parameter_id_tensor_mapping()[number]
    a.add_(1)   # leaves the module's parameter as it is
    assert held.tolist() == [1., 2., 3.] and a.tolist() == [2., 3., 4.]
    """
    )


def test_builder_of_computations(child: Child) -> None:
    child(
        INSTALL
        + """
    import torch_xla.core.xla_op_registry as xor
    blend = xor.register("blend", lambda a, b, weight=0.5: (a * a.scalar_like(weight)).max(b.sin()))
    a, b = torch.tensor([4., 0.]).to("xla"), torch.tensor([0., 1.]).to("xla")
    torch.testing.assert_close(blend(a, b, weight=0.25).cpu(), torch.tensor([1., 0.8414709568]))
    def loop(a, b, limit):
        more = lambda count, a, b: count < xb.Op.scalar(count.builder(), limit, dtype=xb.Type.S32)
        step = lambda count, a, b: xb.Op.tuple((count + count.scalar_like(1), a + b, b))
        return xb.Op.mkwhile((xb.Op.zero(a.builder(), xb.Type.S32), a, b), more, step).get_tuple_element(1)
    assert xor.register("loop", loop)(a, b, limit=3).tolist() == [4., 3.]
    choose = xor.register("choose", lambda k, a, b: (k > k.scalar_like(0)).mkconditional((a, b), lambda a, b: a, lambda a, b: b))
    assert choose(torch.tensor(1.).to("xla"), a, b).tolist() == [4., 0.] and choose(torch.tensor(-1.).to("xla"), a, b).tolist() == [0., 1.]
    lower = torch.tensor([[2., 0.], [1., 4.]]).to("xla")
    solve = xor.register("solve", lambda b, a: a.triangualr_solve(b, True, True, False, False))
    assert solve(torch.tensor([[2.], [5.]]).to("xla"), lower).tolist() == [[1.], [1.]]
    shape = xb.Shape.create(xb.Type.F32, (2, 3))
    reshaped = xb.create_computation("f", lambda x: x.transpose((1, 0)).reshape((6,)).slice_in_dim(0, 6, 0, 2), [shape])
    assert "f32[3]" in xb.get_computation_hlo(reshaped)
    assert xb.Op.iota(xb.create_builder("i"), shape, 1).op.tolist() == [[0., 1., 2.]] * 2
    """
    )


def test_comparator_of_models(child: Child) -> None:
    child(
        INSTALL
        + """
    import os, torch_xla.debug.model_comparator as mc
    for run, value in (("one", 1.), ("two", 1. + 1e-3)):
        os.mkdir(run)
        mc.configure(run)
        mc.save("same", torch.ones(2, device="xla"), step=1)
        mc.save("other", torch.tensor([0., value], device="xla"), step=1)
    report = mc.compare("one", "two")
    assert "other.0" in report and "[1]" in report and "same" not in report, report
    assert mc.compare("one", "two", rtol=1e-2) == ""
    """
    )


def test_report_of_live_tensors(child: Child) -> None:
    code = """
    import torch_xla.debug.profiler as xp
    with xp.Trace("made"):
        t = torch.tensor([2., 3.], device="xla")
    pending = t + 1
    report = _XLAC._xla_tensors_report(0, "xla:0")
    assert "aten::add" in report and "[f32[2] of storage" in report, report
    assert ("Frames:" in report, "scope=made.1" in report) == ({0},) * 2, report
    assert _XLAC._xla_tensors_report(50, "xla:0") == ""
    """
    child(INSTALL + code.format(False))
    child(INSTALL + code.format(True), env={"PJRT_DEVICE": "CPU", "XLA_IR_DEBUG": "1"})


def test_execution_that_is_not_allowed(child: Child) -> None:
    child(
        INSTALL
        + """
    x = torch.ones(2, device="xla") * 3
    _XLAC._set_allow_execution(False)
    try:
        x.tolist()
    except RuntimeError as error:
        assert "Unexpected execution happens inside the compiled function, exiting: strict(): reading this value" in str(error), error
    else:
        raise AssertionError("expected an error")
    _XLAC._set_allow_execution(True)
    assert x.tolist() == [3., 3.]
    with xla_go.strict():
        try:
            (x + 1).tolist()
        except RuntimeError as error:
            assert str(error).startswith("strict(): "), error
    """
    )
