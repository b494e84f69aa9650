"""Every change that xla_go makes to torch's own Python, each one a function with its probe.

torch names device 'xla' in a few places of its Python and expects torch_xla behind them. A patch
looks for what it replaces and raises ImportError in words where a new torch no longer has it.
"""

from __future__ import annotations

import copy
import functools
import importlib
import importlib.abc
import importlib.machinery
import sys
import threading
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import torch
from torch.utils.hooks import warn_if_has_hooks

from xla_go import _device_module, _step, _torch_mesh, _torch_scaling
from xla_go._torch_mesh import probe as _probe

DEVICE_TYPE = "xla"
FOREIGN_MODULES = ("torch_xla", "_XLAC")

_applied = False


def apply() -> None:
    """Applies all patches, once per process."""
    global _applied
    if _applied:
        return
    patch_deepcopy()
    patch_copy()
    patch_pickling()
    patch_save()
    patch_storage_location()
    patch_dlpack()
    patch_manual_seed()
    patch_backward()
    patch_foreach()
    patch_fused()
    patch_module_conversion()
    patch_text()
    _torch_mesh.patch_device_mesh()
    _torch_scaling.patch_grad_scaler()
    refuse_torch_xla()
    _applied = True


def _on_xla(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.device.type == DEVICE_TYPE


# ---- copies ----


def _whole_storage(tensor: torch.Tensor) -> torch.Tensor:
    """A flat tensor over all of the tensor's storage, of its dtype where that divides the storage."""
    storage = tensor.untyped_storage()
    size = tensor.element_size()
    dtype = tensor.dtype if storage.nbytes() % size == 0 else torch.uint8
    count = storage.nbytes() // (size if dtype is tensor.dtype else 1)
    flat = torch.empty(0, dtype=dtype, device=tensor.device)
    return flat.set_(storage, 0, (count,), (1,))


def _over_storage(storage: torch.UntypedStorage, like: torch.Tensor) -> torch.Tensor:
    tensor = torch.empty(0, dtype=like.dtype, device=storage.device)
    return tensor.set_(storage, like.storage_offset(), like.size(), like.stride())


def patch_deepcopy() -> None:
    """copy.deepcopy keeps tensors that share a storage sharing one, as on the CPU."""
    original = _probe(torch.Tensor, "__deepcopy__")

    @functools.wraps(original)
    def deepcopy(self: torch.Tensor, memo: dict[Any, Any]) -> Any:
        plain = type(self) is torch.Tensor and self.device.type == DEVICE_TYPE and self.layout is torch.strided
        if not plain or not self.is_leaf or id(self) in memo:
            return original(self, memo)
        with torch.no_grad():
            # torch's own storages keep their copies in the same place, under the same key.
            storages = memo.setdefault("torch", {})
            key = self.untyped_storage()._cdata
            if key not in storages:
                # In its own dimensions a value that is divided over devices keeps lying as it does.
                dense = self.is_contiguous() and self.nbytes == self.untyped_storage().nbytes() and not (self.is_conj() or self.is_neg())
                storages[key] = (self.detach() if dense else _whole_storage(self)).clone().untyped_storage()
            result = _over_storage(storages[key], self)
            if self.is_conj():
                result = result.conj_physical()
            if self.is_neg():
                result = result.neg()
        if self.requires_grad:
            result.requires_grad_()
        if self.grad is not None:
            result.grad = copy.deepcopy(self.grad, memo)
        result.__dict__ = copy.deepcopy(self.__dict__, memo)
        memo[id(self)] = result
        return result

    torch.Tensor.__deepcopy__ = deepcopy  # type: ignore[method-assign]


def patch_copy() -> None:
    """copy.copy of a tensor stays on the device and shares its storage.

    Without __copy__ Python goes through pickling, which leads to the CPU.
    """
    if hasattr(torch.Tensor, "__copy__"):
        raise ImportError(
            f"xla_go: expected torch.Tensor without __copy__, got one in torch {torch.__version__}; this torch is not supported yet"
        )

    def shallow_copy(self: torch.Tensor) -> Any:
        if self.device.type != DEVICE_TYPE:
            reduced: Any = self.__reduce_ex__(4)
            return copy._reconstruct(self, None, *reduced)  # type: ignore[attr-defined]
        result: torch.Tensor
        if isinstance(self, torch.nn.Parameter):
            result = type(self)(self.data, self.requires_grad)
        else:
            result = self.detach().requires_grad_(self.requires_grad)
        result.__dict__.update(self.__dict__)
        return result

    torch.Tensor.__copy__ = shallow_copy  # type: ignore[attr-defined]


# ---- saving and loading ----


class _Saving(threading.local):
    """During a torch.save: the CPU copies of device storages by address, and what keeps those alive."""

    storages: dict[int, tuple[torch.UntypedStorage, torch.UntypedStorage]] | None = None


_saving = _Saving()


def _host_storage(tensor: torch.Tensor) -> torch.UntypedStorage:
    storages = _saving.storages
    storage = tensor.untyped_storage()
    if storages is not None and storage._cdata in storages:
        return storages[storage._cdata][0]
    with torch.no_grad():
        host = _whole_storage(tensor).cpu().untyped_storage()
    if storages is not None:
        storages[storage._cdata] = (host, storage)
    return host


def patch_pickling() -> None:
    """A pickled tensor is a plain CPU tensor, so that a checkpoint opens without xla_go."""
    original = _probe(torch.Tensor, "_reduce_ex_internal")

    @functools.wraps(original)
    def reduce_ex_internal(self: torch.Tensor, proto: Any) -> Any:
        if self.device.type != DEVICE_TYPE or self.layout is not torch.strided:
            return original(self, proto)
        warn_if_has_hooks(self)
        with torch.no_grad():
            host = _over_storage(_host_storage(self), self)
        if self.is_conj():
            torch._C._set_conj(host, True)
        if self.is_neg():
            torch._C._set_neg(host, True)
        return original(host.requires_grad_(self.requires_grad), proto)

    torch.Tensor._reduce_ex_internal = reduce_ex_internal  # type: ignore[assignment]


def patch_save() -> None:
    """Within one torch.save, tensors that share a storage share one in the file."""
    original = _probe(torch.serialization, "save")

    @functools.wraps(original)
    def save(*args: Any, **kwargs: Any) -> Any:
        outer = _saving.storages
        _saving.storages = {} if outer is None else outer
        try:
            return original(*args, **kwargs)
        finally:
            _saving.storages = outer

    torch.serialization.save = save
    torch.save = save


def patch_storage_location() -> None:
    """torch.load(..., map_location="xla") puts storages on the device."""
    register = _probe(torch.serialization, "register_package")

    def tag(storage: Any) -> str | None:
        return str(storage.device) if storage.device.type == DEVICE_TYPE else None

    def restore(storage: Any, location: str) -> Any:
        if location.partition(":")[0] != DEVICE_TYPE:
            return None
        untyped = storage._untyped_storage if isinstance(storage, torch.TypedStorage) else storage
        flat = torch.empty(0, dtype=torch.uint8).set_(untyped)
        return flat.to(torch.device(location)).untyped_storage()

    # torch's own locations have priorities 10 to 24; the tags do not overlap.
    register(30, tag, restore)


def patch_dlpack() -> None:
    """Tensors on device xla lend their memory through DLPack; torch's own function knows only torch_xla for them."""
    original = _probe(torch.Tensor, "__dlpack__")
    original_device = _probe(torch.Tensor, "__dlpack_device__")

    @functools.wraps(original)
    def dlpack(self: torch.Tensor, **kwargs: Any) -> Any:
        if self.device.type != DEVICE_TYPE:
            return original(self, **kwargs)
        from xla_go import _torch_dlpack

        stream, version = kwargs.pop("stream", None), kwargs.pop("max_version", None)
        target, copy = kwargs.pop("dl_device", None), kwargs.pop("copy", None)
        if kwargs.pop("read_only", False) and (version is None or version[0] < 1):
            raise BufferError("__dlpack__(): expected max_version of at least (1, 0) with read_only, since older capsules cannot say it")
        if kwargs:
            raise TypeError(f"__dlpack__() got an unexpected keyword argument {next(iter(kwargs))!r}")
        return _torch_dlpack.lend(self, lambda host: original(host, max_version=version), stream, version, target, copy)

    @functools.wraps(original_device)
    def dlpack_device(self: torch.Tensor) -> Any:
        if self.device.type != DEVICE_TYPE:
            return original_device(self)
        from xla_go import _torch_dlpack

        type_, index = _torch_dlpack.device_of(self)
        return torch.utils.dlpack.DLDeviceType(type_), index

    to_dlpack = _probe(torch.utils.dlpack, "to_dlpack")

    @functools.wraps(to_dlpack)
    def capsule_of(tensor: Any) -> Any:
        return tensor.__dlpack__() if _on_xla(tensor) else to_dlpack(tensor)

    torch.utils.dlpack.to_dlpack = capsule_of
    if hasattr(torch, "to_dlpack"):
        torch.to_dlpack = capsule_of
    torch.Tensor.__dlpack__ = dlpack  # type: ignore[method-assign]
    torch.Tensor.__dlpack_device__ = dlpack_device  # type: ignore[method-assign]


# ---- random numbers ----


def patch_manual_seed() -> None:
    """torch.manual_seed seeds device xla as well, in a replica its own device.

    The adapter notices a new seed of the CPU generator by itself; it cannot notice the same seed
    set again.
    """
    original = _probe(torch.random, "manual_seed")

    @functools.wraps(original)
    def manual_seed(seed: Any) -> torch.Generator:
        generator = original(seed)
        _device_module.manual_seed(generator.initial_seed())
        return generator

    torch.random.manual_seed = manual_seed
    torch.manual_seed = manual_seed


# ---- autograd ----


def _holds_xla(tensors: Any) -> bool:
    if isinstance(tensors, torch.Tensor):
        return tensors.device.type == DEVICE_TYPE
    if isinstance(tensors, Sequence):
        return any(_on_xla(tensor) for tensor in tensors)
    return False


def patch_backward() -> None:
    """A backward of xla tensors runs on its caller, also where it is the thread's first device call; its end may end the graph.

    Every kernel of the adapter sees to that for its thread; a backward with an explicit gradient
    can be the first call of all.
    """
    set_multithreading = _probe(torch._C, "_set_multithreading_enabled")

    def on_caller(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def run(tensors: Any, *args: Any, **kwargs: Any) -> Any:
            if not _holds_xla(tensors):
                return original(tensors, *args, **kwargs)
            set_multithreading(False)
            result = original(tensors, *args, **kwargs)
            _step.cut_after_backward(tensors)
            return result

        return run

    backward = on_caller(_probe(torch.autograd, "backward"))
    torch.autograd.backward = backward  # type: ignore[assignment]
    grad = _probe(torch.autograd, "grad")

    @functools.wraps(grad)
    def grad_on_caller(outputs: Any, *args: Any, **kwargs: Any) -> Any:
        if _holds_xla(outputs):
            set_multithreading(False)
        return grad(outputs, *args, **kwargs)

    torch.autograd.grad = grad_on_caller


# ---- optimizers ----

FOREACH_OPERATORS = (
    "aten::_foreach_add_.Scalar",
    "aten::_foreach_add_.List",
    "aten::_foreach_mul_.Scalar",
    "aten::_foreach_lerp_.Scalar",
    "aten::_foreach_addcmul_.Scalar",
    "aten::_foreach_addcdiv_.ScalarList",
    "aten::_foreach_sqrt",
    "aten::_foreach_div_.ScalarList",
)


def patch_foreach() -> None:
    """Optimizers choose foreach by default on xla, where the device has rows for it."""
    has_kernel = _probe(torch._C, "_dispatch_has_kernel_for_dispatch_key")
    if not all(has_kernel(name, "XLA") for name in FOREACH_OPERATORS):
        return
    module = _probe(torch.utils, "_foreach_utils")
    original = _probe(module, "_get_foreach_kernels_supported_devices")

    @functools.wraps(original)
    def supported_devices() -> list[str]:
        return [*original(), DEVICE_TYPE]

    module._get_foreach_kernels_supported_devices = supported_devices


def patch_fused() -> None:
    """Optimizers take fused=True on xla. It is not their default anywhere."""
    module = _probe(torch.utils, "_foreach_utils")
    original = _probe(module, "_get_fused_kernels_supported_devices")
    optimizer = importlib.import_module("torch.optim.optimizer")  # torch.optim does not keep the name
    _probe(optimizer, "_get_fused_kernels_supported_devices")

    @functools.wraps(original)
    def supported_devices() -> list[str]:
        return [*original(), DEVICE_TYPE]

    module._get_fused_kernels_supported_devices = supported_devices
    optimizer.__dict__["_get_fused_kernels_supported_devices"] = supported_devices


# ---- modules ----


class _Conversion(threading.local):
    """During a conversion of a module: its old parameters by identity, each with the new one in its place."""

    parameters: dict[int, tuple[torch.nn.Parameter, torch.nn.Parameter]] | None = None


_conversion = _Conversion()


def _move_into(old: torch.nn.Parameter, new: torch.nn.Parameter) -> bool:
    """Gives `old`, the object, the value and gradient of `new`, which gets the old ones. False where C++ code watches it."""
    hooks, accumulated = old._backward_hooks, old._post_accumulate_grad_hooks
    edge = None
    if old._use_count() > 1 and old.is_leaf and old.requires_grad:  # the graph of an earlier forward pass may hold it
        edge = torch.autograd.graph.get_gradient_edge(old)
    try:
        torch._C._swap_tensor_impl(old, new)
    except RuntimeError:  # weak references of C++ code
        return False
    if edge is not None:
        edge.node.register_prehook(_refuse_old_graph)
    if hooks:
        old._backward_hooks = hooks
    if accumulated:
        old._post_accumulate_grad_hooks = accumulated
    return True


def _refuse_old_graph(gradients: Any) -> None:
    raise RuntimeError("backward(): expected a forward pass of the module as it is now, got one from before it was moved to another device: run it again")


def patch_module_conversion() -> None:
    """A parameter that is moved to or from the device stays the same object, for optimizers and for all modules that hold it.

    Within one device, and between the CPU and CUDA, torch puts the new data into the old parameter. Between the CPU and xla
    it makes a new one, for each holder: an optimizer made before would go on with the old ones, and a tied weight would be
    two. Where C++ code watches a parameter there is a new one still, but one for all holders.
    """
    original = _probe(torch.nn.Module, "_apply")
    _probe(torch._C, "_swap_tensor_impl")
    _probe(torch.autograd.graph, "get_gradient_edge")

    @functools.wraps(original)
    def convert(self: torch.nn.Module, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        outermost = _conversion.parameters is None
        known = _conversion.parameters = {} if _conversion.parameters is None else _conversion.parameters
        before = dict(self._parameters)
        try:
            result = original(self, fn, *args, **kwargs)
            for name, old in before.items():
                new = self._parameters[name]
                if old is None or new is None or new is old or not (_on_xla(old) or _on_xla(new)):
                    continue
                if id(old) not in known:
                    kept = not torch.__future__.get_overwrite_module_params_on_conversion() and _move_into(old, new)
                    known[id(old)] = (old, old if kept else new)
                self._parameters[name] = known[id(old)][1]
            return result
        finally:
            if outermost:
                _conversion.parameters = None

    torch.nn.Module._apply = convert  # type: ignore[method-assign]


# ---- text ----


def patch_text() -> None:
    """The text of a tensor that has failed tells the error in the place of the values: a notebook or a debugger shows it."""
    original = _probe(torch._tensor_str, "_str")

    @functools.wraps(original)
    def text(self: torch.Tensor, *args: Any, **kwargs: Any) -> str:
        if not _on_xla(self):
            return original(self, *args, **kwargs)
        try:
            return original(self, *args, **kwargs)
        except Exception as error:
            told = " ".join(f"{type(error).__name__}: {error}".split())
            return f"tensor(<{told}>, device='{self.device}', size={tuple(self.shape)}, dtype={self.dtype})"

    torch._tensor_str._str = text


# ---- torch_xla ----


class _TorchXlaRefusal(importlib.abc.MetaPathFinder):
    """Turns an import of an installed torch_xla into an ImportError: it would abort the process."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in FOREIGN_MODULES or fullname in sys.modules:
            return None
        if importlib.machinery.PathFinder.find_spec(fullname, path) is None:
            return None
        raise ImportError(
            f"{fullname} cannot be imported after xla_go: both drive device 'xla'; xla_go.compat.install() puts torch_xla's names in place",
            name=fullname,
        )


def refuse_torch_xla() -> None:
    """Refuses a later import of the real torch_xla."""
    sys.meta_path.insert(0, _TorchXlaRefusal())
