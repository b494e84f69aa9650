#include "natives.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ExpandUtils.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/all.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/is_set_to_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/Scalar.h>
#include <c10/core/TensorOptions.h>

#include "errors.h"
#include "runtime.h"
#include "storage.h"
#include "transfer.h"

namespace xla_go {
namespace {

using at::Tensor;
using c10::dtype_or_default;
using c10::SymInt;
using c10::SymIntArrayRef;
using OptionalDevice = std::optional<c10::Device>;
using OptionalDtype = std::optional<c10::ScalarType>;
using OptionalLayout = std::optional<c10::Layout>;
using OptionalMemoryFormat = std::optional<c10::MemoryFormat>;

void check_factory(OptionalLayout layout, std::optional<bool> pin_memory) {
  TORCH_CHECK_NOT_IMPLEMENTED(!layout.has_value() || *layout == c10::kStrided,
                              "xla: expected layout torch.strided, got ",
                              layout.value_or(c10::kStrided));
  TORCH_CHECK(!pin_memory.value_or(false), "Only dense CPU tensors can be pinned");
}

// ---- factories ----

Tensor empty_kernel(SymIntArrayRef size, OptionalDtype dtype, OptionalLayout layout,
                    OptionalDevice device, std::optional<bool> pin_memory,
                    OptionalMemoryFormat memory_format) {
  enter();
  check_factory(layout, pin_memory);
  return empty_contiguous(C10_AS_INTARRAYREF_SLOW(size), dtype_or_default(dtype),
                          resolve_device(device), memory_format);
}

Tensor empty_strided_kernel(SymIntArrayRef size, SymIntArrayRef stride, OptionalDtype dtype,
                            OptionalLayout layout, OptionalDevice device,
                            std::optional<bool> pin_memory) {
  enter();
  check_factory(layout, pin_memory);
  return empty_strided(C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride),
                       dtype_or_default(dtype), resolve_device(device));
}

Tensor new_empty_strided_kernel(const Tensor& self, SymIntArrayRef size, SymIntArrayRef stride,
                                OptionalDtype dtype, OptionalLayout layout, OptionalDevice device,
                                std::optional<bool> pin_memory) {
  enter();
  const c10::Device target = device.value_or(self.device());
  const c10::ScalarType type = dtype.value_or(self.scalar_type());
  if (!target.is_xla()) {
    return at::empty_strided(C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride),
                             at::TensorOptions(target).dtype(type).pinned_memory(pin_memory));
  }
  check_factory(layout, pin_memory);
  return empty_strided(C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride), type,
                       resolve_device(target));
}

// A tensor of zeros that holds none: torch materialises it where it is read.
Tensor efficient_zero_tensor(SymIntArrayRef size, OptionalDtype dtype, OptionalLayout layout,
                             OptionalDevice device, std::optional<bool> pin_memory) {
  enter();
  check_factory(layout, pin_memory);
  const auto keys = xla_keys.add(c10::DispatchKey::ZeroTensor);
  return at::detail::empty_generic(C10_AS_INTARRAYREF_SLOW(size),
                                   allocator_of(resolve_device(device)), keys,
                                   dtype_or_default(dtype), std::nullopt);
}

// ---- views ----

Tensor as_strided_kernel(const Tensor& self, SymIntArrayRef size, SymIntArrayRef stride,
                         std::optional<SymInt> storage_offset) {
  enter();
  std::optional<int64_t> offset;
  if (storage_offset.has_value()) {
    offset = storage_offset->expect_int();
  }
  return at::native::as_strided_tensorimpl(self, C10_AS_INTARRAYREF_SLOW(size),
                                           C10_AS_INTARRAYREF_SLOW(stride), offset);
}

Tensor view_kernel(const Tensor& self, SymIntArrayRef size) {
  enter();
  return at::native::view(self, C10_AS_INTARRAYREF_SLOW(size));
}

Tensor view_dtype_kernel(const Tensor& self, c10::ScalarType dtype) {
  enter();
  return at::native::view_dtype(self, dtype);
}

Tensor reshape_alias_kernel(const Tensor& self, SymIntArrayRef size, SymIntArrayRef stride) {
  enter();
  return at::native::_reshape_alias(self, C10_AS_INTARRAYREF_SLOW(size),
                                    C10_AS_INTARRAYREF_SLOW(stride));
}

