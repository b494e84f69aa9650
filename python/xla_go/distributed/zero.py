"""ZeroRedundancyOptimizer: an optimizer of which each replica keeps, and steps, its part of every parameter alone (ZeRO-1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from xla_go.distributed._parts import Parts, scale_to
from xla_go.distributed.collective import REDUCE_SUM, Groups

__all__ = ["ZeroRedundancyOptimizer"]


class ZeroRedundancyOptimizer(torch.optim.Optimizer):
    """`optimizer_class` over the parts of the parameters that are this replica's: of N replicas each keeps 1/N of its state.

    Parameters are divided along their first dimension, with zeros to fill up the last part. A step averages the gradients
    over the replicas so that each gets its part (reduce_scatter), steps the parts, and joins them to the parameters again
    (all_gather): instead of xm.optimizer_step, and not after it. All replicas have gradients for the same parameters.

    optimizer_dtype is the parts' type, by default the parameter's. grad_clipping scales gradients so that the norm of all of
    them together is at most max_norm (1.0). sharding_groups are the replicas that divide parameters among themselves, lists
    of ordinals of one size; over grad_norm_groups the squares of norms are added up besides (those of tensor parallelism).
    pin_layout changes nothing. Other keywords are optimizer_class's.
    """

    def __init__(
        self,
        params: Any,
        optimizer_class: type[torch.optim.Optimizer],
        optimizer_dtype: torch.dtype | None = None,
        grad_clipping: bool = True,
        max_norm: float | None = None,
        pin_layout: bool = True,
        sharding_groups: Groups = None,
        grad_norm_groups: Groups = None,
        save_master_weights: bool = False,
        **defaults: Any,
    ) -> None:
        super().__init__(params, defaults)
        self._parts = Parts(sharding_groups)
        self._clips, self._max_norm = grad_clipping, 1.0 if max_norm is None else max_norm
        self._norm_groups, self._saves_parts = grad_norm_groups, save_master_weights
        self._own: dict[nn.Parameter, nn.Parameter] = {}
        for group in self.param_groups:
            for parameter in group["params"]:
                part = self._parts.of(parameter.detach())
                self._own[parameter] = nn.Parameter(part.to(optimizer_dtype or part.dtype), requires_grad=parameter.requires_grad)
        groups = [{**group, "params": [self._own[one] for one in group["params"]]} for group in self.param_groups]
        self.base_optimizer = optimizer_class(groups, **defaults)
        for group, base in zip(self.param_groups, self.base_optimizer.param_groups, strict=True):
            group.update({name: value for name, value in base.items() if name != "params"})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None, **arguments: Any) -> Any:  # type: ignore[override]
        """Steps, and gives what `closure` gives; `arguments` are for the base optimizer's step. Not blocking."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        own = {parameter: part for parameter, part in self._own.items() if parameter.grad is not None}
        for parameter, part in own.items():
            part.grad = self._parts.mean_of(parameter.grad.to(part.dtype))  # type: ignore[union-attr]
        if self._clips and own:
            self._clip([part.grad for part in own.values() if part.grad is not None])
        self._tell_options()
        self.base_optimizer.step(**arguments)
        self.base_optimizer.zero_grad(set_to_none=True)
        for parameter, part in own.items():
            parameter.copy_(self._parts.join(part.to(parameter.dtype), parameter.shape))
        return loss

    def _clip(self, gradients: list[torch.Tensor]) -> None:
        squares = torch.stack([one.float().square().sum() for one in gradients]).sum()
        squares = self._parts.total(REDUCE_SUM, squares, self._norm_groups)
        scale_to(gradients, squares.sqrt(), self._max_norm)

    def _tell_options(self) -> None:
        """Learning rates and the like, which schedulers change here."""
        for group, base in zip(self.param_groups, self.base_optimizer.param_groups, strict=True):
            base.update({name: value for name, value in group.items() if name != "params"})

    def state_dict(self) -> dict[str, Any]:
        """torch's, with `base_state`: what the base optimizer keeps for this replica's parts, by the parameters' numbers.

        `shape_info` has the parameters' own shapes; with save_master_weights `sharded_master_weights` has the parts.
        """
        saved = super().state_dict()
        self._tell_options()
        saved["base_state"] = self.base_optimizer.state_dict()["state"]
        numbered = dict(enumerate(self._own.items()))
        saved["shape_info"] = {number: tuple(parameter.shape) for number, (parameter, _) in numbered.items()}
        if self._saves_parts:
            saved["sharded_master_weights"] = {number: part.detach() for number, (_, part) in numbered.items()}
        return saved

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes a state_dict of the same replica, of as many replicas. ValueError where parameters have other shapes."""
        shapes = {number: tuple(parameter.shape) for number, parameter in enumerate(self._own)}
        given = {number: tuple(shape) for number, shape in state_dict["shape_info"].items()}
        if given != shapes:
            raise ValueError(f"load_state_dict(): expected the state of parameters of shapes {list(shapes.values())}, got {list(given.values())}")
        super().load_state_dict({"state": state_dict["state"], "param_groups": state_dict["param_groups"]})
        groups = self.base_optimizer.state_dict()["param_groups"]
        self.base_optimizer.load_state_dict({"state": state_dict["base_state"], "param_groups": groups})
        self._tell_options()
        weights = state_dict.get("sharded_master_weights")
        if weights is not None:
            with torch.no_grad():
                for number, (parameter, part) in enumerate(self._own.items()):
                    part.copy_(weights[number])
                    parameter.copy_(self._parts.join(part.to(parameter.dtype), parameter.shape))
