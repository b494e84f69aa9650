#include "arguments.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/jit_type.h>
#include <c10/core/Scalar.h>

#include <algorithm>
#include <array>

#include "errors.h"
#include "generator.h"
#include "guard.h"
#include "storage.h"
#include "transfer.h"

namespace xla_go {
namespace {

constexpr int no_device = -1;

// The walk over one call's arguments.
class Flattener {
 public:
  Flattener(Frame& frame, bool upload_cpu_indices)
      : frame_(frame), upload_cpu_indices_(upload_cpu_indices) {}

  void add(xla_go_argument& argument, c10::IValue& value, const ArgumentInfo& info) {
    if (value.isTensor()) {
      add_tensor(argument, value.toTensor());
    } else if (value.isInt()) {
      argument.tag = XLA_GO_INT;
      argument.i = value.toInt();
      argument.d = static_cast<double>(argument.i);
    } else if (value.isDouble()) {
      argument.tag = XLA_GO_DOUBLE;
      argument.d = value.toDouble();
    } else if (value.isBool()) {
      argument.tag = XLA_GO_BOOL;
      argument.i = value.toBool() ? 1 : 0;
      argument.d = static_cast<double>(argument.i);
    } else if (value.isNone()) {
      argument.tag = XLA_GO_NONE;
    } else if (value.isList()) {
      add_list(argument, value, info.list);
    } else {
      add_other(argument, value);
    }
  }

  int device() const { return device_ != no_device ? device_ : device_argument_; }

 private:
  void note_device(int index) {
    if (device_ == no_device) {
      device_ = index;
    } else if (C10_UNLIKELY(device_ != index)) {
      throw_mixed_devices(c10::Device(c10::kXLA, static_cast<c10::DeviceIndex>(device_)),
                          c10::Device(c10::kXLA, static_cast<c10::DeviceIndex>(index)));
    }
  }

  [[noreturn]] void throw_foreign(const at::Tensor& tensor) {
    const int index = device_ == no_device ? current_device() : device_;
    throw_mixed_devices(c10::Device(c10::kXLA, static_cast<c10::DeviceIndex>(index)),
                        tensor.device());
  }

  void add_tensor(xla_go_argument& argument, const at::Tensor& tensor) {
    const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
    if (C10_UNLIKELY(!tensor.defined())) {
      argument.tag = XLA_GO_NONE;
    } else if (C10_LIKELY(impl->device_type() == c10::kXLA)) {
      argument.tag = XLA_GO_TENSOR;
      fill_record(argument.tensor, *impl);
      note_device(argument.tensor.storage->device);
    } else if (impl->device_type() == c10::kCPU && impl->dim() == 0) {
      add_cpu_scalar(argument, tensor);
    } else {
      throw_foreign(tensor);
    }
  }

  static void add_cpu_scalar(xla_go_argument& argument, const at::Tensor& tensor) {
    argument.tag = XLA_GO_CPU_SCALAR;
    const c10::ScalarType dtype = tensor.scalar_type();
    argument.dtype = static_cast<int32_t>(dtype);
    argument.wrapped_number = tensor.unsafeGetTensorImpl()->is_wrapped_number() ? 1 : 0;
    argument.integral = c10::isIntegralType(dtype, /*includeBool=*/true) ? 1 : 0;
    argument.i = 0;
    argument.d = 0;
    argument.imag = 0;
    switch (dtype) {
      case c10::ScalarType::Double:
        argument.d = *tensor.const_data_ptr<double>();
        return;
      case c10::ScalarType::Float:
        argument.d = *tensor.const_data_ptr<float>();
        return;
      case c10::ScalarType::Long:
        argument.i = *tensor.const_data_ptr<int64_t>();
        argument.d = static_cast<double>(argument.i);
        return;
      default:
        break;
    }
    const at::Scalar value = tensor.item();
    if (argument.integral != 0) {
      argument.i = value.toLong();
      argument.d = static_cast<double>(argument.i);
    } else {
      const auto number = value.toComplexDouble();
      argument.d = number.real();
      argument.imag = number.imag();
    }
  }

  void add_list(xla_go_argument& argument, c10::IValue& value, ListKind kind) {
    const auto elements = value.toListRef();
    argument.count = static_cast<int32_t>(elements.size());
    switch (kind) {
      case ListKind::ints:
        argument.tag = XLA_GO_INT_LIST;
        argument.ints = take_ints(elements);
        break;
      case ListKind::bools:
        argument.tag = XLA_GO_BOOL_LIST;
        argument.ints = take_ints(elements);
        break;
      case ListKind::doubles:
        argument.tag = XLA_GO_DOUBLE_LIST;
        argument.doubles = take_doubles(elements);
        break;
      case ListKind::scalars:
        argument.tag = XLA_GO_SCALAR_LIST;
        argument.doubles = take_doubles(elements);
        argument.integral = std::all_of(elements.begin(), elements.end(),
                                        [](const c10::IValue& e) { return e.isInt(); });
        argument.ints = argument.integral != 0 ? take_ints(elements) : nullptr;
        break;
      case ListKind::tensors:
        if (upload_cpu_indices_) {
          upload_list(value);
        }
        argument.tag = XLA_GO_TENSOR_LIST;
        argument.tensors = take_tensors(value.toListRef());
        break;
      default:
        argument.tag = XLA_GO_OTHER;
    }
  }

  const int64_t* take_ints(c10::ArrayRef<c10::IValue> elements) {
    int64_t* ints = frame_.ints.take(elements.size());
    for (size_t i = 0; i < elements.size(); ++i) {
      ints[i] = elements[i].isBool() ? (elements[i].toBool() ? 1 : 0) : elements[i].toInt();
    }
    return ints;
  }

