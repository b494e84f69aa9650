// Runtime rows as kernels: one boxed entry that turns an operator call into a C record, calls the
// runtime once, and wraps the results.
#pragma once

#include <torch/library.h>

#include <cstdint>
#include <string>
#include <vector>

namespace xla_go {

// Registers every row of rows_gen.h whose schema this torch has and that has no kernel yet.
// Returns the names of the rows whose schema this entry cannot serve.
std::vector<std::string> register_rows(torch::Library& aten, torch::Library& own);

// Identifies the table of rows that this adapter was built with.
extern const uint64_t rows_digest;

// Calls made through rows since the process began.
int64_t row_call_count();

}  // namespace xla_go
