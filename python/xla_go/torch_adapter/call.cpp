#include "call.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/Resize.h>
#include <c10/core/ScalarType.h>

#include <atomic>
#include <cstdlib>
#include <memory>

#include "arguments.h"
#include "errors.h"
#include "fallback.h"
#include "frame.h"
#include "generator.h"
#include "runtime.h"
#include "storage.h"
#include "strides.h"
#include "transfer.h"
#include "unboxed.h"

namespace xla_go {
namespace {

std::atomic<int64_t> calls{0};

thread_local Frame* current_frame = nullptr;

struct FrameOwner {
  ~FrameOwner() {
    delete current_frame;
    current_frame = nullptr;
  }
  void touch() {}
};

thread_local FrameOwner frame_owner;

Frame& make_thread_frame() {
  frame_owner.touch();
  current_frame = new Frame;
  return *current_frame;
}

at::Tensor make_tensor(xla_go_output& output) {
  if (C10_UNLIKELY(output.defined == 0)) {
    return at::Tensor();
  }
  xla_go_storage* handle = output.storage;
  handle->nbytes = output.nbytes;
  auto storage = c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), c10::SymInt(output.nbytes), own(handle),
      allocator_of(handle->device), /*resizable=*/true);
  output.storage = nullptr;
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(std::move(storage)), xla_keys,
      c10::scalarTypeToTypeMeta(static_cast<c10::ScalarType>(output.dtype)));
  tensor.unsafeGetTensorImpl()->set_sizes_contiguous(
      c10::IntArrayRef(output.sizes, static_cast<size_t>(output.rank)));
  return tensor;
}

void check_written_overlap(const Frame& frame, const c10::IValue* values, size_t count) {
  const at::Tensor& target = values[0].toTensor();
  if (target.numel() == 0) {
    return;
  }
  at::assert_no_internal_overlap(target);
  const xla_go_storage* storage = frame.arguments[0].tensor.storage;
  for (size_t i = 1; i < count; ++i) {
    const xla_go_argument& argument = frame.arguments[i];
    if (argument.tag == XLA_GO_TENSOR && argument.tensor.storage == storage) {
      at::assert_no_partial_overlap(target, values[i].toTensor());
    }
  }
}

// Whether an operator writes one value everywhere, which torch lets it do where elements overlap.
bool writes_one_value(const std::string& name) {
  return name == "aten::fill_" || name == "aten::zero_";
}

// An expanded tensor without its repetitions.
at::Tensor without_repetitions(const at::Tensor& expanded) {
  at::Tensor whole = expanded;
  for (int64_t i = 0; i < expanded.dim(); ++i) {
    if (expanded.stride(i) == 0 && expanded.size(i) > 1) {
      whole = whole.narrow(i, 0, 1);
    }
  }
  return whole;
}

// Whether the operator could have read what it had written already, on a device that writes at
// once.
void check_out_overlap(const at::Tensor& out, const c10::IValue* values, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (values[i].isTensor() && values[i].toTensor().defined()) {
      at::assert_no_partial_overlap(out, values[i].toTensor());
    }
  }
}

void write_out(const at::Tensor& out, const at::Tensor& result) {
  TORCH_CHECK(c10::canCast(result.scalar_type(), out.scalar_type()), "result type ",
              result.scalar_type(), " can't be cast to the desired output type ",
              out.scalar_type());
  at::native::resize_output(out, result.sizes());
  at::assert_no_internal_overlap(out);
  if (out.numel() != 0) {
    copy_on_device(out, result);
  }
}

enum class RowForm { functional, in_place, out };

// The kernel of one registered name. All that the schema says is worked out when it is made.
class RowKernel final : public c10::OperatorKernel {
 public:
  RowKernel(int row, RowForm form, const c10::OperatorHandle& op)
      : row_(row),
        form_(form),
        infos_(describe_arguments(op.schema())),
        argument_count_(infos_.size()),
        return_count_(op.schema().returns().size()),
        cpu_indices_(accepts_cpu_indices(op.schema().name())),
        stride_rule_(stride_rule(op)),
        pointwise_(op.hasTag(at::Tag::pointwise)),
        writes_one_value_(form == RowForm::in_place && writes_one_value(op.schema().name())) {
    bool has_generator = false;
    for (const ArgumentInfo& info : infos_) {
      has_generator = has_generator || info.generator;
    }
    appends_generator_ = !has_generator && op.hasTag(at::Tag::nondeterministic_seeded);
  }