  const double* take_doubles(c10::ArrayRef<c10::IValue> elements) {
    double* doubles = frame_.doubles.take(elements.size());
    for (size_t i = 0; i < elements.size(); ++i) {
      doubles[i] = elements[i].toScalar().toDouble();
    }
    return doubles;
  }

  const xla_go_tensor* take_tensors(c10::ArrayRef<c10::IValue> elements) {
    xla_go_tensor* tensors = frame_.tensors.take(elements.size());
    for (size_t i = 0; i < elements.size(); ++i) {
      xla_go_tensor& record = tensors[i];
      const bool present = elements[i].isTensor() && elements[i].toTensor().defined();
      if (!present) {
        record = {};
        record.rank = -1;
        continue;
      }
      const at::Tensor& tensor = elements[i].toTensor();
      if (C10_UNLIKELY(!tensor.is_xla())) {
        throw_foreign(tensor);
      }
      fill_record(record, *tensor.unsafeGetTensorImpl());
      note_device(record.storage->device);
    }
    return tensors;
  }

  // Replaces the list in `value` by one whose CPU tensors are on the call's device.
  void upload_list(c10::IValue& value) {
    const auto elements = value.toListRef();
    const bool any_cpu = std::any_of(elements.begin(), elements.end(), [](const auto& element) {
      return element.isTensor() && element.toTensor().defined() && element.toTensor().is_cpu();
    });
    if (!any_cpu) {
      return;
    }
    const int device = device_ == no_device ? current_device() : device_;
    c10::List<std::optional<at::Tensor>> uploaded;
    uploaded.reserve(elements.size());
    for (const c10::IValue& element : elements) {
      if (!element.isTensor() || !element.toTensor().defined()) {
        uploaded.push_back(std::nullopt);
      } else if (element.toTensor().is_cpu()) {
        uploaded.push_back(to_device(element.toTensor(), device));
      } else {
        uploaded.push_back(element.toTensor());
      }
    }
    value = c10::IValue(std::move(uploaded));
  }

  void add_other(xla_go_argument& argument, const c10::IValue& value) {
    if (value.isComplexDouble()) {
      argument.tag = XLA_GO_COMPLEX;
      argument.d = value.toComplexDouble().real();
      argument.imag = value.toComplexDouble().imag();
    } else if (value.isString()) {
      argument.tag = XLA_GO_STRING;
      argument.text = value.toStringRef().c_str();
    } else if (value.isDevice()) {
      device_argument_ = resolve_device(value.toDevice());
      argument.tag = XLA_GO_DEVICE;
      argument.i = device_argument_;
    } else {
      argument.tag = XLA_GO_OTHER;
    }
  }

  Frame& frame_;
  bool upload_cpu_indices_;
  int device_ = no_device;
  int device_argument_ = no_device;
};

ListKind list_kind(const c10::Type& element) {
  switch (element.kind()) {
    case c10::TypeKind::IntType:
    case c10::TypeKind::SymIntType:
      return ListKind::ints;
    case c10::TypeKind::FloatType:
      return ListKind::doubles;
    case c10::TypeKind::BoolType:
      return ListKind::bools;
    case c10::TypeKind::TensorType:
      return ListKind::tensors;
    case c10::TypeKind::OptionalType:
      return list_kind(*element.castRaw<c10::OptionalType>()->getElementType());
    case c10::TypeKind::NumberType:
      return ListKind::scalars;
    default:
      return ListKind::other;
  }
}

}  // namespace

std::vector<ArgumentInfo> describe_arguments(const c10::FunctionSchema& schema) {
  std::vector<ArgumentInfo> infos;
  infos.reserve(schema.arguments().size());
  for (const c10::Argument& argument : schema.arguments()) {
    c10::TypePtr type = argument.real_type();
    if (type->kind() == c10::TypeKind::OptionalType) {
      type = type->castRaw<c10::OptionalType>()->getElementType();
    }
    ArgumentInfo info;
    info.generator = type->kind() == c10::TypeKind::GeneratorType;
    if (type->kind() == c10::TypeKind::ListType) {
      info.list = list_kind(*type->castRaw<c10::ListType>()->getElementType());
    }
    infos.push_back(info);
  }
  return infos;
}

int flatten_arguments(Frame& frame, c10::IValue* values, const ArgumentInfo* infos, size_t count,
                      bool upload_cpu_indices) {
  frame.reset();
  Flattener flattener(frame, upload_cpu_indices);
  size_t generator_index = count;
  for (size_t i = 0; i < count; ++i) {
    if (C10_UNLIKELY(infos[i].generator)) {
      generator_index = i;
    } else {
      flattener.add(frame.arguments[i], values[i], infos[i]);
    }
  }
  const int device = flattener.device() == no_device ? current_device() : flattener.device();
  if (C10_UNLIKELY(generator_index != count)) {
    xla_go_argument& argument = frame.arguments[generator_index];
    argument.tag = XLA_GO_GENERATOR;
    argument.generator = generator_state(values[generator_index].toOptional<at::Generator>(),
                                         device, frame.scratch_generator);
  }
  return device;
}

void throw_mixed_devices(const c10::Device& first, const c10::Device& second) {
  throw_python(PythonKind::runtime_error,
               "Expected all tensors to be on the same device, but found at least two devices, " +
                   first.str() + " and " + second.str() + "!");
}

bool accepts_cpu_indices(const std::string& operator_name) {
  static constexpr std::array<const char*, 6> names = {
      "aten::index",         "aten::index_put",        "aten::index_put_", "aten::_index_put_impl_",
      "aten::_unsafe_index", "aten::_unsafe_index_put"};
  return std::find(names.begin(), names.end(), operator_name) != names.end();
}

}  // namespace xla_go
