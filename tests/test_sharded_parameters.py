"""Parameters and optimizer states divided over replicas, and recurrent layers as loops. Each test runs in a process of its own."""

from __future__ import annotations

import pytest

from support import Child

pytestmark = pytest.mark.once

INSTALL = """
    import copy, functools, xla_go; xla_go.compat.install()
    import torch, torch_xla, torch_xla.runtime as xr, torch_xla.core.xla_model as xm
    close = functools.partial(torch.testing.assert_close, atol=1e-5, rtol=1e-5)

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = torch.nn.Linear(3, 5), torch.nn.Linear(5, 3, bias=False)
            self.scale = torch.nn.Parameter(torch.tensor(0.5))
            self.second.weight = torch.nn.Parameter(torch.linspace(-1, 1, 15).view(3, 5))
        def forward(self, x):
            return self.second(torch.tanh(self.first(x))) * self.scale

    torch.manual_seed(0)
    model = Net()
    data = torch.randn(2, 4, 3)  # a batch for each replica

    def reference(make, clip=None, steps=3):
        net = copy.deepcopy(model)
        optimizer = make(net.parameters())
        for _ in range(steps):
            optimizer.zero_grad()
            torch.stack([net(part).square().sum() for part in data]).mean().backward()
            if clip is not None:
                torch.nn.utils.clip_grad_norm_(net.parameters(), clip)
            optimizer.step()
        return {name: value.detach() for name, value in net.state_dict().items()}
"""


def test_each_replica_keeps_its_part_of_an_optimizers_state(child: Child) -> None:
    child(
        INSTALL
        + """
    from torch_xla.distributed.zero_redundancy_optimizer import ZeroRedundancyOptimizer
    def train(ordinal, clip):
        net = copy.deepcopy(model).to("xla")
        optimizer = ZeroRedundancyOptimizer(net.parameters(), torch.optim.Adam, lr=0.1, grad_clipping=clip is not None, max_norm=clip, save_master_weights=True)
        for _ in range(2):
            optimizer.zero_grad()
            net(data[ordinal].to("xla")).square().sum().backward()
            optimizer.step()
        saved = optimizer.state_dict()
        sizes = [tuple(one["exp_avg"].shape) for one in saved["base_state"].values()]
        fresh = copy.deepcopy(net)
        resumed = ZeroRedundancyOptimizer(fresh.parameters(), torch.optim.Adam, lr=0.7, grad_clipping=clip is not None, max_norm=clip)
        resumed.load_state_dict(copy.deepcopy(saved))
        resumed.zero_grad()
        fresh(data[ordinal].to("xla")).square().sum().backward()
        resumed.step()
        return sizes, [one.cpu() for one in fresh.state_dict().values()]
    for clip in (None, 0.1):
        expected = reference(functools.partial(torch.optim.Adam, lr=0.1), clip)
        for sizes, values in xla_go.distributed.launch(train, (clip,)):
            assert sorted(sizes) == sorted([(1,), (3, 3), (3,), (2, 5)]), sizes
            for value, (name, wanted) in zip(values, expected.items(), strict=True):
                close(value, wanted, msg=lambda text: f"{clip} {name}: {text}")
    """,
        env={"CPU_NUM_DEVICES": "2"},
    )


def test_a_module_divided_over_replicas_trains_as_the_whole_one(child: Child) -> None:
    child(
        INSTALL
        + """
    from torch_xla.distributed.fsdp import XlaFullyShardedDataParallel as FSDP
    from torch_xla.distributed.fsdp.wrap import always_wrap_policy
    def train(ordinal, free, policy):
        net = FSDP(copy.deepcopy(model), reshard_after_forward=free, auto_wrap_policy=policy)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        sizes = sorted(one.numel() for one in net.parameters())
        for _ in range(2):
            optimizer.zero_grad()
            net(data[ordinal].to("xla")).square().sum().backward()
            net.clip_grad_norm_(1.0)
            optimizer.step()
        program = xla_go.debug.graph(net(data[ordinal].to("xla")).sum()).ir
        return sizes, program, {name: value.cpu() for name, value in net.full_state_dict().items()}
    expected = reference(functools.partial(torch.optim.SGD, lr=0.1, momentum=0.9), 1.0, steps=2)
    for free, policy in ((True, always_wrap_policy), (False, None)):
        for sizes, program, values in xla_go.distributed.launch(train, (free, policy)):
            assert sizes == [1, 3, 8, 8], sizes  # halves of 1, 5, 15 and 15, filled up
            assert program.count("all_gather") >= 4
            assert values.keys() == expected.keys(), values.keys()
            for name, wanted in expected.items():
                close(values[name], wanted, msg=lambda text: f"{free} {policy} {name}: {text}")
        print("agrees", free, flush=True)
    """,
        env={"CPU_NUM_DEVICES": "2"},
    )


