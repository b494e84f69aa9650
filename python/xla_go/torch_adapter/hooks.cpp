#include <torch/version.h>

#include "generator.h"
#include "guard.h"
#include "runtime.h"

#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 10

#include <ATen/detail/XLAHooksInterface.h>

#include "storage.h"

namespace xla_go {
namespace {

class XlaHooks final : public at::XLAHooksInterface {
 public:
  void init() const override { enter(); }

  bool hasXLA() const override { return true; }

  bool isBuilt() const override { return true; }

  bool isAvailable() const override { return true; }

  std::string showConfig() const override { return "device xla by xla_go"; }

  bool hasPrimaryContext(c10::DeviceIndex) const override {
    return loaded_table.load(std::memory_order_acquire) != nullptr;
  }

  c10::DeviceIndex deviceCount() const override {
    return static_cast<c10::DeviceIndex>(device_count());
  }

  c10::DeviceIndex getCurrentDevice() const override {
    return static_cast<c10::DeviceIndex>(current_device());
  }

  void setCurrentDevice(c10::DeviceIndex device) const override { set_current_device(device); }

  c10::DeviceIndex exchangeDevice(c10::DeviceIndex device) const override {
    const auto previous = getCurrentDevice();
    set_current_device(device);
    return previous;
  }

  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex device) const override {
    return exchangeDevice(device);
  }

  const at::Generator& getDefaultGenerator(c10::DeviceIndex device) const override {
    return default_generator(device < 0 ? current_device() : device);
  }

  at::Generator getNewGenerator(c10::DeviceIndex device) const override {
    return at::make_generator<XlaGenerator>(device < 0 ? current_device() : device);
  }
};

}  // namespace

void register_hooks() {
  // The name under which torch looks for an implementation of its interface.
  at::XLAHooksRegistry()->Register("torch_xla::detail::XLAHooks",
                                   [](auto&&...) -> std::unique_ptr<at::XLAHooksInterface> {
                                     return std::make_unique<XlaHooks>();
                                   });
}

}  // namespace xla_go

#else

namespace xla_go {

void register_hooks() {}

}  // namespace xla_go

#endif
