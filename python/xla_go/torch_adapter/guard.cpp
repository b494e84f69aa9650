#include "guard.h"

#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/util/Exception.h>

#include "runtime.h"
#include "storage.h"

namespace xla_go {
namespace {

thread_local int thread_device = 0;

c10::Device xla_device(int index) {
  return c10::Device(c10::kXLA, static_cast<c10::DeviceIndex>(index));
}

// deviceCount() is 0 on purpose: torch's autograd engine starts one thread per counted device at
// the first backward of any kind, and a process with such threads cannot fork. Backwards of ours
// run on their caller (see enter()), so no such thread is needed.
class XlaGuard final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return c10::kXLA; }

  c10::Device exchangeDevice(c10::Device device) const override {
    const int previous = thread_device;
    uncheckedSetDevice(device);
    return xla_device(previous);
  }

  c10::Device getDevice() const override { return xla_device(thread_device); }

  void setDevice(c10::Device device) const override { uncheckedSetDevice(device); }

  void uncheckedSetDevice(c10::Device device) const noexcept override {
    if (device.has_index()) {
      thread_device = device.index();
    }
  }

  // Work of one device runs in the order of its graph: there is one stream, the default one.
  c10::Stream getStream(c10::Device device) const noexcept override {
    return c10::Stream(c10::Stream::DEFAULT, device);
  }

  c10::Stream getDefaultStream(c10::Device device) const override { return getStream(device); }

  c10::Stream exchangeStream(c10::Stream stream) const noexcept override {
    return c10::Stream(c10::Stream::DEFAULT, stream.device());
  }

  c10::DeviceIndex deviceCount() const noexcept override { return 0; }
};

}  // namespace

void register_guard() {
  static const auto* guard = new XlaGuard;
  static c10::impl::DeviceGuardImplRegistrar registrar(c10::kXLA, guard);
}

int current_device() { return thread_device; }

void set_current_device(int index) {
  if (index != 0) {
    const int count = device_count();
    TORCH_CHECK(index > 0 && index < count, "expected a device index from 0 to ", count - 1,
                ", got ", index);
  }
  thread_device = index;
}

}  // namespace xla_go
