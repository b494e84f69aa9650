// Random generators of device xla. A generator's whole state is a seed and an offset; a random
// row reads both as parameters of its program and advances the offset.
#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/GeneratorImpl.h>

#include "xla_go_dispatch.h"

namespace xla_go {

class XlaGenerator final : public c10::GeneratorImpl {
 public:
  explicit XlaGenerator(int device);

  void set_current_seed(uint64_t seed) override;
  void set_offset(uint64_t offset) override;
  uint64_t get_offset() const override;
  uint64_t current_seed() const override;
  uint64_t seed() override;

  // The state is a CPU byte tensor: seed then offset, 8 bytes each, little endian.
  void set_state(const c10::TensorImpl& state) override;
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override;

  xla_go_generator* state() { return &state_; }

 private:
  XlaGenerator* clone_impl() const override;

  xla_go_generator state_;
};

// The generator that a call without one uses; one per device, for the life of the process.
const at::Generator& default_generator(int device);

// What a random row reads for `generator`: a state of ours, or, for a CPU generator, one seeded
// with a number drawn from it, kept in `scratch` for the call. An absent generator means the
// default one of `device`, which first follows a new seed of torch's CPU generator.
xla_go_generator* generator_state(const std::optional<at::Generator>& generator, int device,
                                  xla_go_generator& scratch);

// Seeds the default generators of every device and resets their offsets.
void seed_default_generators(uint64_t seed);

// Whether the default generators start anew where the CPU's generator has another seed than it had,
// as they do unless told otherwise. Threads that seed the CPU's, each for its own device, must not
// do so to each other.
void follow_cpu_generator(bool follow);

// State of a device's default generator.
xla_go_generator default_state(int device);
void set_default_state(int device, xla_go_generator state);

// Lets torch.Generator("xla") make an XlaGenerator, where torch has hooks for it (2.10 and newer).
void register_hooks();

}  // namespace xla_go
