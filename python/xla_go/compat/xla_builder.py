"""What `torch_xla.core.xla_builder` gives after `xla_go.compat.install()`.

An `Op` stands for a value of a computation that is being written, under XLA's names for operations. Here it holds a traced
tensor: what is done with it is done with that, and becomes part of the step's program as torch's own operators do. A
`Computation` is the function, called anew wherever it is used. Loops and branches are decided on the host, which reads their condition.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import torch
from torch.utils import _pytree as pytree

from xla_go.compat import graph_text, xlac
from xla_go.hlo_module import HloModule
from xla_go.jax_function import JaxFunction, configuration


class Type(str, enum.Enum):
    """XLA's names of element types."""

    F32, F64, BF16, F16 = "f32", "f64", "bf16", "f16"
    U8, S8, U16, S16, U32, S32, U64, S64 = "u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"
    C64, C128, PRED = "c64", "c128", "pred"

    def __str__(self) -> str:
        return self.value


_PT_XLA_TYPE_MAP = {
    torch.float32: Type.F32, torch.float64: Type.F64, torch.bfloat16: Type.BF16, torch.float16: Type.F16,
    torch.uint8: Type.U8, torch.int8: Type.S8, torch.uint16: Type.U16, torch.int16: Type.S16,
    torch.uint32: Type.U32, torch.int32: Type.S32, torch.uint64: Type.U64, torch.int64: Type.S64,
    torch.complex64: Type.C64, torch.complex128: Type.C128, torch.bool: Type.PRED,
}  # fmt: skip
_XLA_PT_TYPE_MAP = {name: dtype for dtype, name in _PT_XLA_TYPE_MAP.items()}


class Shape:
    """An element type and sizes, or a list of them for a tuple."""

    def __init__(self, shape: Any) -> None:
        self._shape = shape

    @classmethod
    def create(cls, dtype: Any, sizes: Sequence[int]) -> Shape:
        return cls({"type": str(dtype), "sizes": tuple(sizes)})

    @property
    def shape(self) -> Any:
        return self._shape

    def is_tuple(self) -> bool:
        return isinstance(self._shape, (list, tuple))

    def tuple_size(self) -> int:
        return len(self._shape)

    def tuple_shape(self, index: int) -> Any:
        return self._shape[index]

    def is_dynamic(self) -> bool:
        """False: sizes are fixed."""
        return False

    def as_scalar(self) -> Shape:
        return Shape.create(self.dtype, ())

    @property
    def rank(self) -> int:
        return len(self.sizes)

    @property
    def sizes(self) -> tuple[int, ...]:
        return self._shape["sizes"]

    @property
    def dtype(self) -> str:
        return self._shape["type"]


def _shape_of(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_shape_of(one) for one in value]
    return {"type": str(_PT_XLA_TYPE_MAP[value.dtype]), "sizes": tuple(value.shape)}