def test_values_are_gathered_again_for_the_backward_pass(child: Child) -> None:
    child(
        INSTALL
        + """
    from torch_xla.distributed.fsdp import XlaFullyShardedDataParallel as FSDP
    def gathers(ordinal, free):
        net = FSDP(torch.nn.Sequential(torch.nn.Linear(4, 4, bias=False), torch.nn.Linear(4, 4, bias=False)), reshard_after_forward=free)
        loss = net(torch.ones(2, 4, device="xla")).sum()
        loss.backward()
        return xla_go.debug.graph(loss, *[one.grad for one in net.parameters()]).ir.count(" = xla_go::all_gather")
    kept = set(xla_go.distributed.launch(gathers, (False,)))
    again = set(xla_go.distributed.launch(gathers, (True,)))
    assert kept == {2} and again == {3}, (kept, again)  # of the second layer, which gradients go through
    """,
        env={"CPU_NUM_DEVICES": "2"},
    )


def test_modules_without_values_get_them_when_they_are_divided(child: Child) -> None:
    child(
        INSTALL
        + """
    import pytest
    from torch_xla.distributed.fsdp import XlaFullyShardedDataParallel as FSDP
    net = FSDP(torch.nn.Linear(3, 2, device="meta"))
    assert {one.device.type for one in net.parameters()} == {"xla"}
    assert net.full_state_dict()["weight"].cpu().abs().max() <= 3 ** -0.5
    def init(module):
        module.to_empty(device="xla")
        torch.nn.init.constant_(module.weight, 2.0)
        torch.nn.init.zeros_(module.bias)
    net = FSDP(torch.nn.Linear(3, 2, device="meta"), param_init_fn=init, compute_dtype=torch.bfloat16, fp32_reduce_scatter=True)
    y = net(torch.ones(1, 3, device="xla"))
    assert y.dtype == torch.bfloat16 and y.tolist() == [[6.0, 6.0]]
    y.sum().backward()
    assert {one.grad.dtype for one in net.parameters()} == {torch.float32}
    class Bare(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.empty(2, device="meta"))
    with pytest.raises(ValueError, match="param_init_fn"):
        FSDP(Bare())
    """
    )


def test_a_recurrent_layer_is_one_loop_and_gives_what_torchs_gives(child: Child) -> None:
    child(
        INSTALL
        + """
    from torch_xla.experimental.gru import GRU
    assert torch.nn.GRU is GRU
    assert type(torch.nn.GRU(2, 3, bidirectional=True)) is GRU._orig and type(torch.nn.GRU(2, 3, 2, True, False, 0.5)) is GRU._orig
    for batch_first, bias, shape in ((False, True, (6, 2, 4)), (True, False, (2, 6, 4)), (False, True, (6, 4))):
        loop = torch.nn.GRU(4, 5, num_layers=2, bias=bias, batch_first=batch_first)
        whole = GRU._orig(4, 5, num_layers=2, bias=bias, batch_first=batch_first)
        whole.load_state_dict(loop.state_dict())
        loop = copy.deepcopy(loop).to("xla")
        x = torch.randn(shape, requires_grad=True)
        h = torch.randn((2, 5) if len(shape) == 2 else (2, 2, 5), requires_grad=True)
        given = [one.detach().to("xla").requires_grad_() for one in (x, h)]
        expected, found = whole(x, h), loop(*given)
        program = xla_go.debug.graph(found[0]).hlo
        assert program.count(" while(") == 2, program
        for result in (expected, found):
            (result[0].square().sum() + result[1].sin().sum()).backward()
        close(found[0].cpu(), expected[0]); close(found[1].cpu(), expected[1])
        for one, other in zip([*given, *loop.parameters()], [x, h, *whole.parameters()], strict=True):
            close(one.grad.cpu(), other.grad)
        close(loop(given[0])[0].cpu(), whole(x)[0])
    """
    )