  // Whether this entry can serve the schema: only tensors come out, and few enough.
  static bool serves(const c10::FunctionSchema& schema, RowForm form) {
    if (schema.arguments().size() + 1 > max_arguments ||
        schema.returns().size() > XLA_GO_MAX_OUTPUTS) {
      return false;
    }
    for (const c10::Argument& result : schema.returns()) {
      if (result.real_type()->kind() != c10::TypeKind::TensorType) {
        return false;
      }
    }
    if (form == RowForm::in_place) {
      return !schema.arguments().empty() &&
             schema.arguments()[0].real_type()->kind() == c10::TypeKind::TensorType;
    }
    return form != RowForm::out || !schema.returns().empty();
  }

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
    Frame& frame = thread_frame();
    c10::IValue* values = stack->data() + (stack->size() - argument_count_);
    if (C10_UNLIKELY(!trace(frame, values))) {
      fall_back(op, stack);
      return;
    }
    switch (form_) {
      case RowForm::functional:
        finish(frame.call, values, *stack);
        break;
      case RowForm::in_place:
        // Argument 0 is the result.
        torch::jit::drop(*stack, argument_count_ - return_count_);
        break;
      case RowForm::out:
        finish_out(frame.call, values, *stack);
        break;
    }
  }

  // The same for an operator with one result and values that are no stack's; see UnboxedFunction.
  at::Tensor call(const c10::OperatorHandle& op, c10::IValue* values) {
    Frame& frame = thread_frame();
    if (C10_UNLIKELY(!trace(frame, values))) {
      torch::jit::Stack stack(std::make_move_iterator(values),
                              std::make_move_iterator(values + argument_count_));
      fall_back(op, &stack);
      return std::move(stack.back()).toTensor();
    }
    if (form_ == RowForm::in_place) {
      return at::Tensor();
    }
    return with_strides(make_tensor(frame.call.outputs[0]), stride_rule_, values, argument_count_);
  }

 private:
  // Hands the call to the runtime, with its results in the frame. false where it is left to the
  // CPU.
  bool trace(Frame& frame, c10::IValue* values) {
    const xla_go_table& table = enter();
    drain_long_batch();
    note_stack(table);
    calls.store(calls.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    c10::IValue self;
    if (writes_one_value_) {
      self = values[0];
      values[0] = without_repetitions(self.toTensor());
    }
    const int device =
        flatten_arguments(frame, values, infos_.data(), argument_count_, cpu_indices_);

    xla_go_call& call = frame.call;
    call.op = row_;
    call.argument_count = static_cast<int32_t>(argument_count_);
    call.default_dtype = static_cast<int32_t>(c10::get_default_dtype_as_scalartype());
    if (C10_UNLIKELY(appends_generator_)) {
      append_generator(frame, device);
    }
    if (form_ == RowForm::in_place) {
      prepare_in_place(frame, values);
    } else {
      prepare_outputs(call, device);
    }
    const bool traced = table.op(&call) == 0;
    if (C10_UNLIKELY(process_ends.load(std::memory_order_relaxed))) {
      stay_if_held();  // it may have waited long for the runtime, and goes back to code that takes
                       // the GIL
    }
    if (writes_one_value_) {
      values[0] = std::move(self);
    }
    if (C10_UNLIKELY(!traced)) {
      if (call.error.python_kind != static_cast<int32_t>(PythonKind::cpu_fallback)) {
        throw_error(call.error);
      }
      return false;
    }
    note_compiles(table);
    return true;
  }

  // Random operators without a generator argument (dropout) use the default one, which comes
  // after the schema's arguments.
  void append_generator(Frame& frame, int device) {
    xla_go_argument& argument = frame.arguments[argument_count_];
    argument.tag = XLA_GO_GENERATOR;
    argument.generator = generator_state(std::nullopt, device, frame.scratch_generator);
    frame.call.argument_count += 1;
  }

  void prepare_in_place(Frame& frame, const c10::IValue* values) const {
    if (C10_UNLIKELY(frame.arguments[0].tag != XLA_GO_TENSOR)) {
      throw_mixed_devices(c10::Device(c10::kXLA, static_cast<c10::DeviceIndex>(0)),
                          values[0].toTensor().device());
    }
    if (!writes_one_value_) {
      check_written_overlap(frame, values, argument_count_);
    }
    frame.call.output_count = 0;
    frame.call.in_place = 1;
  }

  // Fresh handles for the results; those of a call that failed are used again.
  void prepare_outputs(xla_go_call& call, int device) const {
    call.output_count = static_cast<int32_t>(return_count_);
    call.in_place = 0;
    for (size_t i = 0; i < return_count_; ++i) {
      xla_go_output& output = call.outputs[i];
      if (output.storage == nullptr) {
        output.storage = new_storage(0, device);
      }
      output.storage->device = device;
    }
  }

  void finish(xla_go_call& call, const c10::IValue* values, torch::jit::Stack& stack) const {
    if (C10_LIKELY(return_count_ == 1)) {
      at::Tensor result =
          with_strides(make_tensor(call.outputs[0]), stride_rule_, values, argument_count_);
      torch::jit::drop(stack, argument_count_);
      stack.emplace_back(std::move(result));
      return;
    }
    at::Tensor results[XLA_GO_MAX_OUTPUTS];
    for (size_t i = 0; i < return_count_; ++i) {
      results[i] = make_tensor(call.outputs[i]);
    }
    for (size_t i = 0; i < return_count_; ++i) {
      results[i] = with_strides(std::move(results[i]), stride_rule_, values, argument_count_);
    }
    torch::jit::drop(stack, argument_count_);
    for (size_t i = 0; i < return_count_; ++i) {
      stack.emplace_back(std::move(results[i]));
    }
  }

  void finish_out(xla_go_call& call, c10::IValue* values, torch::jit::Stack& stack) const {
    at::Tensor results[XLA_GO_MAX_OUTPUTS];
    at::Tensor outs[XLA_GO_MAX_OUTPUTS];
    for (size_t i = 0; i < return_count_; ++i) {
      results[i] = make_tensor(call.outputs[i]);
      outs[i] = values[argument_count_ - return_count_ + i].toTensor();
    }
    for (size_t i = 0; i < return_count_; ++i) {
      if (!outs[i].is_xla()) {
        throw_mixed_devices(results[i].device(), outs[i].device());
      }
      if (pointwise_) {
        check_out_overlap(outs[i], values, argument_count_ - return_count_);
      }
      write_out(outs[i], results[i]);
    }
    torch::jit::drop(stack, argument_count_);
    for (size_t i = 0; i < return_count_; ++i) {
      stack.emplace_back(std::move(outs[i]));
    }
  }

  int row_;
  RowForm form_;
  std::vector<ArgumentInfo> infos_;
  size_t argument_count_;
  size_t return_count_;
  bool cpu_indices_;
  StrideRule stride_rule_;
  bool pointwise_;
  bool writes_one_value_;
  bool appends_generator_ = false;
};

