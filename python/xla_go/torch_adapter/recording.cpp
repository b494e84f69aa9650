#include "recording.h"

#include <Python.h>
#include <c10/core/StorageImpl.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "errors.h"
#include "generator.h"
#include "runtime.h"
#include "storage.h"

namespace xla_go {
namespace {

constexpr const char* capsule_name = "xla_go.recording";

// How a tensor lies in its storage.
struct Geometry {
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  int64_t offset = 0;
  c10::ScalarType dtype = c10::ScalarType::Undefined;
  bool conj = false;
  bool neg = false;

  Geometry() = default;
  explicit Geometry(const at::Tensor& tensor)
      : sizes(tensor.sizes().vec()),
        strides(tensor.strides().vec()),
        offset(tensor.storage_offset()),
        dtype(tensor.scalar_type()),
        conj(tensor.is_conj()),
        neg(tensor.is_neg()) {}

  bool operator==(const Geometry& other) const {
    return sizes == other.sizes && strides == other.strides && offset == other.offset &&
           dtype == other.dtype && conj == other.conj && neg == other.neg;
  }

  bool matches(const at::Tensor& tensor) const {
    return tensor.sizes() == c10::IntArrayRef(sizes) &&
           tensor.strides() == c10::IntArrayRef(strides) && tensor.storage_offset() == offset &&
           tensor.scalar_type() == dtype && tensor.is_conj() == conj && tensor.is_neg() == neg;
  }
};

struct Input {
  int storage =
      -1;  // position among the storages of inputs; -1 for what is no tensor of the device
  bool written = false;
  uint32_t version = 0;  // when the recording began
  Geometry geometry;
};

enum class OutputKind {
  constant,       // a value of Python that is no tensor
  input,          // an argument itself
  output,         // an earlier output itself
  view_of_input,  // another tensor over an input's storage
  over_new_storage
};

struct Output {
  OutputKind kind = OutputKind::constant;
  int index = 0;  // of the argument, the output, or the storage
  PyObject* constant = nullptr;
  Geometry geometry;
};

bool same_input(const Input& a, const Input& b) {
  return a.storage == b.storage && a.written == b.written && a.geometry == b.geometry;
}

// Throws where comparing values of Python does.
bool same_output(const Output& a, const Output& b) {
  if (a.kind != b.kind || a.index != b.index || !(a.geometry == b.geometry)) {
    return false;
  }
  if (a.kind != OutputKind::constant) {
    return true;
  }
  const int equal = PyObject_RichCompareBool(a.constant, b.constant, Py_EQ);
  if (equal < 0) {
    throw_pending_python_error();
  }
  return equal == 1 && Py_TYPE(a.constant) == Py_TYPE(b.constant);
}

struct Recording {
  int device = 0;
  int64_t handle = 0;
  bool open = false;  // between record_begin and its end
  std::vector<Input> inputs;
  std::vector<Output> outputs;
  int input_storages = 0;
  std::vector<int64_t> output_bytes;

