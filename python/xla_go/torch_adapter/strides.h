// Strides of results, as torch's own devices give them.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

namespace xla_go {

// Where an operator's results get their strides from.
enum class StrideRule {
  row_major,
  iterator,       // the order of the inputs' strides, as torch's TensorIterator does
  memory_format,  // channels last where the inputs are
};

StrideRule stride_rule(const c10::OperatorHandle& op);

// `result`, which is row-major, with the strides that the rule gives it for these arguments: code
// that calls view() after an operator on a transposed tensor counts on them.
at::Tensor with_strides(at::Tensor result, StrideRule rule, const c10::IValue* arguments,
                        size_t count);

}  // namespace xla_go
