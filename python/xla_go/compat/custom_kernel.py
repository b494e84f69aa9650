"""What `torch_xla.experimental.custom_kernel` gives after `xla_go.compat.install()`: what needs no kernel of a TPU's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from xla_go.compat._missing import attribute_error
from xla_go.spmd import Mesh, get_global_mesh, mark_sharding_with_gradients


def flash_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    causal: bool = False,
    q_segment_ids: torch.Tensor | None = None,
    kv_segment_ids: torch.Tensor | None = None,
    sm_scale: float = 1.0,
    *,
    ab: torch.Tensor | None = None,
    partition_spec: Sequence[Any] | None = None,
    mesh: Mesh | None = None,
) -> torch.Tensor:
    """softmax(sm_scale q k' + ab) v over [batch, heads, length, size], with gradients, as products of XLA's: there is no kernel.

    Its memory therefore grows with both lengths' product. Causal: a position sees those up to its own. With segment ids,
    [batch, length], it sees those of its own segment. ab is added to the scores. partition_spec says how q, k, v and the
    result lie over the mesh, the global one by default. ValueError for segment ids of one side alone, or no mesh.
    """
    if (q_segment_ids is None) != (kv_segment_ids is None):
        raise ValueError("flash_attention(): expected q_segment_ids and kv_segment_ids, got one of them")
    mesh = mesh or get_global_mesh()
    if partition_spec is not None:
        if mesh is None:
            raise ValueError("flash_attention(): expected a mesh, or one from set_global_mesh(), for partition_spec")
        q, k, v = (mark_sharding_with_gradients(one, mesh, tuple(partition_spec)) for one in (q, k, v))
    bias = None if ab is None else ab.to(q.dtype)
    seen = None
    if causal:
        seen = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=q.device).tril()
    if q_segment_ids is not None and kv_segment_ids is not None:
        same = q_segment_ids[:, None, :, None] == kv_segment_ids[:, None, None, :]
        seen = same if seen is None else seen & same
    if seen is not None:
        bias = torch.where(seen, 0.0 if bias is None else bias, float("-inf")).to(q.dtype)
    result = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=bias, scale=sm_scale)
    return result if partition_spec is None or mesh is None else mark_sharding_with_gradients(result, mesh, tuple(partition_spec))


def repeat_with_fixed_output_size(input: torch.Tensor, repeats: torch.Tensor, total_repeat_length: int) -> torch.Tensor:
    """torch.repeat_interleave of a vector, cut to a length, or filled up to it with its last element.

    The result's size does not depend on values, so the device computes it within the step.
    """
    if input.dim() != 1 or repeats.dim() != 1:
        raise ValueError(f"repeat_with_fixed_output_size(): expected two vectors, got {tuple(input.shape)} and {tuple(repeats.shape)}")
    positions = torch.arange(total_repeat_length, device=input.device, dtype=repeats.dtype)
    owners = torch.searchsorted(repeats.cumsum(0), positions, right=True)
    return input[owners.clamp(max=input.shape[0] - 1)]


def __getattr__(name: str) -> Any:
    raise attribute_error("torch_xla.experimental.custom_kernel", name)