  Recording() = default;
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  ~Recording() {
    for (Output& output : outputs) {
      Py_XDECREF(output.constant);
    }
    const xla_go_table* table = loaded_table.load(std::memory_order_acquire);
    if (table == nullptr || in_forked_child.load(std::memory_order_relaxed)) {
      return;
    }
    if (open) {
      table->record_cancel();
    }
    if (handle != 0) {
      table->forget(handle);
    }
  }
};

void destroy(PyObject* capsule) {
  delete static_cast<Recording*>(PyCapsule_GetPointer(capsule, capsule_name));
}

const at::Tensor* device_tensor(PyObject* value) {
  if (!THPVariable_Check(value)) {
    return nullptr;
  }
  const at::Tensor& tensor = THPVariable_Unpack(value);
  return tensor.is_xla() ? &tensor : nullptr;
}

// The position of a handle in `storages`, to which it is appended where it is new.
int position_of(std::vector<xla_go_storage*>& storages, xla_go_storage* storage) {
  for (size_t i = 0; i < storages.size(); ++i) {
    if (storages[i] == storage) {
      return static_cast<int>(i);
    }
  }
  storages.push_back(storage);
  return static_cast<int>(storages.size()) - 1;
}

uint32_t version_of(const at::Tensor& tensor) {
  return tensor.is_inference() ? 0
                               : tensor.unsafeGetTensorImpl()->version_counter().current_version();
}

void describe_output(Recording& recording, std::vector<xla_go_storage*>& inputs,
                     std::vector<xla_go_storage*>& made, PyObject* arguments, PyObject* results,
                     Py_ssize_t position) {
  PyObject* value = PyList_GET_ITEM(results, position);
  recording.outputs.emplace_back();
  Output& output = recording.outputs.back();
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(arguments); ++i) {
    if (PyList_GET_ITEM(arguments, i) == value && THPVariable_Check(value)) {
      output.kind = OutputKind::input;
      output.index = static_cast<int>(i);
      return;
    }
  }
  const at::Tensor* tensor = device_tensor(value);
  if (tensor == nullptr) {
    TORCH_CHECK(!THPVariable_Check(value), "a result is a tensor of another device");
    Py_INCREF(value);
    output.constant = value;
    return;
  }
  for (Py_ssize_t i = 0; i < position; ++i) {
    if (PyList_GET_ITEM(results, i) == value) {
      output.kind = OutputKind::output;
      output.index = static_cast<int>(i);
      return;
    }
  }
  output.geometry = Geometry(*tensor);
  xla_go_storage* storage = storage_of(*tensor->unsafeGetTensorImpl());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i] == storage) {
      output.kind = OutputKind::view_of_input;
      output.index = static_cast<int>(i);
      return;
    }
  }
  output.kind = OutputKind::over_new_storage;
  output.index = position_of(made, storage);
}

// The storages of a call's arguments, without repetition; empty with `fits` false where the
// arguments are not like those of the recording.
struct Arguments {
  std::vector<xla_go_storage*> storages;
  std::vector<const at::Tensor*> owners;  // a tensor of each
  bool fits = true;

  Arguments(const Recording& recording, PyObject* list) {
    const auto count = static_cast<size_t>(PyList_GET_SIZE(list));
    fits = count == recording.inputs.size();
    storages.reserve(recording.input_storages);
    owners.reserve(recording.input_storages);
    for (size_t i = 0; fits && i < count; ++i) {
      const Input& input = recording.inputs[i];
      const at::Tensor* tensor = device_tensor(PyList_GET_ITEM(list, static_cast<Py_ssize_t>(i)));
      if (tensor == nullptr || input.storage < 0) {
        fits = tensor == nullptr && input.storage < 0;
        continue;
      }
      xla_go_storage* storage = storage_of(*tensor->unsafeGetTensorImpl());
      const auto known = static_cast<int>(storages.size());
      if (input.storage == known) {
        storages.push_back(storage);
        owners.push_back(tensor);
      }
      fits = input.storage <= known && storages[input.storage] == storage &&
             input.geometry.matches(*tensor);
    }
    fits = fits && are_distinct();
  }

 private:
  // Whether storages that were different ones are so again.
  bool are_distinct() const {
    std::vector<const xla_go_storage*> sorted(storages.begin(), storages.end());
    std::sort(sorted.begin(), sorted.end());
    return std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end();
  }
};

// Fresh storages; those that no tensor took over are forgotten.
struct Made {
  std::vector<xla_go_storage*> handles;
  std::vector<c10::Storage> storages;

  Made(const std::vector<int64_t>& bytes, int device) {
    handles.reserve(bytes.size());
    storages.reserve(bytes.size());
    for (const int64_t size : bytes) {
      handles.push_back(new_storage(size, device));
      storages.emplace_back(c10::make_intrusive<c10::StorageImpl>(
          c10::StorageImpl::use_byte_size_t(), c10::SymInt(size), own(handles.back()),
          allocator_of(device), /*resizable=*/true));
    }
  }
};

at::Tensor tensor_over(const c10::Storage& storage, const Geometry& geometry) {
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(storage), xla_keys, c10::scalarTypeToTypeMeta(geometry.dtype));
  c10::TensorImpl* implementation = tensor.unsafeGetTensorImpl();
  implementation->set_sizes_and_strides(geometry.sizes, geometry.strides, geometry.offset);
  if (geometry.conj) {
    implementation->_set_conj(true);
  }
  if (geometry.neg) {
    implementation->_set_neg(true);
  }
  return tensor;
}