class Op:
    """A value: a tensor, or a tuple of them."""

    def __init__(self, op: Any) -> None:
        self.op = op

    def shape(self) -> Shape:
        return Shape(_shape_of(self.op))

    def builder(self) -> Builder:
        """What new values are made with; see `scalar`."""
        leaves = pytree.tree_leaves(self.op)
        return Builder(leaves[0].device if leaves else torch.device("xla"))

    # --- arithmetic ---

    def __add__(self, other: Op) -> Op:
        return Op(self.op + other.op)

    def __sub__(self, other: Op) -> Op:
        return Op(self.op - other.op)

    def __mul__(self, other: Op) -> Op:
        return Op(self.op * other.op)

    def __matmul__(self, other: Op) -> Op:
        return Op(self.op @ other.op)

    def __truediv__(self, other: Op) -> Op:
        whole = not (self.op.is_floating_point() or self.op.is_complex())
        return Op(torch.div(self.op, other.op, rounding_mode="trunc") if whole else self.op / other.op)

    def __pow__(self, other: Op) -> Op:
        return Op(self.op**other.op)

    def __mod__(self, other: Op) -> Op:
        return Op(torch.fmod(self.op, other.op))

    def __neg__(self) -> Op:
        return Op(-self.op)

    def __and__(self, other: Op) -> Op:
        return Op(self.op & other.op)

    def __or__(self, other: Op) -> Op:
        return Op(self.op | other.op)

    def __xor__(self, other: Op) -> Op:
        return Op(self.op ^ other.op)

    def __invert__(self) -> Op:
        return Op(~self.op)

    def __lshift__(self, other: Op) -> Op:
        return Op(self.op << other.op)

    def __rshift__(self, other: Op) -> Op:
        return Op(self.op >> other.op)

    def __lt__(self, other: Op) -> Op:
        return Op(self.op < other.op)

    def __le__(self, other: Op) -> Op:
        return Op(self.op <= other.op)

    def __gt__(self, other: Op) -> Op:
        return Op(self.op > other.op)

    def __ge__(self, other: Op) -> Op:
        return Op(self.op >= other.op)

    def __eq__(self, other: object) -> Any:
        return Op(self.op == other.op) if isinstance(other, Op) else NotImplemented

    def __ne__(self, other: object) -> Any:
        return Op(self.op != other.op) if isinstance(other, Op) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def max(self, other: Op) -> Op:
        return Op(torch.maximum(self.op, other.op))

    def min(self, other: Op) -> Op:
        return Op(torch.minimum(self.op, other.op))

    def atan2(self, other: Op) -> Op:
        return Op(torch.atan2(self.op, other.op))

    def clamp(self, min_value: Op, max_value: Op) -> Op:
        return Op(torch.clamp(self.op, min_value.op, max_value.op))

    def select(self, true_value: Op, false_value: Op) -> Op:
        return Op(torch.where(self.op, true_value.op, false_value.op))

    def dot(self, other: Op) -> Op:
        return Op(self.op @ other.op)

    # --- shapes ---

    def reshape(self, sizes: Sequence[int], dimensions: Sequence[int] | None = None, inferred_dimension: int | None = None) -> Op:
        ordered = self.op if dimensions is None else self.op.permute(*dimensions)
        return Op(ordered.reshape(tuple(sizes)))

    def transpose(self, permutation: Sequence[int]) -> Op:
        return Op(self.op.permute(*permutation))

    def rev(self, dimensions: Sequence[int]) -> Op:
        return Op(self.op.flip(tuple(dimensions)))

    def broadcast(self, sizes: Sequence[int]) -> Op:
        """With new dimensions before its own."""
        return Op(self.op.expand(*sizes, *self.op.shape))

    def broadcast_in_dim(self, sizes: Sequence[int], dimensions: Sequence[int]) -> Op:
        """Its dimensions become those of the result that are named, in order."""
        own = [1] * len(sizes)
        for position, dimension in enumerate(dimensions):
            own[dimension] = self.op.shape[position]
        return Op(self.op.reshape(own).expand(tuple(sizes)))

    def slice(self, start_indices: Sequence[int], limit_indices: Sequence[int], strides: Sequence[int] | None = None) -> Op:
        steps = strides or [1] * len(start_indices)
        return Op(self.op[tuple(slice(*bounds) for bounds in zip(start_indices, limit_indices, steps, strict=True))])

    def slice_in_dim(self, start_index: int, limit_index: int, dimno: int, stride: int = 1) -> Op:
        return Op(self.op[(slice(None),) * dimno + (slice(start_index, limit_index, stride),)])

    def get_dimension_size(self, dimension: int) -> Op:
        return Op(xlac._get_xla_tensor_dimension_size(self.op, dimension))

    # --- types ---

    def cast(self, to_type: Any) -> Op:
        return Op(self.op.to(Op.to_torch_type(to_type)))

    def bitcast(self, to_type: Any) -> Op:
        return Op(self.op.view(Op.to_torch_type(to_type)))

    @classmethod
    def to_torch_type(cls, dtype: Any) -> torch.dtype:
        """torch's type of an XLA type; float32 for None."""
        return torch.float32 if dtype is None else _XLA_PT_TYPE_MAP[Type(str(dtype))]

    @classmethod
    def from_torch_type(cls, dtype: torch.dtype) -> Type:
        return _PT_XLA_TYPE_MAP[dtype]

    # --- new values ---

    @classmethod
    def constant(cls, builder: Builder, value: torch.Tensor) -> Op:
        return cls(value.to(builder.device))

    @classmethod
    def scalar(cls, builder: Builder, value: Any, dtype: Any = None) -> Op:
        return cls(torch.tensor(value, dtype=cls.to_torch_type(dtype), device=builder.device))

    @classmethod
    def zero(cls, builder: Builder, dtype: Any = None) -> Op:
        return cls.scalar(builder, 0, dtype)

    @classmethod
    def one(cls, builder: Builder, dtype: Any = None) -> Op:
        return cls.scalar(builder, 1, dtype)

    @classmethod
    def iota(cls, builder: Builder, shape: Shape, iota_dimension: int) -> Op:
        """Counts along one dimension."""
        line = torch.arange(shape.sizes[iota_dimension], dtype=cls.to_torch_type(shape.dtype), device=builder.device)
        return cls(line).broadcast_in_dim(shape.sizes, [iota_dimension])

    def scalar_like(self, value: Any) -> Op:
        return Op(torch.full_like(self.op, value))

    def zeros_like(self) -> Op:
        return self.scalar_like(0)

    def ones_like(self) -> Op:
        return self.scalar_like(1)

    # --- tuples, branches and loops ---

    @classmethod
    def tuple(cls, ops: Sequence[Op], builder: Builder | None = None) -> Op:
        return cls(tuple(one.op for one in ops))

    def get_tuple_element(self, index: int) -> Op:
        return Op(self.op[index])

    @classmethod
    def concat_in_dim(cls, ops: Sequence[Op], dimension: int, builder: Builder | None = None) -> Op:
        return cls(torch.cat([one.op for one in ops], dimension))

    def conditional(self, true_operand: Op, false_operand: Op, true_computation: Any, false_computation: Any) -> Op:
        """One of two computations, chosen by a bool. BLOCKING until that is there."""
        chosen, operand = (true_computation, true_operand) if bool(self.op) else (false_computation, false_operand)
        return _called(chosen, operand)

    def mkconditional(self, ops: Sequence[Op], true_fn: Any, false_fn: Any, **keywords: Any) -> Op:
        operands = Op.tuple(ops)
        return self.conditional(operands, operands, true_fn, false_fn)

    def while_loop(self, condition_computation: Any, body_computation: Any) -> Op:
        """The body, again and again, for as long as the condition holds. BLOCKING for each round."""
        state = self
        while bool(_called(condition_computation, state).op):
            state = _called(body_computation, state)
        return state

    @classmethod
    def mkwhile(cls, ops: Sequence[Op], condition_fn: Any, body_fn: Any, **keywords: Any) -> Op:
        return Op.tuple(ops).while_loop(condition_fn, body_fn)

    def triangualr_solve(self, b: Op, left_side: bool | None = None, lower: bool | None = None, unit_diagonal: bool | None = None, transpose_a: bool | None = None) -> Op:
        """The solution of a triangular system. (The spelling is torch_xla's.)"""
        a, upper = (self.op.mT, bool(lower)) if transpose_a else (self.op, not lower)
        return Op(torch.linalg.solve_triangular(a, b.op, upper=upper, left=left_side is not False, unitriangular=bool(unit_diagonal)))

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"xla_go.compat: torch_xla.core.xla_builder.Op.{name} is not provided")


