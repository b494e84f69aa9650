// What happens to operators that have no row: composites of torch's own, and torch's CPU kernels.
#pragma once

#include <torch/library.h>

#include <string>

namespace xla_go {

// Registers the composites that torch keeps from key XLA (CompositeExplicitAutogradNonFunctional
// kernels of operators that no backend implements). Returns how many.
int register_composites(torch::Library& library);

// Registers the fallback for every other operator: it runs on the CPU and is counted as
// "aten::<name>", or raises NotImplementedError in mode "error". Operators that return a view
// always raise: a copy in its place would lose later writes.
void register_fallback(torch::Library& library);

// Runs one call that way: for a row that says that it cannot express the call.
void fall_back(const c10::OperatorHandle& op, torch::jit::Stack* stack);

enum class FallbackMode { cpu, error };
void set_fallback_mode(FallbackMode mode);
FallbackMode fallback_mode();

}  // namespace xla_go
