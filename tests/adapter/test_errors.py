"""Errors keep their class on the way out of an operator, forward and backward."""

from __future__ import annotations

import pytest
import torch

import xla_go
from xla_go import errors

HUGE = 1 << 44  # elements; no device has that much memory


def test_the_classes_are_runtime_errors_with_codes() -> None:
    assert issubclass(errors.XlaError, RuntimeError)
    for code in range(1, 17):
        cls = errors.class_of_code(code)
        assert cls.code == code and issubclass(cls, errors.XlaError)
    assert errors.class_of_code(99) is errors.UnknownError
    error = errors.from_status("RESOURCE_EXHAUSTED", "no room")
    assert type(error) is errors.ResourceExhaustedError and error.code == 8 and str(error) == "no room"


def test_wrong_shapes_raise_as_torch_does() -> None:
    a, b = torch.ones(3, device="xla"), torch.ones(4, device="xla")
    with pytest.raises(RuntimeError, match=r"The size of tensor a \(3\) must match the size of tensor b \(4\)"):
        a + b
    with pytest.raises(RuntimeError, match=r"The size of tensor a \(3\) must match the size of tensor b \(4\)"):
        a.copy_(b)


def test_wrong_dtypes_raise_as_torch_does() -> None:
    integers, floats = torch.ones(3, dtype=torch.int64, device="xla"), torch.ones(3, device="xla")
    message = "result type Float can't be cast to the desired output type Long"
    with pytest.raises(RuntimeError, match=message):
        integers.add_(floats)
    with pytest.raises(RuntimeError, match=message):
        torch.add(floats, floats, out=torch.empty(3, dtype=torch.int64, device="xla"))
    assert integers.cpu().tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    "operation",
    [
        lambda d, c: d + c,
        lambda d, c: c + d,
        lambda d, c: d.mul_(c),
        lambda d, c: torch.cat([d, c]),
        lambda d, c: d.exp2() @ c,
    ],
)
def test_operands_on_two_devices_raise_as_torch_does(operation) -> None:  # type: ignore[no-untyped-def]
    d, c = torch.ones(3, 3, device="xla"), torch.ones(3, 3)
    with pytest.raises(
        RuntimeError,
        match="Expected all tensors to be on the same device, but found at least two devices, xla:0 and cpu!",
    ):
        operation(d, c)


def test_a_zero_dimensional_cpu_tensor_is_a_number() -> None:
    d = torch.ones(3, device="xla")
    assert (d * torch.tensor(2.5)).cpu().tolist() == [2.5] * 3
    assert (torch.tensor(2.5) - d).cpu().tolist() == [1.5] * 3
    assert (torch.ones(3, dtype=torch.int64, device="xla") * torch.tensor(2)).dtype == torch.int64
    assert (torch.ones(3, dtype=torch.bfloat16, device="xla") * torch.tensor(2.0)).dtype == torch.bfloat16


def test_a_device_that_is_not_there_raises() -> None:
    count = torch.xla.device_count()
    with pytest.raises(RuntimeError, match=f"expected a device from xla:0 to xla:{count - 1}, got xla:{count}"):
        torch.ones(1, device=f"xla:{count}")


def test_out_of_memory_has_its_class_at_every_read() -> None:
    x = torch.ones(HUGE, device="xla")
    other = torch.ones(3, device="xla") * 2
    for _ in range(2):
        with pytest.raises(errors.ResourceExhaustedError):
            x[0].item()
    xla_go.sync()
    assert other.cpu().tolist() == [2.0] * 3
    with pytest.raises(errors.ResourceExhaustedError):
        (x + 1)[3:5].cpu()
    del x
    assert torch.ones(3, device="xla").sum().item() == 3


def test_an_error_in_a_backward_keeps_its_class() -> None:
    class ReadsInBackward(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):  # type: ignore[no-untyped-def]
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):  # type: ignore[no-untyped-def]
            return gradient * torch.ones(HUGE, device="xla")[0].item()

    x = torch.ones(3, device="xla", requires_grad=True)
    loss = ReadsInBackward.apply(x).sum()
    with pytest.raises(errors.ResourceExhaustedError):
        loss.backward()
    (x * 2).sum().backward()
    assert x.grad.cpu().tolist() == [2.0] * 3


def test_an_index_error_in_a_backward_keeps_its_class() -> None:
    class Fails(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):  # type: ignore[no-untyped-def]
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):  # type: ignore[no-untyped-def]
            return gradient.sum(dim=7)

    loss = Fails.apply(torch.ones(3, device="xla", requires_grad=True)).sum()
    with pytest.raises(IndexError, match="Dimension out of range"):
        loss.backward()


def test_overlapping_writes_raise_as_on_the_cpu() -> None:
    x = torch.ones(4, device="xla")
    with pytest.raises(
        RuntimeError, match="more than one element of the written-to tensor refers to a single memory location"
    ):
        x[:1].expand(4).add_(1)
    with pytest.raises(
        RuntimeError,
        match="some elements of the input tensor and the written-to tensor refer to a single memory location",
    ):
        x[1:].add_(x[:-1])
    with pytest.raises(RuntimeError, match="more than one element"):
        x[:1].expand(4).copy_(torch.ones(4))


def test_a_failed_call_leaves_nothing_behind() -> None:
    a, b = torch.ones(3, device="xla"), torch.ones(4, device="xla")
    for _ in range(100):
        with pytest.raises(RuntimeError):
            a + b
    xla_go.sync(wait=True)
    assert (a + 1).cpu().tolist() == [2.0] * 3
