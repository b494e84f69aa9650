"""What `torch_xla._XLAC` is after `xla_go.compat.install()`: those of its functions that have a counterpart in xla_go."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NoReturn

import torch

import xla_go
from xla_go import _adapter, _runtime, debug, errors, metrics, runtime, spmd
from xla_go.compat import cached_graph, graph_text
from xla_go.custom_call import custom_call
from xla_go.spmd._tensor import sharding as _sharding_of

_get_xla_tensors_text = graph_text.tensors_text
_get_xla_tensors_hlo = graph_text.tensors_hlo
_get_xla_tensors_dot = graph_text.tensors_dot
_get_xla_tensor_debug_info = graph_text.tensor_information
_get_graph_hash = graph_text.graph_hash


# --- values -----------------------------------------------------------------------------------


def _set_buffer_donation(tensor: torch.Tensor, should_donate: bool) -> bool:
    """xla_go.runtime.set_buffer_donation(release=True): the tensor loses its value to the next step that reads it."""
    done = runtime.set_buffer_donation(tensor, should_donate, release=True)
    if done:
        _runtime.perform("AddToCounter", "XlaSetBufferDonation", 1)
    return done


def _donate_in_graph(tensor: torch.Tensor, should_donate: bool) -> torch.Tensor:
    """`_set_buffer_donation` as an operator, which a graph of torch.compile can hold: what it asks for is asked at each call.

    The result is a copy, as torch lets no operator of this schema return its argument; one that nobody reads is never made.
    """
    copy = tensor.clone()
    _set_buffer_donation(tensor, should_donate)
    return copy


_operators = torch.library.Library("xla", "FRAGMENT")
_operators.define("dynamo_set_buffer_donor_(Tensor t, bool should_donate) -> Tensor")
_operators.impl("dynamo_set_buffer_donor_", _donate_in_graph, "XLA")
_operators.impl("dynamo_set_buffer_donor_", lambda tensor, should_donate: tensor.clone(), "CompositeExplicitAutograd")
torch.fx.node.has_side_effect(torch.ops.xla.dynamo_set_buffer_donor_.default)  # compiled graphs keep it though nothing reads its result


def _xla_set_enable_alias_with_buffer_donor_config(should_alias: bool) -> None:
    """Whether donations that were asked for are heeded. They always are here: False raises UnimplementedError."""
    if not should_alias:
        raise errors.UnimplementedError("_xla_set_enable_alias_with_buffer_donor_config(): expected True: what was asked for with _set_buffer_donation is always heeded")


def _xla_get_enable_alias_with_buffer_donor_config() -> bool:
    """True; see _xla_set_enable_alias_with_buffer_donor_config."""
    return True


def _get_buffer_donation(tensor: torch.Tensor) -> bool:
    """xla_go.runtime.get_buffer_donation."""
    return runtime.get_buffer_donation(tensor)


def _known_storage(tensor: torch.Tensor) -> int:
    """The id of the tensor's storage, which the runtime has seen afterwards."""
    _adapter.load()
    if tensor.device.type != "xla":
        raise ValueError(f"expected a tensor on device xla, got one on {tensor.device}")
    if not _adapter.storage_id(tensor):
        tensor.view_as(tensor).copy_(tensor)  # what it holds already
    return _adapter.storage_id(tensor)


def _xla_get_tensor_id(tensor: torch.Tensor) -> int:
    """A number of the tensor's storage, of no other one's in this process."""
    return _known_storage(tensor)


def _get_tensors_handle(tensors: Sequence[torch.Tensor]) -> list[int]:
    """A number of the device data that each tensor holds; tensors that share it have one. RuntimeError for a pending one."""
    if any(graph_text.state(one) == "deleted" for one in tensors):
        raise RuntimeError("_get_tensors_handle(): expected tensors with data on the device, got one whose buffer is deleted: a step has reused it, as _set_buffer_donation said")
    handles = [_runtime.call("ValueNumber", _known_storage(tensor)) for tensor in tensors]
    for tensor, handle in zip(tensors, handles, strict=True):
        if not handle:
            raise RuntimeError(f"_get_tensors_handle(): expected tensors with data on the device, got a pending one of shape {tuple(tensor.shape)}: call torch_xla.sync() first")
    return handles


def _check_tensor_need_materialization(tensors: Sequence[torch.Tensor]) -> list[bool]:
    """Which of the tensors a graph has still to compute."""
    return cached_graph.need_materialization(tensors)


