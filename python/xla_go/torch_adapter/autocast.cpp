#include "autocast.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <memory>
#include <string>

// torch's lists AT_FORALL_*, copied out of its autocast_mode.h when the adapter is built: that
// header includes all of ATen and would double the time of the build.
#include "autocast_lists.h"

// The two functions of that header that are used here.
namespace at::autocast {
TORCH_API Tensor cached_cast(ScalarType to_type, const Tensor& arg, c10::DeviceType device_type);
TORCH_API ScalarType get_autocast_dtype(c10::DeviceType device_type);
}  // namespace at::autocast

namespace xla_go {
namespace {

using at::autocast::cached_cast;

bool is_eligible(const at::Tensor& tensor) {
  return tensor.defined() && tensor.is_xla() && tensor.is_floating_point() &&
         tensor.scalar_type() != at::kDouble;
}

enum class Policy {
  lower_precision,    // floating inputs to the autocast dtype
  fp32,               // floating inputs to float32
  fp32_set_dtype,     // a missing dtype argument becomes float32
  fp32_append_dtype,  // calls the overload that takes a dtype, with float32
  promote,            // floating inputs to the widest dtype among them
};

c10::IValue cast_value(const c10::IValue& value, at::ScalarType dtype) {
  if (value.isTensor()) {
    return cached_cast(dtype, value.toTensor(), c10::kXLA);
  }
  if (value.isTensorList()) {
    c10::List<at::Tensor> cast;
    for (const c10::IValue& element : value.toListRef()) {
      cast.push_back(cached_cast(dtype, element.toTensor(), c10::kXLA));
    }
    return cast;
  }
  return value;
}

void cast_arguments(torch::jit::Stack& stack, size_t count, at::ScalarType dtype) {
  for (size_t i = stack.size() - count; i < stack.size(); ++i) {
    if (stack[i].isTensor() || stack[i].isTensorList()) {
      stack[i] = cast_value(stack[i], dtype);
    }
  }
}

// float32 wherever one operand has it, else the autocast dtype; float64 operands do not count.
at::ScalarType widest_dtype(const torch::jit::Stack& stack, size_t count) {
  const at::ScalarType lower = at::autocast::get_autocast_dtype(c10::kXLA);
  at::ScalarType widest = lower;
  const auto look = [&](const at::Tensor& tensor) {
    if (!is_eligible(tensor)) {
      return;
    }
    TORCH_CHECK(tensor.scalar_type() == lower || tensor.scalar_type() == at::kFloat,
                "autocast: expected operands of dtype ", lower, " or Float, got ",
                tensor.scalar_type());
    if (tensor.scalar_type() == at::kFloat) {
      widest = at::kFloat;
    }
  };
  for (const c10::IValue& value : torch::jit::last(stack, count)) {
    if (value.isTensor()) {
      look(value.toTensor());
    } else if (value.isTensorList()) {
      for (const c10::IValue& element : value.toListRef()) {
        look(element.toTensor());
      }
    }
  }
  return widest;
}

class AutocastKernel final : public c10::OperatorKernel {
 public:
  AutocastKernel(Policy policy, const c10::OperatorHandle& op)
      : policy_(policy), argument_count_(op.schema().arguments().size()) {
    if (policy == Policy::fp32_set_dtype) {
      const auto index = op.schema().argumentIndexWithName("dtype");
      dtype_index_ = index.has_value() ? *index : -1;
    }
  }

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
    c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::DispatchKey::AutocastXLA);
    switch (policy_) {
      case Policy::lower_precision:
        cast_arguments(*stack, argument_count_, at::autocast::get_autocast_dtype(c10::kXLA));
        break;
      case Policy::fp32:
        cast_arguments(*stack, argument_count_, at::kFloat);
        break;
      case Policy::promote:
        cast_arguments(*stack, argument_count_, widest_dtype(*stack, argument_count_));
        break;
      case Policy::fp32_set_dtype:
        set_dtype(*stack);
        break;
      case Policy::fp32_append_dtype:
        call_with_dtype(op, *stack);
        return;
    }
    op.callBoxed(stack);
  }

 private:
  bool first_is_eligible(const torch::jit::Stack& stack) const {
    const c10::IValue& first = stack[stack.size() - argument_count_];
    return first.isTensor() && is_eligible(first.toTensor());
  }

  void set_dtype(torch::jit::Stack& stack) const {
    if (dtype_index_ < 0 || !first_is_eligible(stack)) {
      return;
    }
    c10::IValue& dtype = stack[stack.size() - argument_count_ + static_cast<size_t>(dtype_index_)];
    if (dtype.isNone()) {
      dtype = static_cast<int64_t>(at::kFloat);
    }
  }

  void call_with_dtype(const c10::OperatorHandle& op, torch::jit::Stack& stack) const {
    const c10::IValue& first = stack[stack.size() - argument_count_];
    const at::ScalarType dtype =
        first_is_eligible(stack) ? at::kFloat : first.toTensor().scalar_type();
    const std::string& overload = op.schema().overload_name();
    const char* typed = overload == "Scalar"          ? "ScalarOpt_dtype"
                        : overload == "ScalarOpt_dim" ? "ScalarOpt_dim_dtype"
                                                      : "names_ScalarOpt_dim_dtype";
    stack.emplace_back(static_cast<int64_t>(dtype));
    c10::Dispatcher::singleton().findSchemaOrThrow("aten::norm", typed).callBoxed(&stack);
  }

  Policy policy_;
  size_t argument_count_;
  int dtype_index_ = -1;
};

// `name` is "op" or "op, overload", the text of a macro's arguments.
void register_one(torch::Library& library, const std::string& name, Policy policy) {
  const auto comma = name.find(", ");
  const std::string base = "aten::" + name.substr(0, comma);
  const std::string overload = comma == std::string::npos ? "" : name.substr(comma + 2);
  const auto op = c10::Dispatcher::singleton().findSchema({base, overload});
  if (!op.has_value()) {
    return;
  }
  const std::string full = overload.empty() ? base : base + "." + overload;
  library.impl(full.c_str(), torch::CppFunction::makeFromBoxedFunctor(
                                 std::make_unique<AutocastKernel>(policy, *op)));
}

}  // namespace

void register_autocast(torch::Library& library) {
#define XLA_GO_LOWER(...) register_one(library, #__VA_ARGS__, Policy::lower_precision);
  AT_FORALL_LOWER_PRECISION_FP(XLA_GO_LOWER)
#undef XLA_GO_LOWER
#define XLA_GO_FP32(...) register_one(library, #__VA_ARGS__, Policy::fp32);
  AT_FORALL_FP32(XLA_GO_FP32)
#undef XLA_GO_FP32
#define XLA_GO_SET_DTYPE(...) register_one(library, #__VA_ARGS__, Policy::fp32_set_dtype);
  AT_FORALL_FP32_SET_OPT_DTYPE(XLA_GO_SET_DTYPE)
#undef XLA_GO_SET_DTYPE
#define XLA_GO_PROMOTE(...) register_one(library, #__VA_ARGS__, Policy::promote);
  AT_FORALL_PROMOTE(XLA_GO_PROMOTE)
#undef XLA_GO_PROMOTE
  for (const char* name : {"norm, Scalar", "norm, ScalarOpt_dim", "norm, names_ScalarOpt_dim"}) {
    register_one(library, name, Policy::fp32_append_dtype);
  }
}

void register_autocast_fallthrough(torch::Library& library) {
  library.fallback(torch::CppFunction::makeFallthrough());
}

}  // namespace xla_go