def _elementwise(function: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Op], Op]:
    return lambda self: Op(function(self.op))


for _name in ["acos", "asin", "atan", "ceil", "cos", "cosh", "erf", "erfc", "exp", "expm1", "floor", "log", "log1p", "sqrt", "rsqrt", "real", "imag", "conj", "sin", "sinh", "tan", "tanh", "abs", "sign"]:
    setattr(Op, _name, _elementwise(getattr(torch, _name)))


class Builder:
    """Where new values of a computation are."""

    def __init__(self, device: torch.device) -> None:
        self.device = device


class Computation:
    """A function of Ops that gives an Op, with the shapes of its arguments."""

    def __init__(self, name: str, function: Callable[..., Any], shapes: Sequence[Any], keywords: dict[str, Any]) -> None:
        self.name, self.shapes, self._function, self._keywords = name, [one if isinstance(one, Shape) else Shape(one) for one in shapes], function, keywords

    def __call__(self, *arguments: Op) -> Op:
        result = self._function(*arguments, **self._keywords)
        return Op.tuple(result) if isinstance(result, (list, tuple)) else result


class ModuleComputation:
    """A computation that is given as an HLO module; see xla_go.hlo_module. Of several results it gives a tuple."""

    def __init__(self, name: str, module: bytes) -> None:
        self.name, self.module = name, HloModule(module)

    def __call__(self, *arguments: Op) -> Op:
        tensors = [tensor for one in arguments for tensor in (one.op if isinstance(one.op, tuple) else (one.op,))]
        results = self.module(*tensors)
        return Op(results[0] if len(results) == 1 else tuple(results))


def computation_from_module_proto(name: str, proto: bytes) -> ModuleComputation:
    """The computation of a serialized HloModuleProto. InvalidArgumentError for bytes that are none."""
    return ModuleComputation(name, proto)