PyObject* result_of(const Recording& recording, const Output& output, PyObject* arguments,
                    PyObject* results, const Arguments& taken, const Made& made) {
  PyObject* value = nullptr;
  switch (output.kind) {
    case OutputKind::constant:
      value = output.constant;
      break;
    case OutputKind::input:
      value = PyList_GET_ITEM(arguments, output.index);
      break;
    case OutputKind::output:
      value = PyList_GET_ITEM(results, output.index);
      break;
    case OutputKind::view_of_input:
      return THPVariable_Wrap(tensor_over(taken.owners[output.index]->storage(), output.geometry));
    case OutputKind::over_new_storage:
      return THPVariable_Wrap(tensor_over(made.storages[output.index], output.geometry));
  }
  Py_INCREF(value);
  return value;
}

Recording& recording_of(PyObject* capsule) {
  auto* recording = static_cast<Recording*>(PyCapsule_GetPointer(capsule, capsule_name));
  if (recording == nullptr) {
    throw_pending_python_error();
  }
  return *recording;
}

}  // namespace

PyObject* record_begin(PyObject*, PyObject* args) {
  int device = 0;
  PyObject* arguments = nullptr;
  int closed = 0;
  if (!PyArg_ParseTuple(args, "iO!|p", &device, &PyList_Type, &arguments, &closed)) {
    return nullptr;
  }
  return guard_python([device, arguments, closed]() -> PyObject* {
    const xla_go_table& table = enter();
    drain_drops();
    auto recording = std::make_unique<Recording>();
    recording->device =
        resolve_device(c10::Device(c10::kXLA, static_cast<c10::DeviceIndex>(device)));
    std::vector<xla_go_storage*> storages;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(arguments); ++i) {
      recording->inputs.emplace_back();
      Input& input = recording->inputs.back();
      const at::Tensor* tensor = device_tensor(PyList_GET_ITEM(arguments, i));
      if (tensor != nullptr) {
        input.storage = position_of(storages, storage_of(*tensor->unsafeGetTensorImpl()));
        input.version = version_of(*tensor);
        input.geometry = Geometry(*tensor);
      }
    }
    recording->input_storages = static_cast<int>(storages.size());
    xla_go_generator scratch = {};
    const xla_go_generator* generator = generator_state(std::nullopt, recording->device, scratch);
    xla_go_error error = {};
    if (table.record_begin(recording->device, storages.data(),
                           static_cast<int32_t>(storages.size()), closed, generator, &error) != 0) {
      throw_error(error);
    }
    recording->open = true;
    note_compiles(table);
    PyObject* capsule = PyCapsule_New(recording.get(), capsule_name, destroy);
    if (capsule != nullptr) {
      recording.release();
    }
    return capsule;
  });
}

PyObject* record_end(PyObject*, PyObject* args) {
  PyObject* capsule = nullptr;
  PyObject* arguments = nullptr;
  PyObject* results = nullptr;
  if (!PyArg_ParseTuple(args, "OO!O!", &capsule, &PyList_Type, &arguments, &PyList_Type,
                        &results)) {
    return nullptr;
  }
  return guard_python([=]() -> PyObject* {
    const xla_go_table& table = enter();
    Recording& recording = recording_of(capsule);
    TORCH_CHECK(recording.open && recording.outputs.empty() &&
                    static_cast<size_t>(PyList_GET_SIZE(arguments)) == recording.inputs.size(),
                "record_end(): expected the arguments of record_begin(), once");
    std::vector<xla_go_storage*> storages;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(arguments); ++i) {
      Input& input = recording.inputs[static_cast<size_t>(i)];
      const at::Tensor* tensor = device_tensor(PyList_GET_ITEM(arguments, i));
      if (tensor != nullptr) {
        position_of(storages, storage_of(*tensor->unsafeGetTensorImpl()));
        input.written = version_of(*tensor) != input.version;
      }
    }
    std::vector<xla_go_storage*> made;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(results); ++i) {
      describe_output(recording, storages, made, arguments, results, i);
    }
    for (const xla_go_storage* storage : made) {
      recording.output_bytes.push_back(storage->nbytes);
    }
    drain_drops();
    xla_go_error error = {};
    recording.open = false;
    if (table.record_end(made.data(), static_cast<int32_t>(made.size()), &recording.handle,
                         &error) != 0) {
      throw_error(error);
    }
    note_compiles(table);
    Py_RETURN_NONE;
  });
}

