"""What `torch_xla._XLAC.lowering` gives after `xla_go.compat.install()`: a traced program as an HLO module, with its inputs."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

import torch

from xla_go import _adapter, _graph, _runtime, debug
from xla_go._torch_dlpack import _TORCH

_PARAMETER = re.compile(r"%\d+ = parameter\(\) : (\w+)\[([\d,]*)\]")


class LoweringContext:
    """The module that computes tensors, and the values that it takes. Nothing is run."""

    def __init__(self, name: str = "module", device: object = None) -> None:
        self._name = name
        self._built: dict[str, str | int] | None = None
        self._module = b""
        self._parameters: list[torch.Tensor] = []

    def build(self, tensors: Sequence[torch.Tensor]) -> None:
        """Lowers the program that would compute the tensors' storages; see xla_go.debug.graph."""
        storages = _graph.storages_of("build", tensors)
        device = tensors[-1].device
        lines = [_PARAMETER.match(line) for line in debug.graph(*tensors).ir.splitlines()]
        shapes = [(match[1], [int(size) for size in match[2].split(",") if size]) for match in lines if match]
        self._built = json.loads(_runtime.call("GraphModule", device.index or 0, storages, self._name))
        self._module = _runtime.take_bytes(int(self._built["module"]))
        # torch's own memory of these is never used: each storage gets the parameter's value.
        self._parameters = [torch.zeros(sizes, dtype=_TORCH[element], device=device) for element, sizes in shapes]
        targets = ",".join(str(_adapter.storage_id(one)) for one in self._parameters)
        _runtime.call("ShareParameters", device.index or 0, storages, targets)
        if self._built["scalars"]:
            words = bytearray.fromhex(str(self._built["scalars"]))
            self._parameters.append(torch.frombuffer(words, dtype=torch.uint32))

    def _is_built(self) -> dict[str, str | int]:
        if self._built is None:
            raise RuntimeError("LoweringContext: expected build(tensors) to have been called")
        return self._built

    def hlo(self) -> bytes:
        """The serialized HloModuleProto."""
        self._is_built()
        return self._module

    def hlo_text(self) -> str:
        """The HloModuleProto in the text format of protocol buffers."""
        return str(self._is_built()["text"])

    def hlo_json(self) -> str:
        """The HloModuleProto in the JSON format of protocol buffers."""
        return str(self._is_built()["json"])

    def parameter_id_tensor_mapping(self) -> dict[int, torch.Tensor]:
        """The module's parameters on the CPU, by their numbers. The last one holds all scalars of the program, where it has any. BLOCKING."""
        return {number: tensor.cpu() for number, tensor in self.device_parameter_id_tensor_mapping().items()}

    def device_parameter_id_tensor_mapping(self) -> dict[int, torch.Tensor]:
        """The module's parameters by their numbers, on the device, but for the scalars, which are sent with each run. Not blocking."""
        self._is_built()
        return dict(enumerate(self._parameters))

    def tensor_parameter_id(self, tensor: torch.Tensor) -> int:
        """The number of the parameter that is the tensor's value, -1 where none is."""
        self._is_built()
        storage = _adapter.storage_id(tensor)
        for number, parameter in enumerate(self._parameters):
            if parameter.device.type == "xla" and storage and _runtime.call("SharesValue", storage, _adapter.storage_id(parameter)):
                return number
        return -1
