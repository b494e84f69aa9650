"""Programs partitioned over several devices, under the names of torch_xla.distributed.spmd.

`xla_go.runtime.use_spmd()` makes device xla stand for all devices. `mark_sharding` says how a tensor is divided over a
`Mesh` of them; XLA's partitioner divides everything else to match, and puts the collectives in.
"""

from xla_go.spmd.dtensor import DistributedTensor, xla_distribute_module, xla_distribute_tensor
from xla_go.spmd.fsdp import SpmdFullyShardedDataParallel
from xla_go.spmd.fully_shard import fully_shard
from xla_go.spmd.manual import disable_manual_sharding, enable_manual_sharding, shard_as
from xla_go.spmd.mesh import HybridMesh, Mesh, get_1d_mesh, get_global_mesh, set_global_mesh
from xla_go.spmd.program import ProgramShardings, ValueSharding, program_shardings
from xla_go.spmd.sharded_tensor import (
    XLAShard,
    XLAShardedTensor,
    from_shards,
    unwrap_sharded_tensor,
    wrap_as_sharded_tensor,
    wrap_if_sharded,
)
from xla_go.spmd.sharding import (
    ShardingSpec,
    ShardingType,
    annotate_custom_sharding,
    clear_sharding,
    mark_sharding,
    mark_sharding_with_gradients,
)
from xla_go.spmd.visualize import draw_sharding, visualize_sharding, visualize_tensor_sharding

__all__ = [
    "DistributedTensor",
    "HybridMesh",
    "Mesh",
    "ProgramShardings",
    "ShardingSpec",
    "ShardingType",
    "SpmdFullyShardedDataParallel",
    "ValueSharding",
    "XLAShard",
    "XLAShardedTensor",
    "annotate_custom_sharding",
    "clear_sharding",
    "disable_manual_sharding",
    "draw_sharding",
    "enable_manual_sharding",
    "from_shards",
    "fully_shard",
    "get_1d_mesh",
    "get_global_mesh",
    "mark_sharding",
    "mark_sharding_with_gradients",
    "program_shardings",
    "set_global_mesh",
    "shard_as",
    "unwrap_sharded_tensor",
    "visualize_sharding",
    "visualize_tensor_sharding",
    "wrap_as_sharded_tensor",
    "wrap_if_sharded",
    "xla_distribute_module",
    "xla_distribute_tensor",
]
