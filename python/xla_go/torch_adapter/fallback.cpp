#include "fallback.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/CPUFallback.h>

#include <atomic>
#include <memory>

#include "arguments.h"
#include "errors.h"
#include "runtime.h"

namespace xla_go {
namespace {

std::atomic<FallbackMode> mode{FallbackMode::cpu};

constexpr auto composite_key = c10::DispatchKey::CompositeExplicitAutogradNonFunctional;

class CompositeKernel final : public c10::OperatorKernel {
 public:
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
    enter();
    op.callBoxedForDispatchKey(composite_key, *stack);
  }
};

std::string full_name(const c10::FunctionSchema& schema) {
  return schema.overload_name().empty() ? schema.name()
                                        : schema.name() + "." + schema.overload_name();
}

bool returns_view(const c10::FunctionSchema& schema) {
  for (const c10::Argument& result : schema.returns()) {
    if (result.alias_info() != nullptr && !result.alias_info()->isWrite()) {
      return true;
    }
  }
  return false;
}

// torch's fallback would move everything to the CPU and so accept operands that no device kernel
// accepts.
void check_devices(const c10::FunctionSchema& schema, const torch::jit::Stack& stack) {
  const size_t count = schema.arguments().size();
  std::optional<c10::Device> device;
  std::optional<c10::Device> foreign;
  const auto look = [&](const at::Tensor& tensor) {
    if (!tensor.defined()) {
      return;
    }
    if (!tensor.is_xla()) {
      if (tensor.dim() != 0) {
        foreign = tensor.device();
      }
    } else if (!device.has_value()) {
      device = tensor.device();
    } else if (*device != tensor.device()) {
      throw_mixed_devices(*device, tensor.device());
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
  if (device.has_value() && foreign.has_value() && !accepts_cpu_indices(schema.name())) {
    throw_mixed_devices(*device, *foreign);
  }
}

}  // namespace

void fall_back(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const xla_go_table& table = enter();
  const c10::FunctionSchema& schema = op.schema();
  if (returns_view(schema)) {
    throw_python(PythonKind::not_implemented_error,
                 full_name(schema) + "(): the view is not implemented on device xla");
  }
  if (fallback_mode() == FallbackMode::error) {
    throw_python(PythonKind::not_implemented_error,
                 full_name(schema) +
                     "(): not implemented on device xla, and XLA_GO_FALLBACK=error or "
                     "xla_go.strict() forbids running it on the CPU");
  }
  check_devices(schema, *stack);
  table.count(schema.name().c_str(), 1);
  at::native::cpu_fallback(op, stack);
}

int register_composites(torch::Library& library) {
  int registered = 0;
  c10::Dispatcher& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    if (name.name.rfind("aten::", 0) != 0) {
      continue;
    }
    const auto op = dispatcher.findSchema(name);
    if (!op.has_value() || !op->hasKernelForDispatchKey(composite_key) ||
        op->hasKernelForDispatchKey(c10::DispatchKey::CPU) ||
        op->hasKernelForDispatchKey(c10::DispatchKey::XLA)) {
      continue;
    }
    library.impl(full_name(op->schema()).c_str(),
                 torch::CppFunction::makeFromBoxedFunctor(std::make_unique<CompositeKernel>()));
    ++registered;
  }
  return registered;
}

void register_fallback(torch::Library& library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&fall_back>());
}

void set_fallback_mode(FallbackMode new_mode) { mode.store(new_mode, std::memory_order_relaxed); }

FallbackMode fallback_mode() { return mode.load(std::memory_order_relaxed); }

}  // namespace xla_go
