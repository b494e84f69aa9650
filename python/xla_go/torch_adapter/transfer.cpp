#include "transfer.h"

#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zero.h>
#include <c10/core/Scalar.h>
#include <c10/core/ScalarType.h>

#include "errors.h"
#include "runtime.h"
#include "storage.h"

namespace xla_go {
namespace {

constexpr int32_t signal_interval_ms = 50;

enum class Wait { ready, interrupted, failed };

// Waits for the value behind `token`. Holds no GIL; looks for signals between slices.
Wait wait_for(const xla_go_table& table, int64_t token, xla_go_error& error) {
  for (;;) {
    const int32_t code = table.read_wait(token, signal_interval_ms, &error);
    if (code == 0) {
      return Wait::ready;
    }
    if (code != -1) {
      return Wait::failed;
    }
    if (!run_signal_handlers()) {
      return Wait::interrupted;
    }
  }
}

// Begins a read. Holds no GIL; looks for signals while a compile has to be waited for.
Wait begin_read(const xla_go_table& table, const xla_go_tensor& source, int64_t& token,
                xla_go_error& error) {
  for (;;) {
    const int32_t code = table.read_begin(&source, &token, &error);
    if (code != -1) {
      return code == 0 ? Wait::ready : Wait::failed;
    }
    if (!run_signal_handlers()) {
      return Wait::interrupted;
    }
  }
}

void broadcast_check(const at::Tensor& self, const at::Tensor& source) {
  if (self.sizes() == source.sizes()) {
    return;
  }
  const auto shape = at::infer_size(self.sizes(), source.sizes());
  TORCH_CHECK(self.sizes() == at::IntArrayRef(shape), "output with shape ", self.sizes(),
              " doesn't match the broadcast shape ", at::IntArrayRef(shape));
}

void copy_to_host(at::Tensor& self, const at::Tensor& source) {
  const bool direct = self.is_cpu() && self.is_contiguous() && !self.is_conj() && !self.is_neg() &&
                      !source.is_conj() && !source.is_neg() &&
                      self.scalar_type() == source.scalar_type() && self.sizes() == source.sizes();
  if (direct) {
    read_elements(source, self.mutable_data_ptr());
  } else {
    self.copy_(read_tensor(source));
  }
}

}  // namespace

void read_elements(const at::Tensor& source, void* destination) {
  if (source.numel() == 0) {
    return;
  }
  const xla_go_table& table = enter();
  drain_drops();
  note_stack(table);
  xla_go_tensor record;
  fill_record(record, *source.unsafeGetTensorImpl());
  record.lazy_bits = 0;
  xla_go_error error;
  error.code = 0;
  error.python_kind = 0;
  error.message[0] = '\0';
  Wait result = Wait::failed;
  {
    GilRelease released;
    int64_t token = 0;
    result = begin_read(table, record, token, error);
    if (result == Wait::ready) {
      note_compiles(table);  // before the wait, which may be a long one
      result = wait_for(table, token, error);
      if (result != Wait::ready) {
        table.read_cancel(token);
      } else if (table.read_finish(token, destination, &error) != 0) {
        result = Wait::failed;
      }
    }
  }
  note_compiles(table);
  if (result == Wait::interrupted) {
    throw_interrupt();
  }
  if (result == Wait::failed) {
    throw_error(error);
  }
}

at::Tensor read_tensor(const at::Tensor& source) {
  at::Tensor host =
      at::empty(source.sizes(), at::TensorOptions(at::kCPU).dtype(source.scalar_type()));
  read_elements(source, host.mutable_data_ptr());
  if (source.is_conj()) {
    host._set_conj(true);
  }
  if (source.is_neg()) {
    host._set_neg(true);
  }
  return host;
}

void upload(const at::Tensor& target, const at::Tensor& source) {
  if (target.numel() == 0) {
    return;
  }
  const xla_go_table& table = enter();
  if (source.sizes() != target.sizes() || target.is_conj() || target.is_neg()) {
    // Broadcasting on the device moves fewer bytes than uploading the repeated elements.
    copy_on_device(target, to_device(source, target.device().index()));
    return;
  }
  // to() and resolve_*() give `source` itself where nothing is to be done.
  const at::Tensor host = source.to(target.scalar_type()).resolve_conj().resolve_neg();
  xla_go_tensor record;
  note_stack(table);
  fill_record(record, *target.unsafeGetTensorImpl());
  xla_go_error error = {};
  int32_t code = 0;
  {
    GilRelease released;
    code = table.upload(&record, host.const_data_ptr(),
                        host.is_contiguous() ? nullptr : host.strides().data(), &error);
  }
  if (code != 0) {
    throw_error(error);
  }
}

at::Tensor to_device(const at::Tensor& source, int device) {
  at::Tensor target = empty_contiguous(source.sizes(), source.scalar_type(), device);
  upload(target, source);
  return target;
}

void copy_on_device(const at::Tensor& target, const at::Tensor& source) {
  const xla_go_table& table = enter();
  drain_long_batch();
  note_stack(table);
  const at::Tensor expanded =
      source.sizes() == target.sizes() ? source : source.expand(target.sizes());
  xla_go_tensor from;
  xla_go_tensor to;
  fill_record(from, *expanded.unsafeGetTensorImpl());
  fill_record(to, *target.unsafeGetTensorImpl());
  // Writing v through a lazy bit stores the conjugate (or negative) of v, so the target's bits
  // cancel against the source's.
  from.lazy_bits ^= to.lazy_bits;
  to.lazy_bits = 0;
  xla_go_error error;
  error.code = 0;
  error.python_kind = 0;
  int32_t code = 0;
  if (from.storage->device == to.storage->device) {
    code = table.copy(&from, &to, &error);
  } else {
    {
      GilRelease released;  // waits for what makes the source
      code = table.copy(&from, &to, &error);
    }
    note_compiles(table);
  }
  if (code != 0) {
    throw_error(error);
  }
}

at::Tensor& copy(at::Tensor& self, const at::Tensor& source, bool) {
  enter();
  if (self.is_same(source)) {
    return self;
  }
  broadcast_check(self, source);
  if (self.numel() == 0) {
    return self;
  }
  if (source._is_zerotensor()) {
    return self.zero_();
  }
  TORCH_CHECK(!self._is_zerotensor(),
              "ZeroTensors are immutable. Please materialize the tensor using `.clone()`, if you "
              "want a mutable zero tensor.");
  TORCH_CHECK_NOT_IMPLEMENTED(!source.is_meta(), "Cannot copy out of meta tensor; no data!");
  if (self.is_meta()) {
    return self;
  }
  at::assert_no_internal_overlap(self);
  at::assert_no_partial_overlap(self, source);
  if (source.is_complex() && !self.is_complex()) {
    TORCH_WARN_ONCE("Casting complex values to real discards the imaginary part");
  }
  if (!source.is_xla()) {
    upload(self, source.is_cpu() ? source : source.to(at::kCPU));
  } else if (!self.is_xla()) {
    copy_to_host(self, source);
  } else {
    copy_on_device(self, source);
  }
  return self;
}

}  // namespace xla_go
