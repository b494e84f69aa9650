"""torch_xla's modules for tracing, sharded layers and products, by its names. Each test runs in a process of its own."""

from __future__ import annotations

from support import Child

INSTALL = """
    import pytest, xla_go; xla_go.compat.install()
    import torch, torch_xla, torch_xla.runtime as xr, torch_xla.core.xla_model as xm
    close = torch.testing.assert_close
"""


def test_pure_functions_are_traced_once_for_each_kind_of_arguments(child: Child) -> None:
    child(
        INSTALL
        + """
    from torch_xla.experimental.assume_pure import assume_pure, assume_pure_torch, PureModule
    calls = 0
    def product(a, b):
        global calls
        calls += 1
        return {"y": torch.sin(a @ b), "n": None}
    pure = assume_pure(product)
    for _ in range(3):
        a = torch.randn(3, 3, device="xla", requires_grad=True)
        b = torch.randn(3, 3, device="xla", requires_grad=True)
        pure(a, b)["y"].sum().backward()
        found = a.grad.cpu(), b.grad.cpu()
        once = calls
        a.grad = b.grad = None
        torch.sin(a @ b).sum().backward()
        close(found, (a.grad.cpu(), b.grad.cpu()))
    assert calls == once

    calls = 0
    cached = assume_pure_torch(product, use_cache=True)
    with torch.no_grad():
        for size in (2, 2, 3):
            x = torch.randn(size, size, device="xla")
            close(cached(x, x)["y"].cpu(), torch.sin(x @ x).cpu())
    assert calls == 2
    with pytest.raises(AssertionError):
        cached(x, x)

    layer = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Dropout(0.5)).to("xla")
    module = PureModule(layer)
    module(torch.ones(4, 3, device="xla")).sum().backward()
    assert layer[0].weight.grad.shape == (2, 3)
    first, second = module(torch.ones(4, 3, device="xla")), module(torch.ones(4, 3, device="xla"))
    assert first.ne(second).any().item()   # what is replayed draws new numbers

    import torch_xla.core.xla_builder as xb
    xb._JAX_TO_XLA_COMPUTATION_CACHE.clear()
    seeded = assume_pure(torch.rand_like, add_rng_seed_argument=True)
    x = torch.zeros(8, device="xla")
    assert seeded(x, rng_seed=1).equal(seeded(x, rng_seed=1)) and xb._jax_to_xla_computation_cache_elements() == 1
    with pytest.raises(AssertionError, match="rng_seed"):
        seeded(x)
    computation = xb.computation_from_module_proto("named", module._pure.programs[0].serialized)
    assert "dot" in xb.get_computation_hlo(computation)

    from torch_xla.experimental.mark_pattern_utils import StableHLOCompositeBuilder
    from torch_xla.experimental import xla_marker
    builder = StableHLOCompositeBuilder("test.part", {"scale": 2})
    marked = builder.mark_outputs(-builder.mark_inputs(x.requires_grad_()))
    marked = torch.ops.xla.mark_tensor(torch.ops.xla.mark_tensor(marked, "test.p", 0, "0", True) + 1, "test.p", 0, "0", False, xla_marker.serialize_composite_attr({"n": [1, 2]}))
    text = xm.get_stablehlo([marked])
    assert 'stablehlo.composite "test.part" ' in text and "{composite_attributes = {n = dense<[1, 2]> : tensor<2xi64>}" in text
    marked.sum().backward()
    assert x.grad.tolist() == [-1] * 8
    """
    )


def test_products_over_named_dimensions(child: Child) -> None:
    child(
        INSTALL
        + """
    product = torch_xla._XLAC._xla_dot_general
    x, w = torch.randn(5, 3, 4), torch.randn(5, 4, 2)
    close(product(x.to("xla"), w.to("xla"), (([2], [1]), ([0], [0]))).cpu(), x @ w)
    close(product(x.to("xla"), w.to("xla"), (([-1], [-2]), ([0], [0]))).cpu(), x @ w)
    close(product(x.to("xla"), w[0].to("xla"), (([2], [0]), ())).cpu(), x @ w[0])
    a, b = torch.full((2, 300), 100, dtype=torch.int8), torch.full((300, 2), 100, dtype=torch.int8)
    assert product(a.to("xla"), b.to("xla"), (([1], [0]), ()), preferred_element_type=torch.int32).tolist() == [[3_000_000] * 2] * 2
    with pytest.raises(RuntimeError, match="second argument"):
        product(x.to("xla"), w, (([2], [1]), ([0], [0])))
    """
    )


