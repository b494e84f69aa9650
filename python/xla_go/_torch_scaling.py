"""torch.amp.GradScaler without a wait in each step.

After gradients that are not finite torch leaves the optimizer's step out, for which it reads a value in every step. On device
xla the step is taken in any case and, where it should not have been, what it has written is set back by the same program.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.optim import optimizer as torch_optimizer

from xla_go import _step
from xla_go._torch_mesh import probe

_DEVICE_TYPE = "xla"


# Of an optimizer of which a step that was read has written nothing but its parameters and tensors of its state, all of them on
# the device: the form it had then. It may be set back as long as it has that form.
_forms: weakref.WeakKeyDictionary[torch.optim.Optimizer, list[Any]] = weakref.WeakKeyDictionary()


def _on_device(value: Any) -> bool:
    return type(value) in (torch.Tensor, torch.nn.Parameter) and value.device.type == _DEVICE_TYPE


def _stepped(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    """The parameters that a step writes."""
    return [parameter for group in optimizer.param_groups for parameter in group["params"] if parameter.grad is not None]


def _state(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    """The tensors of its state that lie on the device."""
    return [value for state in optimizer.state.values() for value in state.values() if _on_device(value)]


def _form(optimizer: torch.optim.Optimizer) -> list[Any]:
    """What a step would write, and everything of its state that no program can set back."""
    found: list[Any] = [id(parameter) for parameter in _stepped(optimizer)]
    for parameter, state in optimizer.state.items():
        for name, value in state.items():
            told = "on the device" if _on_device(value) else (id(value), value._version) if isinstance(value, torch.Tensor) else repr(value)
            found.append((id(parameter), name, told))
    return found


def _options(optimizer: torch.optim.Optimizer) -> list[tuple[int, str, Any]]:
    return [(number, name, value) for number, group in enumerate(optimizer.param_groups) for name, value in group.items() if name != "params"]


def _chosen(optimizer: torch.optim.Optimizer) -> list[Any]:
    """The options that may choose what a step writes: a schedule changes numbers between steps, but a momentum of 0 has no state."""
    return [(number, name, bool(value) if isinstance(value, (int, float)) else type(value)) for number, name, value in _options(optimizer)]


def _has_hooks(optimizer: torch.optim.Optimizer) -> bool:
    """Whether functions of the user run with each step, which a step that is left out does not call."""
    own = [*optimizer._optimizer_step_pre_hooks.values(), *optimizer._optimizer_step_post_hooks.values()]
    of_all = [*torch_optimizer._global_optimizer_pre_hooks.values(), *torch_optimizer._global_optimizer_post_hooks.values()]
    return bool(own) or any(hook is not _step._after_optimizer_step for hook in of_all)


def _step_if_read(optimizer: torch.optim.Optimizer, decide: Callable[[], Any]) -> Any:
    """Lets torch take the step or leave it out, and learns from a step that is taken."""
    form, options = _form(optimizer), repr(_options(optimizer))
    taken = []
    hook = optimizer.register_step_post_hook(lambda *_: taken.append(True))
    try:
        result = decide()
    finally:
        hook.remove()
    if taken and form == _form(optimizer) and options == repr(_options(optimizer)):
        _forms[optimizer] = [form, _chosen(optimizer)]
    return result


def _step_and_set_back(optimizer: torch.optim.Optimizer, skip: torch.Tensor) -> Any:
    """Steps, and sets back what was written where `skip` is true on the device. Waits for nothing."""
    with _step.one_graph():
        tensors = [*_stepped(optimizer), *_state(optimizer)]
        old = [tensor.detach().clone() for tensor in tensors]
        result = optimizer.step()
        with torch.no_grad():
            for tensor, value in zip(tensors, old, strict=True):
                tensor.copy_(torch.where(skip, value, tensor))
    _step._after_optimizer_step(optimizer, (), {})
    return result


def patch_grad_scaler() -> None:
    """torch.amp.GradScaler reads nothing in the steps of an optimizer that keeps all its state on the device, after its first ones."""
    original = probe(torch.amp.GradScaler, "_maybe_opt_step")

    @functools.wraps(original)
    def maybe_step(self: Any, optimizer: Any, optimizer_state: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        found = list(optimizer_state["found_inf_per_device"].values())
        if args or kwargs or len(found) != 1 or not all(map(_on_device, [*found, *_stepped(optimizer)])) or _has_hooks(optimizer):
            return original(self, optimizer, optimizer_state, *args, **kwargs)
        if _forms.get(optimizer) == [_form(optimizer), _chosen(optimizer)]:
            return _step_and_set_back(optimizer, found[0] != 0)
        return _step_if_read(optimizer, lambda: original(self, optimizer, optimizer_state))

    torch.amp.GradScaler._maybe_opt_step = maybe_step  # type: ignore[method-assign]
