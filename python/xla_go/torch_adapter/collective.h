// The operators of xla_go's own namespace: collectives between replicas. Their kernels are rows.
#pragma once

#include <torch/library.h>

namespace xla_go {

// library is a definition of the namespace xla_go.
void define_collectives(torch::Library& library);

}  // namespace xla_go