def test_runtime_names(child: Child) -> None:
    child(
        INSTALL
        + """
    import os
    from unittest import mock
    torch.ones(1, device="xla").cpu()
    with mock.patch.dict(os.environ, {"PJRT_DEVICE": "CPU"}):
        xr.set_device_type("CPU")
        with pytest.raises(RuntimeError, match="before the first device use"):
            xr.set_device_type("TPU")
    with mock.patch.dict(os.environ, {"PJRT_SELECT_DEFAULT_DEVICE": "0"}):
        os.environ.pop("PJRT_DEVICE", None)
        assert xr.device_type() is None
    with mock.patch.dict(os.environ, {"MASTER_ADDR": "there"}):
        assert xr.get_master_ip() == "there"
    assert torch_xla._XLAC._xla_get_all_devices() == ["CPU:0"] and torch_xla._XLAC._xla_runtime_is_initialized()
    """
    )


def test_linear_layers_without_reshapes(child: Child) -> None:
    child(
        INSTALL
        + """
    import copy, torch_xla.distributed.spmd as xs
    from torch_xla.distributed.spmd.xla_sharding import XLAPatchedLinear, apply_xla_patch_to_nn_linear
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh(), torch.nn.Linear(3, 2, bias=False)).to("xla")
    patched = apply_xla_patch_to_nn_linear(copy.deepcopy(model))
    assert patched.state_dict().keys() == model.state_dict().keys()
    xs.apply_backward_optimization_barrier(patched[2])
    gradients = []
    for one in (model, patched):
        x = torch.arange(24., device="xla").reshape(2, 3, 4).requires_grad_()
        y = one(x)
        y.square().sum().backward()
        assert ("opt-barrier" in xla_go.debug.graph(x.grad).hlo) == (one is patched)
        gradients.append([y.detach().cpu(), x.grad.cpu(), *(p.grad.cpu() for p in one.parameters())])
    for found, wanted in zip(*gradients):
        close(found, wanted)
    """
    )


def test_what_is_used_of_the_dynamo_bridge(child: Child) -> None:
    child(
        INSTALL
        + """
    from torch_xla._dynamo.dynamo_bridge import GraphInputMatcher, NoneRemover, extract_compiled_graph
    import torch_xla.core.dynamo_bridge
    remover = NoneRemover()
    values = ["a", None, "b", None]
    assert remover.remove_nones(values) is values and values == ["a", "b"] and remover.none_poslist == [1, 3]
    assert remover.add_nones(("a", "b")) == ("a", None, "b", None)
    matcher = GraphInputMatcher({7: 1}, [5, 7], ["weight", "first"], {7})
    assert matcher.graph_input_xla_values == ["weight", None] and matcher(("x", "y")) == ["weight", "y"]
    x = torch.ones(2, device="xla")
    compiled = torch.compile(lambda x: x * 2 + 1, backend="openxla")
    assert compiled(x).tolist() == [3., 3.]
    """
    )


def test_attention_that_is_a_kernel_elsewhere_is_products_here(child: Child) -> None:
    child(
        INSTALL
        + """
    from torch_xla.experimental.custom_kernel import flash_attention
    q, k, v = (torch.randn(2, 3, 4, 8) for _ in range(3))
    segments, bias = torch.tensor([[0, 0, 1, 1], [0, 1, 1, 1]]), torch.randn(2, 3, 4, 4)
    scores = q @ k.mT * 0.5 + bias
    hidden = ~torch.ones(4, 4, dtype=torch.bool).tril() | (segments[:, None, :, None] != segments[:, None, None, :])
    expected = scores.masked_fill(hidden, float("-inf")).softmax(-1) @ v
    given = [one.to("xla").requires_grad_() for one in (q, k, v)]
    ids = segments.to("xla")
    found = flash_attention(*given, causal=True, q_segment_ids=ids, kv_segment_ids=ids, sm_scale=0.5, ab=bias.to("xla"))
    close(found.cpu(), expected, atol=1e-5, rtol=1e-5)
    found.sum().backward()
    close(given[2].grad.sum().cpu(), torch.tensor(float(found.shape.numel())), atol=1e-3, rtol=1e-4)
    plain = flash_attention(*given)
    close(plain.cpu(), (q @ k.mT).softmax(-1) @ v, atol=1e-5, rtol=1e-5)
    with pytest.raises(ValueError, match="one of them"):
        flash_attention(*given, q_segment_ids=ids)
    with pytest.raises(ValueError, match="mesh"):
        flash_attention(*given, partition_spec=("fsdp", None, None, None))
    """
    )


def test_classes_may_be_floats_on_the_device(child: Child) -> None:
    child(
        INSTALL
        + """
    x, classes = torch.randn(4, 3), torch.tensor([0, 2, 1, 1])
    expected = torch.nn.functional.cross_entropy(x, classes)
    found = torch.nn.CrossEntropyLoss()(x.to("xla"), classes.float().to("xla"))
    close(found.cpu(), expected)
    shares = torch.rand(4, 3)
    close(torch.nn.functional.cross_entropy(x.to("xla"), shares.to("xla")).cpu(), torch.nn.functional.cross_entropy(x, shares))
    with pytest.raises(RuntimeError):
        torch.nn.functional.cross_entropy(x, classes.float())
    """
    )