def xla_computation_as_func(computation: Computation | ModuleComputation, name: str | None = None) -> Callable[[Sequence[torch.Tensor]], list[torch.Tensor]]:
    """A computation as a function of a list of tensors, which gives a list of them."""
    return lambda tensors: xlac._xla_user_computation(name or computation.name, tensors, computation)


def _called(computation: Any, operand: Op) -> Op:
    """A computation or a function, with a tuple's elements as its arguments."""
    arguments = [Op(one) for one in operand.op] if isinstance(operand.op, tuple) else [operand]
    result = computation(*arguments)
    return Op.tuple(result) if isinstance(result, (list, tuple)) else result


def create_builder(name: str) -> Builder:
    """A builder of values on the first device."""
    return Builder(torch.device("xla"))


def create_computation(name: str, fn: Callable[..., Any], shapes: Sequence[Any], **kwargs: Any) -> Computation:
    """`fn` as a computation for arguments of those shapes; kwargs are handed to it."""
    return Computation(name, fn, shapes, kwargs)


def get_computation_hlo(computation: Computation | ModuleComputation) -> str:
    """The text of the HLO module of a computation."""
    if isinstance(computation, ModuleComputation):
        return graph_text.with_operand_types(computation.module.text())
    arguments = [xlac._xla_create_placeholder_tensor(one.sizes, Op.to_torch_type(one.dtype)) for one in computation.shapes]
    result = computation(*map(Op, arguments)).op
    return graph_text.computation_hlo(list(result) if isinstance(result, tuple) else [result])


def tensor_shape(tensor: Any, device: Any = "") -> Any:
    """The shape of a tensor, or those of several, as create_computation takes them."""
    if isinstance(tensor, (list, tuple)):
        return [tensor_shape(one) for one in tensor]
    return _shape_of(tensor)


def create_placeholder_tensor(shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    """A tensor to trace with, of which there is no value: reading it raises. Takes no device memory."""
    return xlac._xla_create_placeholder_tensor(shape, dtype)


class FlattenedInputFunc:
    """A function of nested arguments as one of a flat list: postprocess(flat_call(preprocess(arguments)))."""

    def __init__(self, original_func: Callable[..., Any]) -> None:
        self._function = original_func
        self._inputs: Any = None
        self._outputs: Any = None

    def preprocess(self, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> list[Any]:
        """The leaves of the arguments; their structure is kept."""
        leaves, self._inputs = pytree.tree_flatten((args, kwargs or {}))
        return leaves

    def flat_call(self, leaves: Sequence[Any]) -> list[Any]:
        """The leaves of what the function gives."""
        arguments, keywords = pytree.tree_unflatten(list(leaves), self._inputs)
        results, self._outputs = pytree.tree_flatten(self._function(*arguments, **keywords))
        return results

    def postprocess(self, results: Sequence[Any]) -> Any:
        """The results in the structure that the function gave them in."""
        return pytree.tree_unflatten(list(results), self._outputs)


class XlaCallable:
    """A function of Ops as one of tensors."""

    def __init__(self, python_callable: Callable[..., Any]) -> None:
        self._function = python_callable

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        arguments, keywords = pytree.tree_map_only(torch.Tensor, Op, (arguments, keywords))
        return pytree.tree_map_only(Op, lambda one: one.op, self._function(*arguments, **keywords))


# Functions that were lowered, and are kept: what has lowered each.
_JAX_TO_XLA_COMPUTATION_CACHE: dict[Any, Any] = {}


def _jax_to_xla_computation_cache_elements() -> int:
    """How many programs call_jax and assume_pure have lowered, of the functions that are kept."""
    return sum(len(one.programs) for one in _JAX_TO_XLA_COMPUTATION_CACHE.values())


def call_jax(
    jax_func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any] | None = None, name: str | None = None, override_hash: Any = None
) -> Any:
    """xla_go.jax_function.JaxFunction of jax_func, kept by the function, or by override_hash, and called. It has gradients, too."""
    key = (jax_func if override_hash is None else override_hash), configuration()
    if key not in _JAX_TO_XLA_COMPUTATION_CACHE:
        _JAX_TO_XLA_COMPUTATION_CACHE[key] = JaxFunction(jax_func)
    return _JAX_TO_XLA_COMPUTATION_CACHE[key](*args, **(kwargs or {}))


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(f"xla_go.compat: torch_xla.core.xla_builder.{name} is not provided")
