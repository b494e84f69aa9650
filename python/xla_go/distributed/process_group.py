"""torch.distributed's backend "xla": `init_process_group("xla")` in processes that torchrun started, each with devices of its own.

A plugin whose devices do not span processes (XLA's CPU) has no collective between them in a program. Here they go over the
host: a collective ends the step, reads its tensors, exchanges them by torch's gloo backend, and writes what comes back. Each
is counted (`HostCollective`), and the first one says so.
"""

from __future__ import annotations

import datetime
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist

from xla_go import _runtime

__all__ = ["HostProcessGroup", "register"]

_said = False


def _say() -> None:
    global _said
    if not _said:
        _said = True
        warnings.warn(
            "xla_go: this plugin's devices do not span processes, so collectives between processes go over the host, by gloo: "
            "each ends the step and waits. Metric HostCollective counts them",
            stacklevel=4,
        )


class _Done(dist.Work):
    """A collective that has ended: its tensors are written."""

    def __init__(self, result: list[Any]) -> None:
        super().__init__()
        self._result = result
        self._future: torch.futures.Future[list[Any]] = torch.futures.Future()
        self._future.set_result(result)

    def is_completed(self) -> bool:
        return True

    def is_success(self) -> bool:
        return True

    def wait(self, timeout: datetime.timedelta | None = None) -> bool:
        return True

    def result(self) -> list[Any]:
        return self._result

    def get_future(self) -> torch.futures.Future[list[Any]]:
        return self._future


def _host(value: Any) -> Any:
    """Copies on the CPU of a tensor, or of lists of them, contiguous as gloo needs them."""
    if isinstance(value, torch.Tensor):
        return value.detach().cpu().contiguous()
    return [_host(item) for item in value]


def _write(targets: Any, values: Any) -> None:
    if isinstance(targets, torch.Tensor):
        with torch.no_grad():
            targets.copy_(values)
        return
    for target, value in zip(targets, values, strict=True):
        _write(target, value)