struct RowName {
  int row;
  const char* name;
  bool in_place;
  bool out;
};

constexpr RowName row_names[] = {
#define XLA_GO_ROW(number, name, in_place, is_out) {number, name, (in_place) != 0, (is_out) != 0},
#include "rows_gen.h"
#undef XLA_GO_ROW
};

c10::OperatorName split_name(const std::string& full_name) {
  const auto dot = full_name.find('.');
  if (dot == std::string::npos) {
    return {full_name, ""};
  }
  return {full_name.substr(0, dot), full_name.substr(dot + 1)};
}

}  // namespace

const uint64_t rows_digest = XLA_GO_ROWS_DIGEST;

Frame::~Frame() {
  for (xla_go_output& output : call.outputs) {
    std::free(output.storage);
  }
}

Frame& thread_frame() {
  return C10_LIKELY(current_frame != nullptr) ? *current_frame : make_thread_frame();
}

std::vector<std::string> register_rows(torch::Library& aten, torch::Library& own) {
  std::vector<std::string> refused;
  for (const RowName& name : row_names) {
    const auto op = c10::Dispatcher::singleton().findSchema(split_name(name.name));
    if (!op.has_value() || op->hasKernelForDispatchKey(c10::DispatchKey::XLA)) {
      continue;
    }
    const RowForm form = name.in_place ? RowForm::in_place
                         : name.out    ? RowForm::out
                                       : RowForm::functional;
    if (!RowKernel::serves(op->schema(), form)) {
      refused.emplace_back(name.name);
      continue;
    }
    const bool is_aten = std::string_view(name.name).rfind("aten::", 0) == 0;
    torch::Library& library = is_aten ? aten : own;
    std::optional<torch::CppFunction> function;
    if (form != RowForm::out) {
      const auto make = [&] { return std::make_shared<RowKernel>(name.row, form, *op); };
      function = unboxed(make, *op, name.in_place);
    }
    if (!function.has_value()) {
      function = torch::CppFunction::makeFromBoxedFunctor(
          std::make_unique<RowKernel>(name.row, form, *op));
    }
    library.impl(name.name, std::move(*function));
  }
  return refused;
}

int64_t row_call_count() { return calls.load(std::memory_order_relaxed); }

}  // namespace xla_go
