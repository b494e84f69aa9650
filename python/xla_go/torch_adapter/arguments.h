// Turning the arguments of a boxed operator call into flat records.
#pragma once

#include <ATen/core/function_schema.h>
#include <ATen/core/stack.h>

#include <string>
#include <vector>

#include "frame.h"

namespace xla_go {

enum class ListKind : uint8_t { none, ints, doubles, bools, tensors, scalars, other };

// What the schema says about one argument beyond the tag of its value.
struct ArgumentInfo {
  ListKind list = ListKind::none;
  bool generator = false;
};

std::vector<ArgumentInfo> describe_arguments(const c10::FunctionSchema& schema);

// Fills frame.arguments from `values` (`count` of them) and returns the device index of the call:
// that of its xla tensors, else of its device argument, else the current one. Raises for operands
// on two devices. Where `upload_cpu_indices` is set, CPU tensors in tensor lists are uploaded and
// take the place of the originals in `values`.
int flatten_arguments(Frame& frame, c10::IValue* values, const ArgumentInfo* infos, size_t count,
                      bool upload_cpu_indices);

// Raises torch's error for operands on two devices.
[[noreturn]] void throw_mixed_devices(const c10::Device& first, const c10::Device& second);

// True for the operators that take CPU index tensors beside tensors of a device.
bool accepts_cpu_indices(const std::string& operator_name);

}  // namespace xla_go
