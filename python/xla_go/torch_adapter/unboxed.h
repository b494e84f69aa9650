// Kernels that torch calls with C++ arguments, for operators on nothing but tensors and numbers:
// most calls of a program are of such, and a stack of boxed values costs each of them an allocation
// and several moves.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <memory>
#include <optional>
#include <string>
#include <type_traits>

namespace xla_go {

// Kernel has `at::Tensor call(const c10::OperatorHandle&, c10::IValue*)`, which gives the result,
// for operators that write in place any tensor.
template <class Kernel, class... Arguments>
struct UnboxedFunction {
  std::shared_ptr<Kernel> kernel;
  c10::OperatorHandle op;

  at::Tensor operator()(Arguments... arguments) const {
    c10::IValue values[] = {c10::IValue(arguments)...};
    return kernel->call(op, values);
  }
};

template <class Kernel, class... Arguments>
struct UnboxedInPlace {
  std::shared_ptr<Kernel> kernel;
  c10::OperatorHandle op;

  at::Tensor& operator()(at::Tensor& self, Arguments... arguments) const {
    c10::IValue values[] = {c10::IValue(self), c10::IValue(arguments)...};
    kernel->call(op, values);
    return self;
  }
};

// The kinds of a schema's arguments, T for a tensor and S for a number; "" where there is another,
// or where it does not give just one tensor.
inline std::string unboxed_kinds(const c10::FunctionSchema& schema) {
  std::string kinds;
  for (const c10::Argument& argument : schema.arguments()) {
    switch (argument.real_type()->kind()) {
      case c10::TypeKind::TensorType:
        kinds += 'T';
        break;
      case c10::TypeKind::NumberType:
        kinds += 'S';
        break;
      default:
        return "";
    }
  }
  return schema.returns().size() == 1 ? kinds : "";
}

// The function for a schema, with a kernel that `make` gives as a shared pointer; none, and no
// kernel is made, where its arguments are of other kinds.
template <class Make>
std::optional<torch::CppFunction> unboxed(const Make& make, const c10::OperatorHandle& op,
                                          bool in_place) {
  using Kernel = typename std::invoke_result_t<Make>::element_type;
  using T = const at::Tensor&;
  using S = const at::Scalar&;
  const std::string kinds = (in_place ? "in place " : "") + unboxed_kinds(op.schema());
  if (kinds == "T") return torch::CppFunction(UnboxedFunction<Kernel, T>{make(), op});
  if (kinds == "TT") return torch::CppFunction(UnboxedFunction<Kernel, T, T>{make(), op});
  if (kinds == "TS") return torch::CppFunction(UnboxedFunction<Kernel, T, S>{make(), op});
  if (kinds == "TTT") return torch::CppFunction(UnboxedFunction<Kernel, T, T, T>{make(), op});
  if (kinds == "TTS") return torch::CppFunction(UnboxedFunction<Kernel, T, T, S>{make(), op});
  if (kinds == "TSS") return torch::CppFunction(UnboxedFunction<Kernel, T, S, S>{make(), op});
  if (kinds == "TTTS") return torch::CppFunction(UnboxedFunction<Kernel, T, T, T, S>{make(), op});
  if (kinds == "TTTSS")
    return torch::CppFunction(UnboxedFunction<Kernel, T, T, T, S, S>{make(), op});
  if (kinds == "in place T") return torch::CppFunction(UnboxedInPlace<Kernel>{make(), op});
  if (kinds == "in place TT") return torch::CppFunction(UnboxedInPlace<Kernel, T>{make(), op});
  if (kinds == "in place TS") return torch::CppFunction(UnboxedInPlace<Kernel, S>{make(), op});
  if (kinds == "in place TTS") return torch::CppFunction(UnboxedInPlace<Kernel, T, S>{make(), op});
  if (kinds == "in place TTTS")
    return torch::CppFunction(UnboxedInPlace<Kernel, T, T, S>{make(), op});
  return std::nullopt;
}

}  // namespace xla_go
