"""Traced programs in the layout of torch_xla's debugging functions, from what `xla_go.debug.graph` gives."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

import torch

from xla_go import _adapter, _runtime, debug, runtime
from xla_go._torch_dlpack import _ELEMENTS
from xla_go.spmd._tensor import sharding

_NODE = re.compile(r"%(\d+) = ([\w:.]+)\((.*?)\) : (\w+)\[([\d,]*)\]( .*)?")
_NODE_START = re.compile(r"%(\d+) = ([\w:.]+)\(([^)]*)\)")
# torch_xla's names of what is not an operator.
_NAMES = {"parameter": "xla::device_data", "scalar": "prim::Constant"}


def _looks_like(tensor: torch.Tensor, value: str) -> bool:
    """Whether a value of that type is what the tensor has, and not what it looks at."""
    sizes = ",".join(map(str, tensor.shape))
    return value == f"{_ELEMENTS.get(tensor.dtype)}[{sizes}]" and tensor.is_contiguous() and not (tensor.is_conj() or tensor.is_neg())


def whole_values(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The tensors, of which a view that is not all of its storage as that was written is copied (traced, and run by nobody)."""
    shown = []
    for tensor in tensors:
        whole = tensor.numel() * tensor.element_size() == tensor.untyped_storage().nbytes()
        if whole:
            *nodes, result = debug.graph(tensor).ir.splitlines()
            number = result.split("%")[-1]
            found = _NODE.match(next(line for line in nodes if line.startswith(f"%{number} =")))
            whole = found is not None and _looks_like(tensor, f"{found[4]}[{found[5]}]")
        shown.append(tensor if whole else tensor.detach().clone(memory_format=torch.contiguous_format))
    return shown


def _graph(tensors: Sequence[torch.Tensor]) -> debug.Graph:
    return debug.graph(*whole_values(tensors))


def _operator(name: str) -> str:
    # Overloads and in-place variants are one node type there.
    return _NAMES.get(name) or name.split(".")[0]


def tensors_text(tensors: Sequence[torch.Tensor]) -> str:
    """The program of the tensors, a node a line, constants before all others; results end with ROOT=number."""
    *nodes, returned = _graph(tensors).ir.splitlines()
    results = re.findall(r"%(\d+)", returned)
    nodes.sort(key=lambda line: " = scalar(" not in line)
    numbers = {re.match(r"%(\d+)", line)[1]: str(place) for place, line in enumerate(nodes)}  # type: ignore[index]
    written = []
    for line in nodes:
        match = _NODE.match(line)
        renamed = re.sub(r"%(\d+)", lambda one: f"%{numbers[one[1]]}", line)
        if match is None:  # a node of several values
            written.append(f"  {renamed}")
            continue
        number, name, operands, element, sizes, rest = match.groups()
        rank = len(sizes.split(",")) if sizes else 0
        layout = "{" + ",".join(map(str, reversed(range(rank)))) + "}" if rank else ""
        operands = re.sub(r"%(\d+)", lambda one: f"%{numbers[one[1]]}", operands)
        place = re.search(r"# (.*)", rest or "")
        fields = [f"{_operator(name)}({operands})", f"location={place[1]}" if place else "", f"xla_shape={element}[{sizes}]{layout}"]
        fields += [f"ROOT={index}" for index, result in enumerate(results) if result == number]
        written.append(f"  %{numbers[number]} = {element}[{sizes}]{layout} {', '.join(filter(None, fields))}")
    return "\n".join(["IR {", *written, "}", ""])


def last_operand_first(ir: str) -> list[int]:
    """The numbers of a program's parameters in the order in which torch_xla comes to them: post-order, last operands first."""
    operands: dict[str, list[str]] = {}
    parameters: dict[str, int] = {}
    *lines, returned = ir.splitlines()
    for line in lines:
        if (match := _NODE_START.match(line)) is None:
            continue
        operands[match[1]] = re.findall(r"%(\d+)", match[3])
        if match[2] == "parameter":
            parameters[match[1]] = len(parameters)
    order: list[int] = []
    seen: set[str] = set()
    stack = re.findall(r"%(\d+)", returned)[::-1]
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if node in parameters:
            order.append(parameters[node])
        stack += operands.get(node, [])
    return order


def tensors_hlo(tensors: Sequence[torch.Tensor]) -> str:
    """The text of the HLO module that would compute the tensors, with the types of operands before their names.

    Its parameters are numbered as the values of _get_tensors_xla_device_data_node are; scalars come after them.
    """
    graph = _graph(tensors)
    return with_operand_types(_with_parameters(graph.hlo, last_operand_first(graph.ir)))


def computation_hlo(tensors: Sequence[torch.Tensor]) -> str:
    """tensors_hlo, with parameters in the order in which the program first takes them."""
    return with_operand_types(_graph(tensors).hlo)


_ARRAY = r"\w+\[[\d,]*\](?:\{[^}]*\})?"


