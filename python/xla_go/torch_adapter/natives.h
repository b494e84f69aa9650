// The kernels of key XLA that are not runtime rows: factories, views, storage surgery, copies.
#pragma once

#include <torch/library.h>

namespace xla_go {

void register_natives(torch::Library& library);

}  // namespace xla_go
