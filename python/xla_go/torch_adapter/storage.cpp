#include "storage.h"

#include <ATen/EmptyTensor.h>

#include <array>
#include <cstdlib>
#include <mutex>
#include <new>
#include <vector>

#include "errors.h"
#include "guard.h"
#include "runtime.h"

namespace xla_go {

std::atomic<int> pending_drops{0};

namespace {

constexpr size_t batch_limit = 256;

// Lock order: dropping, then mutex, then the core's.
struct DropBatch {
  // Held from the taking of a batch until it is dropped. Whoever has drained finds all that was
  // forgotten before gone, also what another thread has taken and not dropped yet: a cut must not
  // take it for a result of the step.
  std::mutex dropping;
  std::mutex mutex;
  std::vector<xla_go_storage*> storages;
};

// Never destroyed: tensors may still be freed while the process's statics are torn down.
DropBatch& drop_batch() {
  static auto* batch = new DropBatch;
  return *batch;
}

void drop_all(const std::vector<xla_go_storage*>& storages) {
  if (storages.empty()) {
    return;
  }
  const xla_go_table* table = loaded_table.load(std::memory_order_acquire);
  table->drop(storages.data(), static_cast<int32_t>(storages.size()));
  for (xla_go_storage* storage : storages) {
    std::free(storage);
  }
}

class XlaAllocator final : public c10::Allocator {
 public:
  explicit XlaAllocator(int device) : device_(device) {}

  c10::DataPtr allocate(size_t nbytes) override {
    return own(new_storage(static_cast<int64_t>(nbytes), device_));
  }

  // The pointer is a handle, so the raw interface (which hands out bare pointers) is not offered.
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }

  void copy_data(void*, const void*, std::size_t) const override {
    throw_python(PythonKind::not_implemented_error,
                 "xla: a storage cannot be copied byte by byte; copy the tensor instead");
  }

 private:
  int device_;
};

}  // namespace

xla_go_storage* new_storage(int64_t nbytes, int device) {
  auto* storage = static_cast<xla_go_storage*>(std::malloc(sizeof(xla_go_storage)));
  if (storage == nullptr) {
    throw std::bad_alloc();
  }
  storage->id = 0;
  storage->nbytes = nbytes;
  storage->has_buffer = 0;
  storage->device = device;
  return storage;
}

void delete_storage(void* pointer) {
  auto* storage = static_cast<xla_go_storage*>(pointer);
  if (storage == nullptr) {
    return;
  }
  // In a forked child Go must not be entered, and the parent's locks may be held for ever.
  if (in_forked_child.load(std::memory_order_relaxed)) {
    return;
  }
  if (__atomic_load_n(&storage->id, __ATOMIC_ACQUIRE) == 0) {
    std::free(storage);
    return;
  }
  if (__atomic_load_n(&storage->has_buffer, __ATOMIC_RELAXED) != 0) {
    loaded_table.load(std::memory_order_acquire)->drop(&storage, 1);
    std::free(storage);
    return;
  }
  size_t count = 0;
  {
    DropBatch& batch = drop_batch();
    std::lock_guard<std::mutex> lock(batch.mutex);
    batch.storages.push_back(storage);
    count = batch.storages.size();
    pending_drops.store(static_cast<int>(count), std::memory_order_relaxed);
  }
  if (count >= batch_limit) {
    drain_drops();
  }
}

void drain_drops() {
  if (in_forked_child.load(std::memory_order_relaxed)) {
    return;
  }
  DropBatch& batch = drop_batch();
  std::lock_guard<std::mutex> dropping(batch.dropping);
  std::vector<xla_go_storage*> waiting;
  {
    std::lock_guard<std::mutex> lock(batch.mutex);
    waiting.swap(batch.storages);
    pending_drops.store(0, std::memory_order_relaxed);
  }
  drop_all(waiting);
}

c10::Allocator* allocator_of(int device) {
  static const auto* allocators = [] {
    auto* made = new std::array<XlaAllocator*, max_devices>;
    for (int index = 0; index < max_devices; ++index) {
      (*made)[index] = new XlaAllocator(index);
    }
    return made;
  }();
  return (*allocators)[device];
}

int resolve_device(std::optional<c10::Device> device) {
  if (!device.has_value()) {
    return current_device();
  }
  TORCH_CHECK(device->type() == c10::kXLA, "expected an xla device, got ", *device);
  if (!device->has_index()) {
    return current_device();
  }
  const int index = device->index();
  const int count = device_count();
  TORCH_CHECK(index < count, "expected a device from xla:0 to xla:", count - 1, ", got ", *device);
  return index;
}

void fill_record(xla_go_tensor& record, const c10::TensorImpl& tensor) {
  record.storage = storage_of(tensor);
  const auto sizes = tensor.sizes();
  record.sizes = sizes.data();
  record.strides = tensor.strides().data();
  record.storage_offset = tensor.storage_offset();
  record.rank = static_cast<int32_t>(sizes.size());
  record.dtype = static_cast<int32_t>(c10::typeMetaToScalarType(tensor.dtype()));
  record.wrapped_number = tensor.is_wrapped_number() ? 1 : 0;
  const auto keys = tensor.key_set();
  record.lazy_bits = (keys.has(c10::DispatchKey::Conjugate) ? 1 : 0) |
                     (keys.has(c10::DispatchKey::Negative) ? 2 : 0);
}

at::Tensor empty_strided(c10::IntArrayRef sizes, c10::IntArrayRef strides, c10::ScalarType dtype,
                         int device) {
  return at::detail::empty_strided_generic(sizes, strides, allocator_of(device), xla_keys, dtype);
}

at::Tensor empty_contiguous(c10::IntArrayRef sizes, c10::ScalarType dtype, int device,
                            std::optional<c10::MemoryFormat> memory_format) {
  return at::detail::empty_generic(sizes, allocator_of(device), xla_keys, dtype, memory_format);
}

void grow_storage(c10::StorageImpl& storage, int64_t nbytes) {
  auto* handle = static_cast<xla_go_storage*>(storage.data_ptr().get_context());
  if (handle->nbytes < nbytes) {
    TORCH_CHECK(storage.resizable(), "Trying to resize storage that is not resizable");
    if (handle->id == 0) {
      handle->nbytes = nbytes;
    } else {
      xla_go_error error = {};
      const xla_go_table& table = enter();
      note_stack(table);
      if (table.resize_storage(handle, nbytes, &error) != 0) {
        throw_error(error);
      }
      handle->nbytes = nbytes;
    }
  }
  if (static_cast<int64_t>(storage.nbytes()) < nbytes) {
    storage.set_nbytes(static_cast<size_t>(nbytes));
  }
}

}  // namespace xla_go
