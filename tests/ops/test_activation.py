"""Activation functions and their gradients on device xla, compared with torch's CPU kernels."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from oracle import check, check_error

NAN, INF = float("nan"), float("inf")
NEWEST = tuple(int(n) for n in torch.__version__.split(".")[:2]) >= (2, 15)
SPECIAL = [NAN, -0.0, 0.0, INF, -INF, 1.0, -1.0, 0.5, -0.5, 3.0, -3.0, 6.0, 1e-3, -1e-3, 25.0, -25.0, 2.0, -2.0]

FUNCTIONS = {
    "relu": F.relu,
    "relu6": F.relu6,
    "gelu": F.gelu,
    "gelu tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "mish": F.mish,
    "elu": F.elu,
    "elu alpha": lambda x: F.elu(x, 0.7),
    "selu": F.selu,
    "celu": lambda x: F.celu(x, 1.3),
    "leaky_relu": F.leaky_relu,
    "leaky_relu slope": lambda x: F.leaky_relu(x, -0.3),
    "hardtanh": lambda x: F.hardtanh(x, -0.5, 2.0),
    "hardswish": F.hardswish,
    "hardsigmoid": F.hardsigmoid,
    "hardshrink": F.hardshrink,
    "softshrink": F.softshrink,
    "softshrink lambda": lambda x: F.softshrink(x, 1.5),
    "softplus": F.softplus,
    "softplus beta": lambda x: F.softplus(x, beta=2.0, threshold=3.0),
    "logsigmoid": F.logsigmoid,
    "threshold": lambda x: F.threshold(x, 0.4, 7.0),
    "tanhshrink": F.tanhshrink,
    "softsign": F.softsign,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_values(name, dtype):
    # torch's vectorized gelu gives NaN for infinity.
    values = [v for v in SPECIAL if v != INF] if name == "gelu" else SPECIAL
    check(FUNCTIONS[name], torch.tensor(values, dtype=torch.float64).to(dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradient(name, dtype):
    generator = torch.Generator().manual_seed(5)
    x = torch.cat([torch.randn(3, 17, generator=generator, dtype=torch.float64) * 3, torch.tensor([SPECIAL[5:] + [0.0] * 4] * 3).double()], 1)
    # torch's f64 gradient of hardsigmoid has 1/6 in single precision.
    loose = name == "hardsigmoid" and dtype == torch.float64
    check(FUNCTIONS[name], x.to(dtype).requires_grad_(), tolerance=(1e-7, 1e-9) if loose else None)


@pytest.mark.parametrize("name", ["relu", "elu", "leaky_relu", "hardtanh", "threshold", "selu", "silu", "mish", "hardswish", "hardsigmoid"])
def test_in_place(name):
    arguments = {"threshold": (0.2, 3.0)}.get(name, ())

    def in_place(x):
        return getattr(F, name)(x * 1.5, *arguments, inplace=True)

    check(in_place, torch.linspace(-2, 2, 11).requires_grad_())


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_glu(dim):
    x = torch.linspace(-3, 3, 4 * 6 * 2, dtype=torch.float64).reshape(4, 6, 2)
    check(lambda x: F.glu(x, dim), x.requires_grad_())
    check(lambda x: F.glu(x, dim), x.detach().bfloat16().requires_grad_())


@pytest.mark.parametrize("parameters", [1, 3])
def test_prelu(parameters):
    x = torch.linspace(-3, 3, 2 * 3 * 5).reshape(2, 3, 5)
    check(F.prelu, x.requires_grad_(), torch.linspace(0.1, 0.6, parameters).requires_grad_())


@pytest.mark.parametrize("name", ["relu", "gelu", "silu", "elu", "softplus", "tanh"])
@pytest.mark.parametrize("size", [(), (0, 3), (1, 1)], ids=str)
def test_sizes(name, size):
    check(FUNCTIONS[name], torch.full(size, -0.4).requires_grad_())


def test_second_gradient():
    for name in ("sigmoid", "tanh", "silu", "gelu", "softplus", "relu"):
        f = FUNCTIONS[name]

        def slope(x, f=f):
            return torch.autograd.grad(f(x).sum(), x, create_graph=True)[0]

        check(slope, torch.linspace(-2, 2, 9, dtype=torch.float64).requires_grad_())


def test_complex():
    x = torch.tensor([1 + 2j, -0.5 - 1j, 0.3 + 0.1j])
    check(F.silu, x)
    for f in (torch.sigmoid, torch.tanh):
        check(f, x.clone().requires_grad_())


@pytest.mark.skipif(not NEWEST, reason="errors have the words and the class of the newest torch, whichever torch is installed")
def test_error_texts():
    for name in ("gelu", "silu", "mish", "elu", "leaky_relu", "softplus", "hardswish", "hardsigmoid", "hardshrink", "softshrink", "logsigmoid"):
        check_error(FUNCTIONS[name], torch.tensor([1, 2]))
    check_error(F.relu, torch.tensor([True]))
    check_error(F.relu, torch.tensor([1j]))
    check_error(F.hardtanh, torch.tensor([True]))
    check_error(F.glu, torch.ones(3))
    check_error(F.glu, torch.tensor(1.0))
    check_error(lambda x: F.glu(x, 3), torch.ones(4))
    check_error(lambda x: F.gelu(x, approximate="fast"), torch.ones(4))
    check_error(lambda x: F.softshrink(x, -1), torch.ones(4))
    check_error(lambda x: F.leaky_relu(x * 1, -0.1, inplace=True).sum().backward(), torch.ones(2, requires_grad=True))
    check_error(lambda x: F.elu(x * 1, -0.1, inplace=True).sum().backward(), torch.ones(2, requires_grad=True))
    check_error(F.prelu, torch.ones(2), torch.ones(1, dtype=torch.float64))