class HostProcessGroup(dist.ProcessGroup):
    """A process group whose collectives go over the host. All of them are BLOCKING, whatever async_op says."""

    def __init__(self, store: dist.Store, rank: int, size: int, timeout: datetime.timedelta) -> None:
        super().__init__(rank, size)
        self._gloo = dist.ProcessGroupGloo(store, rank, size, timeout)

    def getBackendName(self) -> str:
        return "xla"

    @property
    def group_name(self) -> str:
        return self._name

    _name = "xla"

    def _set_group_name(self, name: str) -> None:
        self._name = name

    def _run(self, name: str, outputs: Any, inputs: Any, call: Callable[[Any, Any], Any]) -> _Done:
        """`call(outputs, inputs)` on copies of both, after which `outputs` are written. One of several arguments is a list."""
        _say()
        _runtime.perform("AddToCounter", "HostCollective", 1)
        host_outputs = _host(outputs)
        host_inputs = host_outputs if inputs is outputs else _host(inputs)
        call(host_outputs, host_inputs).wait()
        _write(outputs, host_outputs)
        return _Done(outputs if isinstance(outputs, list) else [outputs])

    def allreduce(self, tensors: list[torch.Tensor], opts: Any = None) -> _Done:
        options = opts or dist.AllreduceOptions()
        average = options.reduceOp == dist.ReduceOp.AVG  # which gloo lacks
        if average:
            options = dist.AllreduceOptions()
            options.reduceOp = dist.ReduceOp.SUM

        def call(outputs: list[torch.Tensor], _: Any) -> Any:
            work = self._gloo.allreduce(outputs, options)
            if average:
                work.wait()
                for output in outputs:
                    output.div_(self.size())
            return work

        return self._run("allreduce", tensors, tensors, call)

    def allreduce_coalesced(self, tensors: list[torch.Tensor], opts: Any = None) -> _Done:
        for tensor in tensors:
            options = dist.AllreduceOptions()
            if opts is not None:
                options.reduceOp = opts.reduceOp
            self.allreduce([tensor], options)
        return _Done(tensors)

    def broadcast(self, tensors: list[torch.Tensor], opts: Any = None) -> _Done:
        return self._run("broadcast", tensors, tensors, lambda outputs, _: self._gloo.broadcast(outputs, opts or dist.BroadcastOptions()))

    def reduce(self, tensors: list[torch.Tensor], opts: Any = None) -> _Done:
        return self._run("reduce", tensors, tensors, lambda outputs, _: self._gloo.reduce(outputs, opts or dist.ReduceOptions()))

    def allgather(self, outputs: list[list[torch.Tensor]], inputs: list[torch.Tensor], opts: Any = None) -> _Done:
        return self._run("allgather", outputs, inputs, self._gloo.allgather)

    def allgather_coalesced(self, outputs: list[list[torch.Tensor]], inputs: list[torch.Tensor], opts: Any = None) -> _Done:
        return self._run("allgather", outputs, inputs, self._gloo.allgather_coalesced)

    def _allgather_base(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> _Done:
        return self._run("allgather", output, input, self._gloo._allgather_base)

    def allgather_into_tensor_coalesced(self, outputs: list[torch.Tensor], inputs: list[torch.Tensor], opts: Any = None) -> _Done:
        for output, value in zip(outputs, inputs, strict=True):
            self._allgather_base(output, value)
        return _Done(outputs)

    def gather(self, outputs: list[list[torch.Tensor]], inputs: list[torch.Tensor], opts: Any = None) -> _Done:
        return self._run("gather", outputs, inputs, lambda out, given: self._gloo.gather(out, given, opts or dist.GatherOptions()))

    def scatter(self, outputs: list[torch.Tensor], inputs: list[list[torch.Tensor]], opts: Any = None) -> _Done:
        return self._run("scatter", outputs, inputs, lambda out, given: self._gloo.scatter(out, given, opts or dist.ScatterOptions()))

    def reduce_scatter(self, outputs: list[torch.Tensor], inputs: list[list[torch.Tensor]], opts: Any = None) -> _Done:
        for output, pieces in zip(outputs, inputs, strict=True):
            self._scatter_reduced(output, torch.stack([_host(piece) for piece in pieces]), opts)
        return _Done(outputs)

    def _reduce_scatter_base(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> _Done:
        self._scatter_reduced(output, _host(input).reshape(self.size(), *output.shape), opts)
        return _Done([output])

    def reduce_scatter_tensor_coalesced(self, outputs: list[torch.Tensor], inputs: list[torch.Tensor], opts: Any = None) -> _Done:
        for output, value in zip(outputs, inputs, strict=True):
            self._reduce_scatter_base(output, value, opts)
        return _Done(outputs)

    def _scatter_reduced(self, output: torch.Tensor, pieces: torch.Tensor, opts: Any) -> None:
        # gloo has no reduce_scatter of its own.
        options = dist.AllreduceOptions()
        if opts is not None:
            options.reduceOp = opts.reduceOp
        self.allreduce([pieces], options)
        _write(output, pieces[self.rank()])

    def alltoall_base(self, output: torch.Tensor, input: torch.Tensor, output_split_sizes: Sequence[int], input_split_sizes: Sequence[int], opts: Any = None) -> _Done:
        def call(out: torch.Tensor, given: torch.Tensor) -> Any:
            return self._gloo.alltoall_base(out, given, list(output_split_sizes), list(input_split_sizes))

        return self._run("alltoall", output, input, call)

    def alltoall(self, outputs: list[torch.Tensor], inputs: list[torch.Tensor], opts: Any = None) -> _Done:
        shape = [tuple(tensor.shape) for tensor in outputs]
        flat_in = torch.cat([_host(tensor).reshape(-1) for tensor in inputs])
        flat_out = flat_in.new_empty(sum(tensor.numel() for tensor in outputs))
        self.alltoall_base(flat_out, flat_in, [tensor.numel() for tensor in outputs], [tensor.numel() for tensor in inputs])
        pieces = flat_out.split([tensor.numel() for tensor in outputs])
        _write(outputs, [piece.reshape(sizes) for piece, sizes in zip(pieces, shape, strict=True)])
        return _Done(outputs)

    def gather_single(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> _Done:
        options = opts or dist.GatherOptions()
        outputs = [list(output.chunk(self.size()))] if options.rootRank == self.rank() else []
        return self.gather(outputs, [input], options)

    # What newer torch calls them.
    all_gather_single = _allgather_base
    all_gather_single_coalesced = allgather_into_tensor_coalesced
    reduce_scatter_single = _reduce_scatter_base
    reduce_scatter_single_coalesced = reduce_scatter_tensor_coalesced
    all_to_all_single = alltoall_base
    gather_into_tensor = gather_single

    def send(self, tensors: list[torch.Tensor], destination: int, tag: int = 0) -> _Done:
        return self._run("send", [], tensors, lambda _, given: self._gloo.send(given, destination, tag))

    def recv(self, tensors: list[torch.Tensor], source: int, tag: int = 0) -> _Done:
        return self._run("recv", tensors, tensors, lambda out, _: self._gloo.recv(out, source, tag))

    def recv_anysource(self, tensors: list[torch.Tensor], tag: int = 0) -> _Done:
        return self._run("recv", tensors, tensors, lambda out, _: self._gloo.recv_anysource(out, tag))

    def barrier(self, opts: Any = None) -> _Done:
        from xla_go import _step

        _step.sync(wait=True, cause="barrier()")
        self._gloo.barrier().wait()
        return _Done([])


def _create(store: dist.Store, rank: int, size: int, timeout: datetime.timedelta) -> HostProcessGroup:
    return HostProcessGroup(store, rank, size, timeout)


def register() -> None:
    """Makes "xla" a backend of torch.distributed. Idempotent."""
    if dist.is_available() and "XLA" not in dist.Backend.__dict__:
        dist.Backend.register_backend("xla", _create, devices=["xla"])
