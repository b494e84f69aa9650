"""From a model to its program: torch.export gives a graph without side effects, which is traced on device xla."""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch.export.graph_signature import (
    ConstantArgument,
    InputKind,
    InputSpec,
    OutputKind,
    SymIntArgument,
    TensorArgument,
)
from torch.utils import _pytree as pytree

import xla_go
from xla_go import _adapter, _graph, _runtime, _step, errors
from xla_go.custom_call import custom_call
from xla_go.stablehlo import _arrays, _tree
from xla_go.stablehlo._weights import Array
from xla_go.stablehlo.program import FORMAT, VERSION, StableHLOProgram

# Of torch.export's inputs, those that are weights of the program.
_WEIGHTS = {InputKind.PARAMETER: "parameter", InputKind.BUFFER: "buffer", InputKind.CONSTANT_TENSOR: "constant"}
# They want operands that lie in memory in certain ways, as those on the CPU do and those of a device need not.
_VIEWS = (torch.ops.aten.view.default, torch.ops.aten._unsafe_view.default)
_PLAIN = (bool, int, float, str, type(None))


class _Function(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


def export(model: Any, args: Sequence[Any] | None, kwargs: Mapping[str, Any] | None, name: str, inline_weights: bool, custom_operators: Collection[str], inline_numbers: bool) -> StableHLOProgram:
    """See xla_go.stablehlo.export."""
    given, keywords = tuple(args or ()), dict(kwargs or {})
    if isinstance(model, torch.export.ExportedProgram):
        exported = model
        if args is None:
            if exported.example_inputs is None:
                raise ValueError("export(): expected args, or an ExportedProgram that has its example inputs")
            given, keywords = exported.example_inputs
            _refuse_dynamic(exported)
    else:
        if args is None:
            raise ValueError("export(): expected args, the inputs that the model is traced with")
        module = model if isinstance(model, torch.nn.Module) else _Function(model)
        exported = torch.export.export(module, *_distinct(given, keywords), strict=False)
    # Without any decompositions it only takes writes and views out of the graph.
    return _Trace(exported.run_decompositions({}), given, keywords, name, inline_weights, custom_operators, inline_numbers).program()


def _distinct(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Inputs of which none is the same tensor as another: torch.export takes those for one."""
    seen: set[int] = set()

    def copied(value: torch.Tensor) -> torch.Tensor:
        if id(value) in seen:
            return value.detach().clone().requires_grad_(value.requires_grad)
        seen.add(id(value))
        return value

    return pytree.tree_map_only(torch.Tensor, copied, (args, kwargs))


def _refuse_dynamic(exported: torch.export.ExportedProgram) -> None:
    for node in exported.graph.nodes:
        value = node.meta.get("val") if node.op == "placeholder" else None
        if isinstance(value, torch.Tensor) and not all(isinstance(size, int) for size in value.shape):
            raise errors.UnimplementedError(
                f"export(): expected inputs of fixed sizes, got {node.name} of {tuple(map(str, value.shape))}: give args, whose sizes the program is to have, and export once for each size"
            )


def on_device(graph: torch.fx.GraphModule, device: torch.device) -> torch.fx.GraphModule:
    """A copy of a graph whose operators make their tensors on a device, also those of the graphs in it."""

    def moved(value: Any) -> Any:
        return device if isinstance(value, torch.device) else value

    copied = copy.deepcopy(graph)
    for module in copied.modules():
        if isinstance(module, torch.fx.GraphModule):
            for node in module.graph.nodes:
                node.args = torch.fx.node.map_aggregate(node.args, moved)
                node.kwargs = torch.fx.node.map_aggregate(node.kwargs, moved)
                if node.target in _VIEWS:  # nothing is written to in such a graph
                    node.target = torch.ops.aten.reshape.default
                elif node.target is torch.ops.aten.as_strided.default:
                    _lay_out(node)
            module.recompile()
    return copied


def call_customs(graph: torch.fx.GraphModule, namespaces: Collection[str]) -> None:
    """Has operators of those namespaces be custom calls of their own names, which take the tensors among their arguments."""
    for module in graph.modules() if namespaces else ():
        if not isinstance(module, torch.fx.GraphModule):
            continue
        for node in module.graph.nodes:
            if isinstance(node.target, torch._ops.OpOverload) and node.target.namespace in namespaces:
                results = pytree.tree_leaves(node.meta["val"])
                shapes, dtypes = [tuple(result.shape) for result in results], [result.dtype for result in results]
                node.args = ([*node.all_input_nodes], str(node.target), shapes, dtypes)
                node.kwargs = {}
                node.target = custom_call if isinstance(node.meta["val"], (list, tuple)) else _one_custom_call
        module.recompile()


def _one_custom_call(inputs: Sequence[torch.Tensor], target: str, shapes: Sequence[Sequence[int]], dtypes: Sequence[torch.dtype]) -> torch.Tensor:
    return custom_call(inputs, target, shapes, dtypes)[0]


def _lay_out(node: torch.fx.Node) -> None:
    """Has the operand of as_strided lie in memory as it did when torch.export followed the model."""
    operand = node.args[0]
    assert isinstance(operand, torch.fx.Node)
    value = operand.meta["val"]
    with node.graph.inserting_before(node):
        laid_out = node.graph.call_function(_restrided, (operand, tuple(value.shape), value.stride(), value.storage_offset()))
    node.replace_input_with(operand, laid_out)


def _restrided(value: torch.Tensor, sizes: Sequence[int], strides: Sequence[int], offset: int) -> torch.Tensor:
    if value.stride() == tuple(strides) and value.storage_offset() == offset:
        return value
    reach = sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True)) + 1
    if offset or reach != value.numel():
        raise errors.UnimplementedError("export(): expected as_strided of a tensor that is all of its memory, got one of a part of it: use slices and views instead")
    return torch.empty(reach, dtype=value.dtype, device=value.device).as_strided(sizes, strides).copy_(value)


class _Trace:
    """One export: the graph's inputs, sorted into weights, tensors that a caller gives, and constants."""

    def __init__(
        self, exported: torch.export.ExportedProgram, args: tuple[Any, ...], kwargs: Mapping[str, Any], name: str, inline: bool, custom: Collection[str], numbers: bool
    ) -> None:
        self._exported, self._name, self._inline, self._custom, self._inline_numbers = exported, name, inline, custom, numbers
        self._signature = exported.graph_signature
        self._leaves = self._flattened(args, kwargs)
        self._weights: dict[str, Array] = {}  # by names, each storage once
        self._same: dict[tuple[Any, ...], str] = {}  # names of weights by where they lie
        self._recorded: list[tuple[str, Any]] = []  # of each tensor that is traced: kind, and a weight's name or a leaf's number
        self._tensors: list[torch.Tensor] = []  # on the device
        self._positions: dict[str, int] = {}  # of weights among the traced
        self._names: dict[int, str] = {}  # of leaves

    def _flattened(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
        wanted = self._exported.call_spec.in_spec
        order = list(self._in_structure()[1])
        if set(order) == set(kwargs):
            kwargs = {name: kwargs[name] for name in order}
        leaves, found = pytree.tree_flatten((args, dict(kwargs)))
        if found != wanted:
            raise ValueError(f"export(): expected inputs that are nested as the ExportedProgram's, {wanted}, got {found}")
        return leaves

    def _in_structure(self) -> Any:
        spec = self._exported.call_spec.in_spec
        return pytree.tree_unflatten(range(spec.num_leaves), spec)

    def program(self) -> StableHLOProgram:
        described = _tree.describe(self._in_structure())
        arguments = self._inputs()
        device = torch.device("xla", 0)
        graph = on_device(self._exported.graph_module, device)
        call_customs(graph, self._custom)
        for module in graph.modules():  # constants that are the graph's own
            for name, value in list(vars(module).items()):
                if isinstance(value, torch.Tensor):
                    setattr(module, name, self._constant(value))
            for name, value in list(module._buffers.items()):
                if value is not None:
                    module._buffers[name] = self._constant(value)
        trace = _record(graph, arguments, self._tensors, device)
        try:
            return self._written(trace, described)
        finally:
            _runtime.call("ExportEnd", trace["export"])

    def _constant(self, value: torch.Tensor) -> torch.Tensor:
        return self._weight(f"constant.{len(self._weights)}", value)

    def _weight(self, name: str, value: torch.Tensor) -> torch.Tensor:
        """The weight on the device, to trace with; weights that share memory are one."""
        place = (value.device, value.untyped_storage()._cdata, value.storage_offset(), value.shape, value.stride(), value.dtype)
        known = self._same.setdefault(place, name) if value.numel() else name
        if known not in self._weights:
            self._weights[known] = _arrays.of_tensor(value.detach().clone())  # the model may go on to change it
            self._positions[known] = len(self._tensors)
            self._record("weight", known, value)
        return self._tensors[self._positions[known]]

    def _record(self, kind: str, of: Any, value: torch.Tensor) -> torch.Tensor:
        tensor = value.detach().cpu().contiguous().to("xla")
        self._recorded.append((kind, of))
        self._tensors.append(tensor)
        return tensor

    def _inputs(self) -> list[Any]:
        """What the graph is called with."""
        arguments = []
        state = {**self._exported.state_dict, **self._exported.constants}
        leaf = 0
        for spec in self._signature.input_specs:
            if spec.kind in _WEIGHTS:
                assert spec.target is not None
                arguments.append(self._weight(spec.target, state[spec.target]))
            elif spec.kind == InputKind.USER_INPUT:
                arguments.append(self._input(spec, leaf))
                leaf += 1
            else:
                raise errors.UnimplementedError(f"export(): expected parameters, buffers, constants and inputs, got {spec.arg.name}: {spec.kind.name.lower()}")
        return arguments

    def _input(self, spec: InputSpec, leaf: int) -> Any:
        value = self._leaves[leaf]
        self._names[leaf] = spec.arg.name
        if isinstance(value, torch.Tensor):
            return self._record("input", leaf, value)
        if not isinstance(value, _PLAIN):
            raise errors.UnimplementedError(f"export(): expected tensors, numbers, text and None as inputs, got {spec.arg.name}: {type(value).__name__}")
        if isinstance(spec.arg, ConstantArgument) and value != spec.arg.value:
            raise ValueError(f"export(): expected {spec.arg.value!r} as input {spec.arg.name}, which torch.export was given, got {value!r}")
        return value

    def _results(self, given: list[Any]) -> tuple[list[dict[str, Any]], dict[int, Any], set[str]]:
        """The program's results, the outputs that are constants, and the weights that are changed."""
        results: list[dict[str, Any]] = []
        constants: dict[int, Any] = {}
        changed = set()
        output = 0
        by_name = {name: leaf for leaf, name in self._names.items()}
        for spec in self._signature.output_specs:
            if spec.kind == OutputKind.BUFFER_MUTATION or spec.kind.name == "PARAMETER_MUTATION":
                assert spec.target is not None
                changed.add(self._key(spec.target))
                results.append({"kind": "weight", "name": self._key(spec.target)})
            elif spec.kind == OutputKind.USER_INPUT_MUTATION:
                assert spec.target is not None
                results.append({"kind": "input", "name": spec.target, "input": by_name[spec.target]})
            elif spec.kind == OutputKind.USER_OUTPUT:
                if isinstance(spec.arg, TensorArgument):
                    results.append({"kind": "output", "name": f"output{output}", "output": output})
                elif isinstance(spec.arg, ConstantArgument) and isinstance(spec.arg.value, _PLAIN):
                    constants[output] = spec.arg.value
                elif isinstance(spec.arg, SymIntArgument):
                    constants[output] = given[len(self._signature.output_specs) - len(self._signature.user_outputs) + output]
                else:
                    raise errors.UnimplementedError(f"export(): expected tensors, numbers and None as outputs, got {spec.arg}")
                output += 1
            else:
                raise errors.UnimplementedError(f"export(): expected outputs and new values of buffers and inputs, got {spec.kind.name.lower()}")
        return results, constants, changed

    def _key(self, target: str) -> str:
        """The name under which a weight that may share its memory with others is kept."""
        state = {**self._exported.state_dict, **self._exported.constants}
        value = state[target]
        place = (value.device, value.untyped_storage()._cdata, value.storage_offset(), value.shape, value.stride(), value.dtype)
        return self._same.get(place, target)

    def _written(self, trace: dict[str, Any], inputs: Any) -> StableHLOProgram:
        results, constants, changed = self._results(trace["results"])
        arguments: list[dict[str, Any]] = []
        request = []
        kept: dict[str, Array] = {}
        for position, (kind, of) in enumerate(self._recorded):
            if kind == "weight":
                array, name = self._weights[of], of
                inline = self._inline and of not in changed
                if of in changed or (trace["used"][position] and not inline):
                    kept[of] = array
                if not trace["used"][position]:
                    continue
            else:
                array, name, inline = _described(self._leaves[of]), self._names[of], False
            about = {"kind": kind, "name": name, "element": array.element, "dimensions": list(array.dimensions)}
            if kind == "input":
                about["input"] = of
            if not inline:
                arguments.append(about)
            address = array.data.__array_interface__["data"][0] if inline else 0
            request.append({**about, "input": position, "inline": inline, "address": address})
        if trace["random"]:
            arguments.append({"kind": "generator", "name": "generator", "element": "u64", "dimensions": [2]})
        scalars = []
        for number, scalar in enumerate([] if self._inline_numbers else trace["scalars"]):
            scalars.append(f"number.{number}")
            kept[scalars[-1]] = _scalar(scalar["element"], scalar["value"])
            arguments.append({"kind": "weight", "name": scalars[-1], "element": scalar["element"], "dimensions": []})
        written = json.loads(_runtime.call("ExportWrite", trace["export"], json.dumps({"name": self._name, "arguments": request, "scalars": scalars or None})))
        module, hlo, text = (_runtime.take_bytes(written[part]) for part in ("module", "hlo", "stablehlo"))
        out_spec = self._exported.call_spec.out_spec
        leaves = [{"constant": constants[i]} if i in constants else {} for i in range(out_spec.num_leaves)]
        computed = []
        for result, value in zip(results, [value for value in trace["results"] if isinstance(value, torch.Tensor)], strict=True):
            result["element"], result["dimensions"] = _arrays.element_of(value.dtype), list(value.shape)
            if _has_elements(value):
                computed.append(result)
            elif result["kind"] == "output":  # nothing computes it
                leaves[result["output"]] = {"empty": {"element": result["element"], "dimensions": result["dimensions"]}}
        about = {
            "format": FORMAT, "version": VERSION, "name": self._name, "made_by": {"xla_go": xla_go.__version__, "torch": torch.__version__},
            "arguments": arguments, "results": computed, "drawn": trace["drawn"],
            "inputs": {"tree": inputs, "leaves": [self._leaf(i, value) for i, value in enumerate(self._leaves)]},
            "outputs": {"tree": _tree.describe(pytree.tree_unflatten(range(out_spec.num_leaves), out_spec)), "leaves": leaves},
        }  # fmt: skip
        return StableHLOProgram(text.decode(), hlo.decode(), module, about, kept)

    def _leaf(self, number: int, value: Any) -> dict[str, Any]:
        about: dict[str, Any] = {"name": self._names[number]}
        if not isinstance(value, torch.Tensor):
            about["constant"] = value
        return about


def _scalar(element: str, value: str) -> Array:
    """A number, of which there are the bytes in base64."""
    import numpy as np

    return Array(element, (), np.frombuffer(bytearray(base64.b64decode(value)), np.uint8))


def _has_elements(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.numel() > 0


def _described(value: torch.Tensor) -> Array:
    import numpy as np

    return Array(_arrays.element_of(value.dtype), tuple(value.shape), np.empty(0, np.uint8))


def _record(graph: torch.fx.GraphModule, arguments: Iterable[Any], tensors: list[torch.Tensor], device: torch.device) -> dict[str, Any]:
    """Traces a graph and gives what ExportTrace tells, with what it gives as "results"."""
    adapter = _adapter.load()
    mode, eager = adapter.fallback_mode(), _step.is_eager_mode()
    if eager:
        _step.eager_mode(False)
    recording = None
    xla_go.sync(cause="export()")  # what is pending is no part of the program
    try:
        with torch.no_grad():
            recording = adapter.record_begin(device.index, tensors)
            adapter.set_fallback_mode("error")
            outputs = list(graph(*arguments))
            # A result is a storage of its own, dense and row-major.
            results = [
                torch.empty(value.shape, dtype=value.dtype, device=device).copy_(value) if isinstance(value, torch.Tensor) else value
                for value in outputs
            ]
            outputs.clear()
            adapter.drain()  # what is dead is no part of the program
            storages = _graph.storages_of("export", [value for value in results if _has_elements(value)])
            trace: dict[str, Any] = json.loads(_runtime.call("ExportTrace", storages))
    except errors.UnavailableError as error:
        raise errors.FailedPreconditionError(f"export(): the program depends on more than its inputs: {error}") from None
    finally:
        adapter.set_fallback_mode(mode)
        if recording is not None:
            adapter.record_cancel(recording)
        if eager:
            _step.eager_mode(True)
    trace["results"] = results
    return trace
