// Autocast of device xla, with torch's own lists of operators.
#pragma once

#include <torch/library.h>

namespace xla_go {

// Registers the operators of torch's lists on key AutocastXLA.
void register_autocast(torch::Library& library);

// Lets every other operator pass key AutocastXLA unchanged.
void register_autocast_fallthrough(torch::Library& library);

}  // namespace xla_go
