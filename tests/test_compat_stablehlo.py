"""torch_xla.stablehlo's names over xla_go.stablehlo."""

from __future__ import annotations

from support import Child

CODE = """
    import re, tempfile
    import torch, xla_go
    xla_go.compat.install()
    import torch_xla
    import torch_xla.core.xla_model as xm
    from torch_xla.stablehlo import StableHLOExportOptions, StableHLOGraphModule, exported_program_to_stablehlo

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh()).eval()
    x = torch.randn(2, 3)
    want = model(x).detach()
    exported = torch.export.export(model, (x,))
    program = exported_program_to_stablehlo(exported)
    torch.testing.assert_close(program(x), want)
    torch.testing.assert_close(program.evaluate("forward", (x.to("xla"),)).cpu(), want)
    assert set(program._bundle.state_dict) == {"0.weight", "0.bias"}
    assert re.search(r"= stablehlo.tanh %\\d+ : tensor<2x4xf32>\\n", program.get_stablehlo_text())
    with xla_go.client.compile(program.get_stablehlo_text()) as computation:
        assert computation.parameters == ["f32[4,3]", "f32[4]", "f32[2,3]"]

    with tempfile.TemporaryDirectory() as directory:
        torch_xla.save_as_stablehlo(exported, directory)
        torch.testing.assert_close(StableHLOGraphModule.load(directory)(x), want)
        torch_xla.save_torch_model_as_stablehlo(model, (x,), directory, StableHLOExportOptions(save_weights=False))
        loaded = StableHLOGraphModule.load(directory)
        assert loaded._bundle.state_dict == {}
        try:
            loaded(x)
        except xla_go.errors.FailedPreconditionError as error:
            assert "give them by set_weights()" in str(error)
        loaded.program.set_weights(model.state_dict())
        torch.testing.assert_close(loaded(x), want)
        for wrong in ({"0.weight": x}, {"other": x}):
            try:
                loaded.program.set_weights(wrong)
            except ValueError as error:
                print("refused", str(error)[:33])

    assert exported_program_to_stablehlo(exported, StableHLOExportOptions(export_weights=False))._bundle.state_dict == {}
    y = torch.ones(5, device="xla") * torch.full((5,), 3.0, device="xla") + x.to("xla").sum()
    assert re.search(r"stablehlo.add .* : tensor<5xf32>", xm.get_stablehlo([y])) and "tensor<2x4xf32>" not in xm.get_stablehlo([y])
    assert "stablehlo.add" in xm.get_stablehlo()
    for function, *arguments in [(xm.get_stablehlo_bytecode, [y]), (program.get_stablehlo_bytecode,),
                                 (exported_program_to_stablehlo, exported, StableHLOExportOptions(export_node_metadata=True))]:
        try:
            function(*arguments)
        except xla_go.errors.UnimplementedError as error:
            print("unimplemented", str(error).partition("(")[0].partition(":")[0])
"""

SHOWN = """\
refused set_weights(): expected weight 0.
refused set_weights(): expected weights a
unimplemented torch_xla.core.xla_model.get_stablehlo_bytecode
unimplemented get_stablehlo_bytecode
unimplemented StableHLOExportOptions.export_node_metadata
"""


def test_names_of_torch_xla(child: Child) -> None:
    assert child(CODE).stdout == SHOWN
