// One thread's record of the operator call in progress, reused from call to call so that a call
// allocates nothing but its results.
#pragma once

#include <c10/macros/Macros.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "xla_go_dispatch.h"

namespace xla_go {

// Hands out arrays that live until reset(). Grows by whole chunks, so that arrays never move.
template <typename T>
class Arena {
 public:
  explicit Arena(size_t chunk_size) : chunk_size_(chunk_size) { add_chunk(chunk_size); }

  T* take(size_t count) {
    if (C10_UNLIKELY(used_ + count > capacity_)) {
      add_chunk(count > chunk_size_ ? count : chunk_size_);
    }
    T* array = chunks_.back().get() + used_;
    used_ += count;
    return array;
  }

  void reset() {
    if (C10_UNLIKELY(chunks_.size() > 1)) {
      chunks_.clear();
      add_chunk(chunk_size_);
    }
    used_ = 0;
  }

 private:
  void add_chunk(size_t size) {
    chunks_.emplace_back(new T[size]);
    capacity_ = size;
    used_ = 0;
  }

  size_t chunk_size_;
  size_t capacity_ = 0;
  size_t used_ = 0;
  std::vector<std::unique_ptr<T[]>> chunks_;
};

constexpr size_t max_arguments = 48;

struct Frame {
  Arena<int64_t> ints{256};
  Arena<double> doubles{64};
  Arena<xla_go_tensor> tensors{64};
  xla_go_generator scratch_generator = {};
  xla_go_argument arguments[max_arguments] = {};
  xla_go_call call = {};

  Frame() { call.arguments = arguments; }
  ~Frame();
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;

  void reset() {
    ints.reset();
    doubles.reset();
    tensors.reset();
  }
};

Frame& thread_frame();

}  // namespace xla_go
