// Storages of device xla: the allocator whose allocations own a runtime handle, and the flat
// record of a strided tensor over one.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>
#include <c10/core/DispatchKeySet.h>
#include <c10/core/StorageImpl.h>

#include <atomic>

#include "xla_go_dispatch.h"

namespace xla_go {

constexpr int max_devices = 64;
constexpr c10::DispatchKeySet xla_keys(c10::DispatchKey::XLA);

// A handle for a storage of `nbytes` bytes that the runtime has not seen yet.
xla_go_storage* new_storage(int64_t nbytes, int device);

// Forgets a handle: at once where that frees device memory, else with the next batch.
void delete_storage(void* storage);

// Hands the batch of forgotten storages to the runtime.
void drain_drops();

extern std::atomic<int> pending_drops;
constexpr int drain_threshold = 64;

// What an op call does first: keeps the batch short without a call per drop.
inline void drain_long_batch() {
  if (C10_UNLIKELY(pending_drops.load(std::memory_order_relaxed) >= drain_threshold)) {
    drain_drops();
  }
}

// The allocator of one device. Its allocations are uninitialised and cost the runtime no call.
c10::Allocator* allocator_of(int device);

// The device index that `device` means: its own, or the thread's current one where it has none.
// Raises where the process has no such device, or where it is not an xla device.
int resolve_device(std::optional<c10::Device> device);

// A data pointer that owns `storage`.
inline c10::DataPtr own(xla_go_storage* storage) {
  const c10::Device device(c10::kXLA, static_cast<c10::DeviceIndex>(storage->device));
  return c10::DataPtr(storage, storage, &delete_storage, device);
}

// The handle of a tensor on device xla; never null for a tensor that our allocator made.
inline xla_go_storage* storage_of(const c10::TensorImpl& tensor) {
  return static_cast<xla_go_storage*>(
      tensor.unsafe_storage().unsafeGetStorageImpl()->data_ptr().get_context());
}

// Fills `record` with views into `tensor`; valid while the tensor lives and keeps its shape.
void fill_record(xla_go_tensor& record, const c10::TensorImpl& tensor);

// A new uninitialised tensor.
at::Tensor empty_strided(c10::IntArrayRef sizes, c10::IntArrayRef strides, c10::ScalarType dtype,
                         int device);
at::Tensor empty_contiguous(c10::IntArrayRef sizes, c10::ScalarType dtype, int device,
                            std::optional<c10::MemoryFormat> memory_format = std::nullopt);

// Gives the tensor's storage at least `nbytes` bytes. Keeps what is there.
void grow_storage(c10::StorageImpl& storage, int64_t nbytes);

}  // namespace xla_go
