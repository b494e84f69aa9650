#include "generator.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <array>
#include <cstring>
#include <mutex>

#include "storage.h"

namespace xla_go {
namespace {

constexpr size_t state_bytes = sizeof(uint64_t) * 2;

struct DefaultGenerators {
  std::mutex mutex;
  std::array<at::Generator, max_devices> generators;
  // The CPU generator's seed as last seen: a different one means that somebody seeded torch by a
  // way that does not tell us.
  uint64_t cpu_seed = 0;
  bool cpu_seed_known = false;
  bool follow = true;
};

DefaultGenerators& defaults() {
  static auto* made = new DefaultGenerators;
  return *made;
}

uint64_t cpu_generator_seed() { return at::detail::getDefaultCPUGenerator().current_seed(); }

XlaGenerator& implementation(const at::Generator& generator) {
  return *static_cast<XlaGenerator*>(generator.unsafeGetGeneratorImpl());
}

const at::Generator& get_or_make(DefaultGenerators& all, int device) {
  at::Generator& generator = all.generators[device];
  if (!generator.defined()) {
    generator = at::make_generator<XlaGenerator>(device);
    generator.set_current_seed(cpu_generator_seed());
  }
  return generator;
}

void seed_all(DefaultGenerators& all, uint64_t seed) {
  for (at::Generator& generator : all.generators) {
    if (generator.defined()) {
      generator.set_current_seed(seed);
    }
  }
}

// Call with all.mutex held.
void follow_cpu_seed(DefaultGenerators& all) {
  const uint64_t seed = cpu_generator_seed();
  if (all.follow && all.cpu_seed_known && all.cpu_seed != seed) {
    seed_all(all, seed);
  }
  all.cpu_seed = seed;
  all.cpu_seed_known = true;
}

}  // namespace

XlaGenerator::XlaGenerator(int device)
    : c10::GeneratorImpl(c10::Device(c10::kXLA, static_cast<c10::DeviceIndex>(device)), xla_keys),
      state_{c10::default_rng_seed_val, 0} {}

void XlaGenerator::set_current_seed(uint64_t seed) { state_ = {seed, 0}; }

void XlaGenerator::set_offset(uint64_t offset) { state_.offset = offset; }

uint64_t XlaGenerator::get_offset() const { return state_.offset; }

uint64_t XlaGenerator::current_seed() const { return state_.seed; }

uint64_t XlaGenerator::seed() {
  set_current_seed(c10::detail::getNonDeterministicRandom());
  return state_.seed;
}

void XlaGenerator::set_state(const c10::TensorImpl& state) {
  TORCH_CHECK_TYPE(state.dtype() == caffe2::TypeMeta::Make<uint8_t>() && state.device().is_cpu() &&
                       state.is_contiguous(),
                   "set_state(): expected a contiguous CPU tensor of dtype uint8");
  TORCH_CHECK(state.numel() == static_cast<int64_t>(state_bytes), "set_state(): expected ",
              state_bytes, " bytes, got ", state.numel());
  const auto* bytes = static_cast<const char*>(state.data());
  std::memcpy(&state_.seed, bytes, sizeof(uint64_t));
  std::memcpy(&state_.offset, bytes + sizeof(uint64_t), sizeof(uint64_t));
}

c10::intrusive_ptr<c10::TensorImpl> XlaGenerator::get_state() const {
  at::Tensor state =
      at::empty({static_cast<int64_t>(state_bytes)}, at::TensorOptions(at::kCPU).dtype(at::kByte));
  auto* bytes = static_cast<char*>(state.mutable_data_ptr());
  std::memcpy(bytes, &state_.seed, sizeof(uint64_t));
  std::memcpy(bytes + sizeof(uint64_t), &state_.offset, sizeof(uint64_t));
  return state.getIntrusivePtr();
}

XlaGenerator* XlaGenerator::clone_impl() const {
  auto* copy = new XlaGenerator(device().index());
  copy->state_ = state_;
  return copy;
}

const at::Generator& default_generator(int device) {
  DefaultGenerators& all = defaults();
  std::lock_guard<std::mutex> lock(all.mutex);
  return get_or_make(all, device);
}

xla_go_generator* generator_state(const std::optional<at::Generator>& generator, int device,
                                  xla_go_generator& scratch) {
  if (!generator.has_value() || !generator->defined()) {
    DefaultGenerators& all = defaults();
    std::lock_guard<std::mutex> lock(all.mutex);
    follow_cpu_seed(all);
    return implementation(get_or_make(all, device)).state();
  }
  if (generator->device().is_xla()) {
    return implementation(*generator).state();
  }
  TORCH_CHECK(generator->device().is_cpu(), "expected a generator on xla or cpu, got one on ",
              generator->device());
  auto* cpu = static_cast<at::CPUGeneratorImpl*>(generator->unsafeGetGeneratorImpl());
  std::lock_guard<std::mutex> lock(cpu->mutex_);
  scratch = {cpu->random64(), 0};
  return &scratch;
}

void seed_default_generators(uint64_t seed) {
  DefaultGenerators& all = defaults();
  std::lock_guard<std::mutex> lock(all.mutex);
  for (int device = 0; device < max_devices; ++device) {
    get_or_make(all, device).unsafeGetGeneratorImpl()->set_current_seed(seed);
  }
  all.cpu_seed = cpu_generator_seed();
  all.cpu_seed_known = true;
}

void follow_cpu_generator(bool follow) {
  DefaultGenerators& all = defaults();
  std::lock_guard<std::mutex> lock(all.mutex);
  all.follow = follow;
  all.cpu_seed = cpu_generator_seed();
  all.cpu_seed_known = true;
}

xla_go_generator default_state(int device) {
  DefaultGenerators& all = defaults();
  std::lock_guard<std::mutex> lock(all.mutex);
  follow_cpu_seed(all);
  return *implementation(get_or_make(all, device)).state();
}

void set_default_state(int device, xla_go_generator state) {
  DefaultGenerators& all = defaults();
  std::lock_guard<std::mutex> lock(all.mutex);
  *implementation(get_or_make(all, device)).state() = state;
  all.cpu_seed = cpu_generator_seed();
  all.cpu_seed_known = true;
}

}  // namespace xla_go