def _get_tensors_xla_device_data_node(tensors: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor] = ()) -> tuple[list[int], list[torch.Tensor]]:
    """The values in device memory that the tensors' program takes: ids of tensors that hold them, and tensors of them. Nothing is run.

    A value that one of `inputs` holds comes as that tensor. Scalars and random states are not among them.
    """
    numbers, values = cached_graph.device_data(tensors)
    given = {_known_storage(one): one for one in inputs if one.device.type == "xla"}
    return numbers, [given.get(number, value) for number, value in zip(numbers, values, strict=True)]


def _get_seed_info_id() -> int:
    """torch_xla's id of the random state among the values of _get_tensors_xla_device_data_node, where it never is here."""
    return cached_graph.SEED_NUMBER


def _get_base_seed_as_tensor(device: str = "") -> torch.Tensor:
    """The seed of a device's random numbers, on that device."""
    where = torch.device(device) if device else xla_go.device()
    adapter = _adapter.load()
    adapter.device_count()
    seed = adapter.get_rng_state(where.index or 0)[0]
    return torch.tensor(seed - 2**64 if seed >= 2**63 else seed, dtype=torch.int64, device=where)


def _xla_warm_up_cache(tensors: Sequence[torch.Tensor], devices: Sequence[str] = ()) -> None:
    """Compiles the program of those of the tensors that are pending, for _run_cached_graph. It is not run. BLOCKING."""
    cached_graph.warm_up(tensors)