def _with_parameters(text: str, order: Sequence[int]) -> str:
    """HLO text in which what was parameter order[j] is parameter j. As it is where parameters are one tuple."""
    head, entry, body = text.partition("\nENTRY ")
    signature, brace, instructions = body.partition("{\n")
    lists = [re.search(pattern, where) for pattern, where in ((rf"\(((?:{_ARRAY}(?:, )?)*)\)->", head), (rf"\(((?:p\d+: {_ARRAY}(?:, )?)*)\) ->", signature))]
    if any(found is None or len(re.findall(_ARRAY, found[1])) < len(order) for found in lists) or list(order) == sorted(order):
        return text
    place = {str(old): new for new, old in enumerate(order)}

    def reordered(found: re.Match[str], item: str, where: str) -> str:
        items = re.findall(item, found[1])
        moved = [items[old] for old in order] + items[len(order) :]
        moved = [re.sub(r"^p\d+", f"p{new}", one) for new, one in enumerate(moved)]
        return where[: found.start(1)] + ", ".join(moved) + where[found.end(1) :]

    layout, parameters = lists
    assert layout is not None and parameters is not None
    head, signature = reordered(layout, _ARRAY, head), reordered(parameters, rf"p\d+: {_ARRAY}", signature)
    for pattern, form in ((r"%p(\d+)\.", "%p{}."), (r" parameter\((\d+)\)", " parameter({})")):
        instructions = re.sub(pattern, lambda one, form=form: form.format(place.get(one[1], one[1])), instructions)  # type: ignore[misc]
    return head + entry + signature + brace + instructions


_INSTRUCTION = re.compile(r"^(\s+(?:ROOT )?)(%[\w.-]+) = (\(.*?\)|\S+) ([\w-]+)\(([^()]*)\)", re.MULTILINE)


def with_operand_types(text: str) -> str:
    """HLO text in which each operand of an instruction is told with its type, as XLA writes it on request."""
    types = {name: shape for _, name, shape, _, _ in _INSTRUCTION.findall(text)}

    def rewritten(match: re.Match[str]) -> str:
        margin, name, shape, operator, operands = match.groups()
        typed = re.sub(r"%[\w.-]+", lambda one: f"{types[one[0]]} {one[0]}" if one[0] in types else one[0], operands)
        return f"{margin}{name} = {shape} {operator}({typed})"

    return _INSTRUCTION.sub(rewritten, text)


def tensors_dot(tensors: Sequence[torch.Tensor]) -> str:
    """The program of the tensors in Graphviz's language."""
    return _graph(tensors).dot


def graph_hash(tensors: Sequence[torch.Tensor]) -> bytes:
    """Equal for tensors that one program computes, whatever the values of its inputs."""
    found = _graph(tensors)
    return hashlib.sha256(f"{found.ir}\0{found.hlo}".encode()).digest()


def state(tensor: torch.Tensor) -> str:
    """What the tensor's storage holds: "value", "host", "placeholder", "deleted" or "pending"; see bind.StorageState."""
    storage = _adapter.storage_id(tensor)
    return _runtime.call("StorageState", storage) if storage else "pending"


def tensor_information(tensor: torch.Tensor) -> str:
    """A tensor's shape, and what it has: a value in device memory, or the node that is to compute it."""
    if tensor.device.type != "xla":
        return "Not a XLATensor\n"
    _adapter.load()
    if runtime.is_spmd():
        return _partitioned_information(tensor)
    text = tensors_text([tensor]).splitlines()
    root = next((line.strip() for line in text if "ROOT=" in line), "")
    shape = re.search(r"xla_shape=(\S+?)(, |$)", root)
    lines = [f"Device: {tensor.device}", f"XLA Shape: {shape[1] if shape else 'unknown'}"]
    held = state(tensor)
    if held == "pending":
        lines += [f"IR: {root}", "XLAData: None"]
    else:
        lines += ["IR: None", "XLAData:", f"  Data Device: {tensor.device}", f"  Data Shape: {shape[1] if shape else 'unknown'}"]
        handle = {"value": _runtime.call("ValueNumber", _adapter.storage_id(tensor)), "deleted": "Deleted"}.get(held)
        lines.append(f"  Data Handle: {handle}")
    return "\n".join(["XLA Tensor Info:", *lines, ""])


def _shape_text(tensor: torch.Tensor) -> str:
    order = ",".join(map(str, reversed(range(tensor.dim()))))
    return f"{_ELEMENTS.get(tensor.dtype)}[{','.join(map(str, tensor.shape))}]" + (f"{{{order}}}" if order else "")


def _partitioned_information(tensor: torch.Tensor) -> str:
    """tensor_information of a tensor on the device that stands for all: how it lies, too, and whether it is still on the host."""
    held = state(tensor)  # which what follows may change
    lines = ["XLA Tensor Info:", "Device: SPMD:0", f"XLA Shape: {_shape_text(tensor)}"]
    if held == "host":
        lines += ["ShardingSpec: None", "IR: None", "XLAData: None", f"Tensor on host: with size {list(tensor.shape)}"]
        return "\n".join([*lines, ""])
    lies = sharding(tensor)
    root = next((line.strip() for line in tensors_text([tensor]).splitlines() if "ROOT=" in line), "None")
    lines += [f"ShardingSpec: {lies.text or lies.value or None}"] if held != "pending" or lies.text else []
    lines += [f"IR: {root}"]
    if held == "pending":
        lines += ["XLAData: None"]
    else:
        handle = _adapter.storage_id(tensor) if held == "value" else None
        lines += ["XLAShardedData:", "  Data Device: SPMD:0", f"  Data Shape: {_shape_text(tensor)}", f"  OpSharding: {lies.text or lies.value}", f"  NumShards: {runtime.addressable_runtime_device_count()}", f"  Data Handle: {handle}"]
    return "\n".join([*lines, "Tensor on host: None", ""])


def element_type(tensor: torch.Tensor) -> str:
    """The element type of the node or the value behind a tensor."""
    *nodes, returned = _graph([tensor]).ir.splitlines()
    number = returned.split("%")[-1]
    found = _NODE.match(next(line for line in nodes if line.startswith(f"%{number} =")))
    if found is None:
        raise ValueError(f"_get_xla_tensor_shape_type(): expected an array, got {nodes[-1]}")
    return found[4]
