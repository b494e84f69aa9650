#include "strides.h"

#include <ATen/TensorIterator.h>
#include <ATen/ops/empty_strided.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "storage.h"
#include "transfer.h"

namespace xla_go {
namespace {

using std::string_view;

// Operators without the tag `pointwise` whose CPU kernels give results in the order of their
// inputs.
constexpr std::array<string_view, 7> ordered = {
    "aten::flip",      "aten::native_dropout", "aten::rrelu_with_noise",       "aten::sort",
    "aten::bernoulli", "aten::_prelu_kernel",  "aten::_prelu_kernel_backward",
};

// Operators with that tag whose results are row-major all the same.
constexpr std::array<string_view, 1> row_major = {"aten::masked_fill"};

// Operators whose results have the memory format of their first input: beginnings of names.
constexpr std::array<string_view, 18> formatted = {
    "aten::convolution",
    "aten::max_pool2d_with_indices",
    "aten::max_pool3d_with_indices",
    "aten::avg_pool2d",
    "aten::avg_pool3d",
    "aten::_adaptive_avg_pool",
    "aten::adaptive_max_pool",
    "aten::upsample_",
    "aten::_upsample_",
    "aten::native_batch_norm",
    "aten::_native_batch_norm_legit",
    "aten::native_group_norm",
    "aten::cat",
    "aten::constant_pad_nd",
    "aten::reflection_pad",
    "aten::replication_pad",
    "aten::glu",
    "aten::roll",
};

bool starts_with(string_view text, string_view start) {
  return text.substr(0, start.size()) == start;
}

const at::Tensor* tensor_in(const c10::IValue& value) {
  return value.isTensor() && value.toTensor().defined() ? &value.toTensor() : nullptr;
}

// Whether it has other strides than a new tensor, be it in a dimension of one element: where inputs
// are broadcast, those count too.
bool strided(const c10::IValue& value) {
  const at::Tensor* tensor = tensor_in(value);
  if (tensor == nullptr) {
    return false;
  }
  const c10::IntArrayRef sizes = tensor->sizes();
  const c10::IntArrayRef strides = tensor->strides();
  int64_t expected = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    if (strides[i] != expected) {
      return true;
    }
    expected *= std::max<int64_t>(sizes[i], 1);
  }
  return false;
}

at::Tensor laid_out(at::Tensor result, c10::IntArrayRef strides) {
  if (result.strides() == strides) {
    return result;
  }
  at::Tensor copied = at::empty_strided(result.sizes(), strides, result.options());
  copy_on_device(copied, result);
  return copied;
}

at::Tensor as_iterated(at::Tensor result, const c10::IValue* arguments, size_t count) {
  if (C10_LIKELY(std::none_of(arguments, arguments + count, strided))) {
    return result;
  }
  at::TensorIteratorConfig config;
  config.set_check_mem_overlap(false)
      .check_all_same_dtype(false)
      .check_all_same_device(false)
      .declare_static_dtype_and_device(result.scalar_type(), at::kMeta)
      .add_owned_output(at::Tensor());
  for (size_t i = 0; i < count; ++i) {
    if (const at::Tensor* tensor = tensor_in(arguments[i])) {
      config.add_owned_const_input(*tensor);
    }
  }
  const at::TensorIterator iterator = config.build();
  const at::TensorBase& like = iterator.output();
  return like.sizes() == result.sizes() ? laid_out(std::move(result), like.strides()) : result;
}

// The memory format that a value asks for: of a list, the one that all its tensors have.
c10::MemoryFormat format_of(const c10::IValue& value) {
  if (const at::Tensor* tensor = tensor_in(value)) {
    return tensor->suggest_memory_format();
  }
  c10::MemoryFormat common = c10::MemoryFormat::Contiguous;
  if (value.isTensorList()) {
    bool first = true;
    for (const at::Tensor& tensor : value.toTensorVector()) {
      const c10::MemoryFormat format = tensor.suggest_memory_format();
      if (!first && format != common) {
        return c10::MemoryFormat::Contiguous;
      }
      common = format;
      first = false;
    }
  }
  return common;
}

at::Tensor as_formatted(at::Tensor result, const c10::IValue* arguments, size_t count) {
  // The last memory formats are of four and of five dimensions.
  if (C10_LIKELY(result.dim() < 4) || result.dim() > 5 || count == 0) {
    return result;
  }
  const bool plane = result.dim() == 4;
  const auto last = plane ? c10::MemoryFormat::ChannelsLast : c10::MemoryFormat::ChannelsLast3d;
  for (size_t i = 0; i < count && (tensor_in(arguments[i]) || arguments[i].isTensorList()); ++i) {
    if (format_of(arguments[i]) == last) {
      return laid_out(std::move(result), plane ? c10::get_channels_last_strides_2d(result.sizes())
                                               : c10::get_channels_last_strides_3d(result.sizes()));
    }
    if (arguments[i].isTensorList()) {
      break;
    }
  }
  return result;
}

}  // namespace

StrideRule stride_rule(const c10::OperatorHandle& op) {
  const string_view name = op.schema().name();
  const auto is_name = [&](string_view other) { return other == name; };
  const auto is_start = [&](string_view start) { return starts_with(name, start); };
  if (op.hasTag(at::Tag::pointwise)) {
    return std::any_of(row_major.begin(), row_major.end(), is_name) ? StrideRule::row_major
                                                                    : StrideRule::iterator;
  }
  if (std::any_of(ordered.begin(), ordered.end(), is_name)) {
    return StrideRule::iterator;
  }
  return std::any_of(formatted.begin(), formatted.end(), is_start) ? StrideRule::memory_format
                                                                   : StrideRule::row_major;
}

at::Tensor with_strides(at::Tensor result, StrideRule rule, const c10::IValue* arguments,
                        size_t count) {
  if (rule == StrideRule::row_major || !result.defined() || result.dim() < 2 ||
      result.numel() < 2) {
    return result;
  }
  return rule == StrideRule::iterator ? as_iterated(std::move(result), arguments, count)
                                      : as_formatted(std::move(result), arguments, count);
}

}  // namespace xla_go