def _run_cached_graph(hash: bytes, graph_inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """What the pending ones of the tensors with that _get_graph_hash are for other inputs, in _get_tensors_xla_device_data_node's order.

    They are those that _xla_warm_up_cache was called with; KeyError for others. Random numbers are those of then.
    """
    return cached_graph.run(hash, graph_inputs)


def _clear_pending_irs(device: str = "") -> None:
    """Forgets what is pending on a device: tensors that were written to in place are what they were, new ones have no value."""
    _adapter.load()
    _runtime.call("AbandonPending", torch.device(device or "xla").index or 0)


def _is_placecholder(tensor: torch.Tensor) -> bool:
    """Whether the tensor's data has no value. (The spelling is torch_xla's.)"""
    return graph_text.state(tensor) in ("placeholder", "deleted")


def _xla_create_placeholder_tensor(shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    """A tensor to trace with, of which there is no value: reading it raises FailedPreconditionError. Takes no device memory."""
    from xla_go._torch_dlpack import _ELEMENTS
    from xla_go.client.device import devices

    tensor = torch.empty(tuple(shape), dtype=dtype, device=xla_go.device())
    storage = _known_storage(tensor)
    handle = _runtime.call("Placeholder", _ELEMENTS[dtype], ",".join(map(str, shape)), devices()[tensor.device.index or 0], "")
    try:
        _runtime.call("AdoptData", storage, handle)
    except BaseException:
        _runtime.native().close_data(handle)
        raise
    return tensor


def _unsafe_buffer_pointer(tensor: torch.Tensor) -> int:
    """Address of the tensor's first element in device memory. BLOCKING until its value is there."""
    runtime.wait_device_ops()
    address = _adapter.buffer_pointer(tensor)
    if not address:
        xla_go.sync(wait=True)
        address = _adapter.buffer_pointer(tensor)
    if not address:
        raise errors.FailedPreconditionError("_unsafe_buffer_pointer(): expected a tensor with a value in device memory, got one without")
    return address


def _get_xla_tensor_shape_type(tensor: torch.Tensor) -> str:
    """The element type of the value that the device has, or computes, for a tensor, as HLO writes it."""
    return graph_text.element_type(tensor)


def _xla_tensors_from_aten(tensors: Sequence[torch.Tensor], devices: Sequence[str], shardings: Any = None) -> list[torch.Tensor]:
    """The tensors on those devices."""
    return [tensor.to(device) for tensor, device in zip(tensors, devices, strict=True)]


def _xla_get_cpu_tensors(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Copies in host memory. BLOCKING."""
    return [tensor.cpu() for tensor in tensors]


def _get_xla_tensor_dimension_size(tensor: torch.Tensor, dim: int) -> torch.Tensor:
    """The size of a dimension, as a tensor on the device. Sizes are fixed there."""
    return torch.tensor(tensor.shape[dim], dtype=torch.int32, device=tensor.device)


def _xla_user_computation(name: str, inputs: Sequence[torch.Tensor], computation: Any) -> list[torch.Tensor]:
    """The results of a computation of xla_builder, traced with these tensors."""
    from xla_go.compat.xla_builder import Op

    result = computation(*map(Op, inputs)).op
    return list(result) if isinstance(result, tuple) else [result]


# --- steps ------------------------------------------------------------------------------------


def _xla_sync_multi(tensors: Sequence[torch.Tensor], devices: Sequence[str] = (), wait: bool = True, sync_xla_data: bool = True) -> None:
    """Runs what these tensors need; what else is pending stays so. BLOCKING with `wait`."""
    _adapter.load()
    cached_graph.sync_only(tensors, wait, "_xla_sync_multi()")


def _xla_step_marker(device: str = "", devices: Sequence[str] = (), wait: bool = False, reset_scope: bool = True) -> None:
    """xla_go.sync."""
    xla_go.sync(wait, cause="_xla_step_marker()")


def _xla_wait_device_ops(devices: Sequence[str] = ()) -> None:
    """xla_go.runtime.wait_device_ops. BLOCKING."""
    runtime.wait_device_ops(list(devices) or None)


def _set_use_eager_mode(use_eager_mode: bool) -> None:
    """xla_go.eager_mode."""
    xla_go.eager_mode(use_eager_mode)


def _get_use_eager_mode() -> bool:
    """xla_go.is_eager_mode."""
    return xla_go.is_eager_mode()


_xla_set_mat_mul_precision = runtime.set_matmul_precision
_xla_get_mat_mul_precision = runtime.get_matmul_precision


def _set_allow_execution(allow: bool) -> None:
    """With False a read that would end the graph raises, and so does a step that would compile; see xla_go.strict."""
    global _refusing
    if _refusing is not None and allow:
        refusing, _refusing = _refusing, None
        _runtime.call("StrictSays", "")
        refusing.__exit__(None, None, None)
    elif _refusing is None and not allow:
        refusing = xla_go.strict()
        refusing.__enter__()
        _runtime.call("StrictSays", "Unexpected execution happens inside the compiled function, exiting")
        _refusing = refusing


_refusing: AbstractContextManager[None] | None = None


# --- devices ----------------------------------------------------------------------------------


def _init_xla_lazy_backend() -> None:
    """Has torch know the device's operators, where it does not yet; RegisterXLAFunctions counts the one time."""
    global _registered
    _adapter.load()
    if not _registered:
        _registered = True
        _runtime.perform("AddToCounter", "RegisterXLAFunctions", 1)


_registered = False


def _init_computation_client() -> None:
    """Starts the runtime, where it has not been. BLOCKING."""
    _runtime.initialize()


def _xla_real_devices(devices: Sequence[str] | None = None) -> list[str]:
    """The runtime's names of the xla devices, of all of this process by default."""
    indices = range(runtime.addressable_runtime_device_count()) if not devices else [torch.device(device).index or 0 for device in devices]
    return [runtime.runtime_device_attributes(index)["name"] for index in indices]


def _xla_get_default_device() -> str:
    """The name of the first xla device."""
    return str(xla_go.device(0))


def _xla_get_devices() -> list[str]:
    """The runtime's names of this process's devices."""
    return _xla_real_devices()


def _xla_num_devices() -> int:
    """Number of this process's devices."""
    return runtime.addressable_runtime_device_count()


def _xla_memory_info(device: str) -> dict[str, Any]:
    """xla_go.runtime.memory_info."""
    return runtime.memory_info(device)


def _xla_set_rng_seed(seed: int, device: str = "") -> None:
    """xla_go.manual_seed."""
    xla_go.manual_seed(seed)


# --- metrics and debugging --------------------------------------------------------------------


def _xla_metrics_report() -> str:
    return metrics.metrics_report()


def _short_xla_metrics_report(counter_names: Sequence[str], metric_names: Sequence[str]) -> str:
    return metrics.short_metrics_report(list(counter_names), list(metric_names))


_xla_counter_names = metrics.counter_names
_xla_counter_value = metrics.counter_value
_xla_metric_names = metrics.metric_names
_xla_metric_data = metrics.metric_data
_clear_xla_counters = metrics.clear_counters
_clear_xla_metrics = metrics.clear_metrics
_get_executed_fallback_ops = metrics.executed_fallback_ops


def _xla_increment_counter(name: str, value: int) -> None:
    """Adds to a counter, which need not be there before."""
    _runtime.perform("AddToCounter", name, value)


def _set_ir_debug(enable: bool) -> None:
    """xla_go.debug.record_stacks."""
    debug.record_stacks(enable)


def _get_ir_debug() -> bool:
    """Whether stacks are recorded."""
    recording = debug.record_stacks(False)
    debug.record_stacks(recording)
    return recording


def _xla_tensors_report(nodes_threshold: int, device: str) -> str:
    """What is live on a device, of more nodes than the threshold: the program of all that is pending, and, as a node each, the values

    that tensors hold, with the lines and scopes that made them where those were recorded (XLA_IR_DEBUG).
    """
    number = torch.device(device).index or 0
    text = debug.graph(device=number).ir
    parts = [text] if len(text.splitlines()) > nodes_threshold else []
    for held in json.loads(_runtime.call("LiveBuffers")) if nodes_threshold < 1 else ():
        if held["device"] == number:
            frames = "".join(f"\n  {line}" for line in held["made_at"].split(" < ") if line)
            parts.append(f"[{held['shape']} of storage {held['storage']}]" + (f"\nFrames:{frames}" if frames else ""))
    return "\n".join(parts)


def _get_git_revs() -> dict[str, str]:
    """The release of xla_go, and torch's revision."""
    return {"xla": xla_go.__version__, "torch": torch.version.git_version}


# --- sharding ---------------------------------------------------------------------------------


def _get_xla_sharding_spec(tensor: torch.Tensor) -> str:
    """How a tensor lies over the devices, as HLO's text writes it; "" where nobody has said it and no program has made it."""
    lies = _sharding_of(spmd.unwrap_sharded_tensor(tensor.detach()))
    return lies.text or lies.value


def _get_xla_sharding_type(tensor: torch.Tensor) -> spmd.ShardingType | None:
    """The kind of `_get_xla_sharding_spec`, None for ""."""
    return spmd.ShardingType.of(_get_xla_sharding_spec(tensor))


def _global_tensor_from_cpu_shards(shards: Sequence[torch.Tensor], sharding: bytes, global_shape: Sequence[int] | None = None) -> torch.Tensor:
    """xla_go.spmd.from_shards. sharding is what Mesh.get_op_sharding gives."""
    return spmd.from_shards(shards, sharding, global_shape)


def _xla_custom_call(
    inputs: Sequence[torch.Tensor],
    target: str,
    output_shapes: Sequence[Sequence[int]],
    output_dtypes: Sequence[torch.dtype],
    has_side_effect: bool,
    backend_config: str,
    api_version: int,
    frontend_attributes: Mapping[str, str],
) -> list[torch.Tensor]:
    """xla_go.custom_call.custom_call."""
    return custom_call(
        inputs, target, output_shapes, output_dtypes,
        side_effect=has_side_effect, configuration=backend_config, api_version=api_version, attributes=frontend_attributes,
    )  # fmt: skip


def _xla_dot_general(
    lhs: torch.Tensor, rhs: torch.Tensor, dimension_numbers: Any, precision_config: str | None = None, preferred_element_type: torch.dtype | None = None
) -> torch.Tensor:
    """The product of two tensors over ((contracted of lhs, of rhs), (batch of lhs, of rhs)) in a type of its own.

    Dimensions come as batch, lhs, rhs. Integers are added up in preferred_element_type.
    """
    for name, tensor in (("first", lhs), ("second", rhs)):
        if tensor.device.type != "xla":
            kind = tensor.type().replace("torch.", "CPU").replace("Tensor", "Type")
            raise RuntimeError(
                f"Expected input tensor ({name} argument) to be an actual XLA tensor. Got: {kind}. Consider moving it ({name} argument) to XLA."
            )
    contracted, batch = dimension_numbers[0], dimension_numbers[1] or ((), ())
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    left, right = [""] * lhs.dim(), [""] * rhs.dim()
    shared = [next(letters) for _ in batch[0]]
    for names, pairs in ((shared, batch), ([next(letters) for _ in contracted[0]], contracted)):
        for letter, i, j in zip(names, pairs[0], pairs[1], strict=True):
            left[i] = right[j] = letter
    result = "".join(shared)
    for side in (left, right):
        for place, letter in enumerate(side):
            if not letter:
                side[place] = next(letters)
                result += side[place]
    equation = f"{''.join(left)},{''.join(right)}->{result}"
    kind = preferred_element_type or torch.promote_types(lhs.dtype, rhs.dtype)
    return torch.einsum(equation, lhs.to(kind), rhs.to(kind))


def _xla_runtime_is_initialized() -> bool:
    """Whether the runtime has started."""
    return _runtime.started()


def _xla_get_all_devices() -> list[str]:
    """The xla devices of all processes."""
    return [f"{runtime.device_type()}:{number}" for number in range(runtime.global_device_count())]


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(f"xla_go.compat: torch_xla._XLAC.{name} is not provided")