PyObject* record_cancel(PyObject*, PyObject* args) {
  PyObject* capsule = nullptr;
  if (!PyArg_ParseTuple(args, "O", &capsule)) {
    return nullptr;
  }
  return guard_python([=]() -> PyObject* {
    Recording& recording = recording_of(capsule);
    if (recording.open) {
      recording.open = false;
      enter().record_cancel();
    }
    Py_RETURN_NONE;
  });
}

PyObject* same_recording(PyObject*, PyObject* args) {
  PyObject* first = nullptr;
  PyObject* second = nullptr;
  if (!PyArg_ParseTuple(args, "OO", &first, &second)) {
    return nullptr;
  }
  return guard_python([=]() -> PyObject* {
    const Recording& a = recording_of(first);
    const Recording& b = recording_of(second);
    const bool same = a.device == b.device && a.input_storages == b.input_storages &&
                      a.output_bytes == b.output_bytes &&
                      std::equal(a.inputs.begin(), a.inputs.end(), b.inputs.begin(), b.inputs.end(),
                                 same_input) &&
                      std::equal(a.outputs.begin(), a.outputs.end(), b.outputs.begin(),
                                 b.outputs.end(), same_output) &&
                      enter().same_recording(a.handle, b.handle) != 0;
    return PyBool_FromLong(same ? 1 : 0);
  });
}

PyObject* replay(PyObject*, PyObject* args) {
  PyObject* capsule = nullptr;
  PyObject* arguments = nullptr;
  if (!PyArg_ParseTuple(args, "OO!", &capsule, &PyList_Type, &arguments)) {
    return nullptr;
  }
  return guard_python([=]() -> PyObject* {
    const xla_go_table& table = enter();
    drain_long_batch();
    note_stack(table);
    const Recording& recording = recording_of(capsule);
    const Arguments taken(recording, arguments);
    if (!taken.fits || recording.handle == 0) {
      Py_RETURN_NONE;
    }
    const Made made(recording.output_bytes, recording.device);
    xla_go_generator scratch = {};
    xla_go_generator* generator = generator_state(std::nullopt, recording.device, scratch);
    xla_go_error error = {};
    int32_t ran = 0;
    int32_t code = 0;
    {
      GilRelease released;
      code = table.replay(recording.handle, taken.storages.data(),
                          static_cast<int32_t>(taken.storages.size()), made.handles.data(),
                          static_cast<int32_t>(made.handles.size()), generator, &ran, &error);
    }
    note_compiles(table);
    if (code != 0) {
      throw_error(error);
    }
    if (ran == 0) {
      Py_RETURN_NONE;
    }
    for (size_t i = 0; i < recording.inputs.size(); ++i) {
      if (recording.inputs[i].written) {
        const at::Tensor& tensor =
            THPVariable_Unpack(PyList_GET_ITEM(arguments, static_cast<Py_ssize_t>(i)));
        if (!tensor.is_inference()) {
          tensor.unsafeGetTensorImpl()->bump_version();
        }
      }
    }
    PyObject* results = PyList_New(static_cast<Py_ssize_t>(recording.outputs.size()));
    if (results == nullptr) {
      return nullptr;
    }
    for (size_t i = 0; i < recording.outputs.size(); ++i) {
      PyObject* value = result_of(recording, recording.outputs[i], arguments, results, taken, made);
      if (value == nullptr) {
        Py_DECREF(results);
        return nullptr;
      }
      PyList_SET_ITEM(results, static_cast<Py_ssize_t>(i), value);
    }
    return results;
  });
}

}  // namespace xla_go
