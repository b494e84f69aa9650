"""Changes to torch.distributed's device meshes and DTensor, for meshes of device xla; part of _torch_patches.

torch makes a DeviceMesh("xla") without process groups and hands distribute_tensor and distribute_module on it to torch_xla, but
has nothing else for it: no slices, and a DTensor.from_local that asks for the mesh's ranks.
"""

from __future__ import annotations

import functools
import sys
from typing import Any, NoReturn

import torch

# The one name that torch imports from torch_xla for such a mesh. Its parents stay absent, so that whoever looks whether
# torch_xla is there still finds it is not.
_NAMES = "torch_xla.distributed.spmd"


def probe(owner: Any, name: str) -> Any:
    """The attribute that a patch replaces; ImportError where this torch does not have it."""
    found = getattr(owner, name, None)
    if found is None:
        where = getattr(owner, "__name__", repr(owner))
        raise ImportError(
            f"xla_go: expected {where}.{name} in torch {torch.__version__}, which it patches; this torch is not supported yet"
        )
    return found


def patch_device_mesh() -> None:
    """A DeviceMesh of device xla can be sliced, and says that it has no process groups; DTensor is patched with the first one."""
    if not torch.distributed.is_available():
        return
    from torch.distributed.device_mesh import DeviceMesh

    made, sliced, flattened = probe(DeviceMesh, "__init__"), probe(DeviceMesh, "__getitem__"), probe(DeviceMesh, "_flatten")

    @functools.wraps(made)
    def init(self: Any, device_type: str, *args: Any, **kwargs: Any) -> None:
        made(self, device_type, *args, **kwargs)
        if device_type == "xla":
            _prepare()

    @functools.wraps(sliced)
    def getitem(self: Any, mesh_dim_names: str | tuple[str, ...]) -> Any:
        if self.device_type != "xla":
            return sliced(self, mesh_dim_names)
        from xla_go.spmd import placement

        names = (mesh_dim_names,) if isinstance(mesh_dim_names, str) else tuple(mesh_dim_names)
        return self if names == self.mesh_dim_names else placement.slice_mesh(self, names)

    @functools.wraps(flattened)
    def flatten(self: Any, mesh_dim_name: str | None = None, *args: Any, **kwargs: Any) -> Any:
        if self.device_type != "xla":
            return flattened(self, mesh_dim_name, *args, **kwargs)
        from xla_go.spmd import placement

        name = mesh_dim_name or "_".join(self.mesh_dim_names or ())
        if not name:
            raise KeyError("DeviceMesh._flatten(): expected a name, or a mesh whose dimensions have names")
        axes = placement.MeshPart.of(self).all_axes
        root = getattr(self, placement.ROOT, self)
        known = root.__dict__.setdefault(placement.FLATTENED, {})
        if known.setdefault(name, axes) != axes or (name in (root.mesh_dim_names or ()) and root.mesh.ndim > 1):
            raise KeyError(f"DeviceMesh._flatten(): expected a name that the mesh has not yet, got {name!r}")
        return placement.slice_mesh(self, (name,), [axes])

    DeviceMesh.__init__ = init  # type: ignore[method-assign]
    DeviceMesh.__getitem__ = getitem  # type: ignore[method-assign]
    DeviceMesh._flatten = flatten  # type: ignore[method-assign]
    for name in ("get_group", "get_local_rank", "get_coordinate"):
        setattr(DeviceMesh, name, _of_ranks(probe(DeviceMesh, name)))


def _of_ranks(original: Any) -> Any:
    @functools.wraps(original)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return _no_ranks(original.__name__) if self.device_type == "xla" else original(self, *args, **kwargs)

    return method


def _no_ranks(method: str) -> NoReturn:
    raise RuntimeError(
        f"DeviceMesh.{method}(): expected a mesh of processes, got one of device xla: one process drives all its devices, and there are "
        "no ranks and groups. For torch.distributed.fsdp.fully_shard there is xla_go.spmd.fully_shard; data is given as whole batches, "
        "which xla_go.spmd.mark_sharding divides"
    )


_prepared = False


def _prepare() -> None:
    """Puts in place what torch's code looks for when it meets a mesh of device xla. Once per process."""
    global _prepared
    if _prepared:
        return
    _prepared = True
    from torch.distributed.device_mesh import _mesh_resources
    from torch.distributed.tensor import DTensor, _api

    from xla_go.compat import spmd as names
    from xla_go.spmd import dtensor

    sys.modules.setdefault(_NAMES, names)
    local, filled = probe(DTensor, "from_local"), probe(_api, "_dtensor_init_helper")

    def mesh_of(device_mesh: Any) -> Any:
        return device_mesh or _mesh_resources.get_current_mesh()

    @functools.wraps(local)
    def from_local(local_tensor: torch.Tensor, device_mesh: Any = None, placements: Any = None, **kwargs: Any) -> Any:
        mesh = mesh_of(device_mesh)
        return (dtensor.from_local if mesh.device_type == "xla" else local)(local_tensor, mesh, placements, **kwargs)

    @functools.wraps(filled)
    def init_helper(init_op: Any, size: torch.Size, device_mesh: Any = None, placements: Any = None, **kwargs: Any) -> Any:
        mesh = mesh_of(device_mesh)
        if mesh.device_type != "xla":
            return filled(init_op, size, mesh, placements, **kwargs)
        leading = [kwargs.pop(name) for name in ("start", "end", "fill_value", "base") if name in kwargs]
        ranged = init_op in (torch.linspace, torch.logspace)
        arguments = [*leading[:2], size[0], *leading[2:]] if ranged else [size, *leading]
        return dtensor.xla_distribute_tensor(init_op(*arguments, **{**kwargs, "device": "xla"}), mesh, placements)

    DTensor.from_local = staticmethod(from_local)  # type: ignore[method-assign]
    _api._dtensor_init_helper = init_helper