Tensor unfold_kernel(const Tensor& self, int64_t dimension, int64_t size, int64_t step) {
  enter();
  return at::native::unfold(self, dimension, size, step);
}

Tensor view_as_real_kernel(const Tensor& self) {
  enter();
  return at::native::view_as_real(self);
}

Tensor view_as_complex_kernel(const Tensor& self) {
  enter();
  return at::native::view_as_complex(self);
}

// ---- storage surgery ----

int64_t bytes_needed(const Tensor& tensor) {
  return static_cast<int64_t>(at::detail::computeStorageNbytes(
      tensor.sizes(), tensor.strides(), tensor.itemsize(), tensor.storage_offset()));
}

void grow_to_fit(const Tensor& tensor) {
  if (tensor.numel() != 0) {
    grow_storage(*tensor.storage().unsafeGetStorageImpl(), bytes_needed(tensor));
  }
}

const Tensor& resize_kernel(const Tensor& self, SymIntArrayRef size,
                            OptionalMemoryFormat memory_format) {
  enter();
  const auto sizes = C10_AS_INTARRAYREF_SLOW(size);
  at::detail::check_size_nonnegative(sizes);
  c10::TensorImpl* impl = self.unsafeGetTensorImpl();
  if (self.sizes() != sizes) {
    impl->set_sizes_contiguous(sizes);
    grow_to_fit(self);
  }
  if (memory_format.has_value()) {
    TORCH_CHECK(*memory_format != c10::MemoryFormat::Preserve, "Unsupported memory format ",
                *memory_format);
    impl->empty_tensor_restride(*memory_format);
    grow_to_fit(self);
  }
  return self;
}

Tensor& set_storage_kernel(Tensor& self, at::Storage source, SymInt storage_offset,
                           SymIntArrayRef size, SymIntArrayRef stride) {
  enter();
  TORCH_CHECK(source.device().is_xla(), "set_(): expected a storage on xla, got one on ",
              source.device());
  // torch's function sets the shape and raises the storage's nominal size; the handle follows.
  at::native::set_storage_meta__symint(self, std::move(source), std::move(storage_offset), size,
                                       stride);
  grow_to_fit(self);
  return self;
}

Tensor& set_source_storage_kernel(Tensor& self, at::Storage source) {
  const auto elements = static_cast<int64_t>(source.nbytes() / self.itemsize());
  const std::array<SymInt, 1> size = {SymInt(elements)};
  const std::array<SymInt, 1> stride = {SymInt(1)};
  return set_storage_kernel(self, std::move(source), SymInt(0), size, stride);
}

Tensor& set_source_tensor_kernel(Tensor& self, const Tensor& source) {
  enter();
  if (self.is_same(source)) {
    return self;
  }
  return set_storage_kernel(self, source.storage(), source.sym_storage_offset(), source.sym_sizes(),
                            source.sym_strides());
}

Tensor& set_kernel(Tensor& self) {
  enter();
  const int device = self.device().index();
  at::Storage storage(c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(),
                                                            SymInt(0), own(new_storage(0, device)),
                                                            allocator_of(device), true));
  const std::array<SymInt, 1> size = {SymInt(0)};
  const std::array<SymInt, 1> stride = {SymInt(1)};
  return set_storage_kernel(self, std::move(storage), SymInt(0), size, stride);
}

bool is_set_to_kernel(const Tensor& self, const Tensor& other) {
  enter();
  return at::native::is_set_to(self, other);
}

// There is one stream per device and buffers outlive the work that reads them, so there is
// nothing to record.
void record_stream_kernel(Tensor&, c10::Stream) { enter(); }

// ---- copies and reads ----

Tensor copy_from_kernel(const Tensor& self, const Tensor& destination, bool non_blocking) {
  Tensor target = destination;
  copy(target, self, non_blocking);
  return target;
}

Tensor copy_from_and_resize_kernel(const Tensor& self, const Tensor& destination) {
  Tensor target = destination;
  if (target.sizes() != self.sizes()) {
    target.resize_(self.sizes());
  }
  copy(target, self, false);
  return target;
}

