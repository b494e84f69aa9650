#include "collective.h"

namespace xla_go {

void define_collectives(torch::Library& library) {
  library.def(
      "all_reduce(Tensor self, str reduce_type, float scale, int[] groups, int group_size)"
      " -> Tensor");
  library.def("all_gather(Tensor self, int dim, int[] groups, int group_size) -> Tensor");
  library.def(
      "reduce_scatter(Tensor self, str reduce_type, float scale, int scatter_dim, int[] groups,"
      " int group_size) -> Tensor");
  library.def(
      "all_to_all(Tensor self, int split_dim, int concat_dim, int[] groups, int group_size)"
      " -> Tensor");
  library.def("full_to_shard_shape(Tensor self, str sharding) -> Tensor");
  library.def("shard_to_full_shape(Tensor self, str sharding, int[] full_shape) -> Tensor");
  library.def("shard_as(Tensor self, Tensor other) -> (Tensor, Tensor)");
  library.def("collective_permute(Tensor self, int[] pairs) -> Tensor");
  library.def(
      "collective_broadcast(Tensor self, int root, int[] groups, int group_size) -> Tensor");
  library.def("placeholder_like(Tensor self) -> Tensor");
  library.def(
      "scan(Tensor[] init, Tensor[] xs, Tensor[] carry, Tensor[] x, Tensor[] next_carry, Tensor[] "
      "y,"
      " Tensor(a!)[] results, int length, bool reverse, *,"
      " Generator? generator=None) -> ()");
  library.def(
      "while_loop(Tensor[] init, Tensor[] state, Tensor condition, Tensor[] next_state,"
      " Tensor(a!)[] results) -> ()");
  library.def(
      "custom_call(Tensor[] inputs, Tensor(a!)[] results, str target, str configuration,"
      " bool side_effect, int api_version, str attributes) -> ()");
  library.def("generator_state(Tensor self, int numbers, *, Generator? generator=None) -> Tensor");
  library.def(
      "mark(Tensor self, str name, int position, str id, bool is_input, str attributes) -> Tensor");
  library.def("call_module(Tensor[] inputs, Tensor(a!)[] results, int module) -> ()");
  library.def(
      "dot_general(Tensor lhs, Tensor rhs, int[] lhs_contracting, int[] rhs_contracting,"
      " int[] lhs_batch, int[] rhs_batch, ScalarType dtype, bool four_bits) -> Tensor");
  library.def("optimization_barrier(Tensor[] values, Tensor(a!)[] results) -> ()");
}

}  // namespace xla_go