template <typename T>
at::Scalar scalar_at(const void* bytes) {
  return at::Scalar(*static_cast<const T*>(bytes));
}

at::Scalar local_scalar_dense_kernel(const Tensor& self) {
  alignas(16) unsigned char bytes[16] = {};
  TORCH_CHECK(self.numel() == 1, "a Tensor with ", self.numel(),
              " elements cannot be converted to Scalar");
  read_elements(self, bytes);
  at::Scalar value;
  switch (self.scalar_type()) {
#define XLA_GO_SCALAR_CASE(type, name) \
  case c10::ScalarType::name:          \
    value = scalar_at<type>(bytes);    \
    break;
    AT_FORALL_SCALAR_TYPES_WITH_COMPLEX(XLA_GO_SCALAR_CASE)
#undef XLA_GO_SCALAR_CASE
    default:
      return read_tensor(self).item();
  }
  if (self.is_conj()) {
    const auto number = value.toComplexDouble();
    value = at::Scalar(c10::complex<double>(number.real(), -number.imag()));
  }
  if (self.is_neg()) {
    value = -value;
  }
  return value;
}

// torch's own keeps no strides on device xla.
Tensor to_copy_kernel(const Tensor& self, OptionalDtype dtype, OptionalLayout layout,
                      OptionalDevice device, std::optional<bool> pin_memory, bool non_blocking,
                      OptionalMemoryFormat memory_format) {
  enter();
  const auto options = c10::TensorOptions()
                           .dtype(dtype.value_or(self.scalar_type()))
                           .device(device.value_or(self.device()))
                           .layout(layout)
                           .pinned_memory(pin_memory);
  const auto format = memory_format.value_or(c10::MemoryFormat::Preserve);
  Tensor copied;
  if (format != c10::MemoryFormat::Preserve) {
    copied = at::empty(self.sizes(), options, format);
  } else if (self.is_non_overlapping_and_dense()) {
    copied = at::empty_strided(self.sizes(), self.strides(), options);
  } else {
    copied = at::empty(self.sizes(), options, self.suggest_memory_format());
  }
  return copied.copy_(self, non_blocking);
}

bool equal_kernel(const Tensor& self, const Tensor& other) {
  enter();
  TORCH_CHECK(self.device() == other.device(),
              "Cannot compare two tensors on different devices. Got: ", self.device(), " and ",
              other.device());
  TORCH_CHECK(self.scalar_type() == other.scalar_type(),
              "equal(): expected tensors of one dtype, got ", self.scalar_type(), " and ",
              other.scalar_type());
  if (self.sizes() != other.sizes()) {
    return false;
  }
  if (self.numel() == 0) {
    return true;
  }
  return at::all(at::eq(self, other)).item<bool>();
}

}  // namespace

void register_natives(torch::Library& library) {
  library.impl("empty.memory_format", &empty_kernel);
  library.impl("empty_strided", &empty_strided_kernel);
  library.impl("new_empty_strided", &new_empty_strided_kernel);
  library.impl("_efficientzerotensor", &efficient_zero_tensor);

  library.impl("as_strided", &as_strided_kernel);
  library.impl("view", &view_kernel);
  library.impl("view.dtype", &view_dtype_kernel);
  library.impl("_reshape_alias", &reshape_alias_kernel);
  library.impl("unfold", &unfold_kernel);
  library.impl("view_as_real", &view_as_real_kernel);
  library.impl("view_as_complex", &view_as_complex_kernel);

  library.impl("resize_", &resize_kernel);
  library.impl("set_.source_Storage_storage_offset", &set_storage_kernel);
  library.impl("set_.source_Storage", &set_source_storage_kernel);
  library.impl("set_.source_Tensor", &set_source_tensor_kernel);
  library.impl("set_", &set_kernel);
  library.impl("is_set_to", &is_set_to_kernel);
  library.impl("record_stream", &record_stream_kernel);

  library.impl("copy_", &copy);
  library.impl("_to_copy", &to_copy_kernel);
  library.impl("_copy_from", &copy_from_kernel);
  library.impl("_copy_from_and_resize", &copy_from_and_resize_kernel);
  library.impl("_local_scalar_dense", &local_scalar_dense_kernel);
  library.impl("equal", &equal_kernel);
}

}  // namespace xla_go
