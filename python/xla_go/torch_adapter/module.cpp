// The extension module _torch_adapter: registration with torch, and the controls that Python uses.
#include <Python.h>
#include <c10/core/DispatchKey.h>
#include <torch/library.h>
#include <torch/version.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "autocast.h"
#include "call.h"
#include "collective.h"
#include "errors.h"
#include "fallback.h"
#include "generator.h"
#include "guard.h"
#include "natives.h"
#include "recording.h"
#include "runtime.h"
#include "step_state.h"
#include "storage.h"

namespace {

using namespace xla_go;

int checked_device(int device) {
  return resolve_device(c10::Device(c10::kXLA, static_cast<c10::DeviceIndex>(device)));
}

// The same without starting the runtime, which a generator does not need.
int checked_generator_device(int device) {
  if (device < 0 || device >= max_devices) {
    throw_python(PythonKind::value_error, "expected a device index from 0 to " +
                                              std::to_string(max_devices - 1) + ", got " +
                                              std::to_string(device));
  }
  return device;
}

// ---- registration ----

struct Libraries {
  torch::Library own{torch::Library::FRAGMENT, "xla_go", {}, __FILE__, __LINE__};
  torch::Library own_kernels{torch::Library::IMPL, "xla_go", c10::DispatchKey::XLA, __FILE__,
                             __LINE__};
  torch::Library kernels{torch::Library::IMPL, "aten", c10::DispatchKey::XLA, __FILE__, __LINE__};
  torch::Library fallback{torch::Library::IMPL, "_", c10::DispatchKey::XLA, __FILE__, __LINE__};
  torch::Library autocast{torch::Library::IMPL, "aten", c10::DispatchKey::AutocastXLA, __FILE__,
                          __LINE__};
  torch::Library autocast_fallback{torch::Library::IMPL, "_", c10::DispatchKey::AutocastXLA,
                                   __FILE__, __LINE__};
};

// Never destroyed: the registrations hold for the life of the process.
Libraries* libraries = nullptr;
std::vector<std::string>* refused_rows = nullptr;
int composite_count = 0;

bool version_matches(const char* running) {
  const std::string built =
      std::to_string(TORCH_VERSION_MAJOR) + "." + std::to_string(TORCH_VERSION_MINOR) + ".";
  return std::strncmp(running, built.c_str(), built.size()) == 0;
}

bool check_key(const char* name, int running, c10::DispatchKey built) {
  if (running == static_cast<int>(built)) {
    return true;
  }
  PyErr_Format(PyExc_ImportError,
               "xla_go: expected dispatch key %s to be number %d as in the torch that the adapter "
               "was built with, got %d; build the adapter for this torch",
               name, static_cast<int>(built), running);
  return false;
}

PyObject* initialize(PyObject*, PyObject* args) {
  const char* version = nullptr;
  int xla = 0;
  int cpu = 0;
  int autograd_xla = 0;
  PyObject* classes = nullptr;
  if (!PyArg_ParseTuple(args, "siiiO", &version, &xla, &cpu, &autograd_xla, &classes)) {
    return nullptr;
  }
  if (!version_matches(version)) {
    PyErr_Format(PyExc_ImportError,
                 "xla_go: expected torch %d.%d, which the adapter was built with, got torch %s",
                 TORCH_VERSION_MAJOR, TORCH_VERSION_MINOR, version);
    return nullptr;
  }
  if (!check_key("XLA", xla, c10::DispatchKey::XLA) ||
      !check_key("CPU", cpu, c10::DispatchKey::CPU) ||
      !check_key("AutogradXLA", autograd_xla, c10::DispatchKey::AutogradXLA) ||
      !set_error_classes(classes)) {
    return nullptr;
  }
  if (libraries != nullptr) {
    Py_RETURN_NONE;
  }
  return guard_python([]() -> PyObject* {
    auto made = std::make_unique<Libraries>();
    register_guard();
    register_hooks();
    register_natives(made->kernels);
    define_collectives(made->own);
    refused_rows = new std::vector<std::string>(register_rows(made->kernels, made->own_kernels));
    composite_count = register_composites(made->kernels);
    register_fallback(made->fallback);
    register_autocast(made->autocast);
    register_autocast_fallthrough(made->autocast_fallback);
    libraries = made.release();
    Py_RETURN_NONE;
  });
}

PyObject* refused(PyObject*, PyObject*) {
  PyObject* names = PyList_New(0);
  if (names == nullptr || refused_rows == nullptr) {
    return names;
  }
  for (const std::string& name : *refused_rows) {
    PyObject* text = PyUnicode_FromString(name.c_str());
    if (text == nullptr || PyList_Append(names, text) != 0) {
      Py_XDECREF(text);
      Py_DECREF(names);
      return nullptr;
    }
    Py_DECREF(text);
  }
  return names;
}

// ---- the step ----

PyObject* sync(PyObject*, PyObject* args) {
  int device = 0;
  const char* cause = "sync()";
  if (!PyArg_ParseTuple(args, "|is", &device, &cause)) {
    return nullptr;
  }
  return guard_python([device, cause]() -> PyObject* {
    const int index = checked_device(device);
    const xla_go_table& table = enter();
    drain_drops();
    int64_t token = 0;
    xla_go_error error = {};
    int32_t code = 0;
    bool interrupted = false;
    {
      GilRelease released;
      while (!interrupted && (code = table.sync(index, cause, &token, &error)) == -1) {
        interrupted = !run_signal_handlers();
      }
    }
    note_compiles(table);
    if (interrupted) {
      throw_interrupt();
    }
    if (code != 0) {
      throw_error(error);
    }
    return PyLong_FromLongLong(token);
  });
}

PyObject* wait(PyObject*, PyObject* args) {
  long long token = 0;
  int timeout_ms = 0;
  if (!PyArg_ParseTuple(args, "Li", &token, &timeout_ms)) {
    return nullptr;
  }
  return guard_python([token, timeout_ms]() -> PyObject* {
    const xla_go_table& table = enter();
    xla_go_error error = {};
    int32_t code = 0;
    {
      GilRelease released;
      code = table.read_wait(token, timeout_ms, &error);
    }
    if (code != 0 && code != -1) {
      throw_error(error);
    }
    return PyBool_FromLong(code == 0);
  });
}

PyObject* cancel(PyObject*, PyObject* args) {
  long long token = 0;
  if (!PyArg_ParseTuple(args, "L", &token)) {
    return nullptr;
  }
  return guard_python([token]() -> PyObject* {
    enter().read_cancel(token);
    Py_RETURN_NONE;
  });
}

PyObject* drain(PyObject*, PyObject*) {
  return guard_python([]() -> PyObject* {
    drain_drops();
    Py_RETURN_NONE;
  });
}

// ---- settings ----

PyObject* py_set_fallback_mode(PyObject*, PyObject* args) {
  const char* name = nullptr;
  if (!PyArg_ParseTuple(args, "s", &name)) {
    return nullptr;
  }
  if (std::strcmp(name, "cpu") == 0) {
    set_fallback_mode(FallbackMode::cpu);
  } else if (std::strcmp(name, "error") == 0) {
    set_fallback_mode(FallbackMode::error);
  } else {
    PyErr_Format(PyExc_ValueError, "set_fallback_mode(): expected 'cpu' or 'error', got '%s'",
                 name);
    return nullptr;
  }
  Py_RETURN_NONE;
}

PyObject* py_fallback_mode(PyObject*, PyObject*) {
  return PyUnicode_FromString(fallback_mode() == FallbackMode::cpu ? "cpu" : "error");
}

PyObject* manual_seed(PyObject*, PyObject* args) {
  unsigned long long seed = 0;
  if (!PyArg_ParseTuple(args, "K", &seed)) {
    return nullptr;
  }
  return guard_python([seed]() -> PyObject* {
    seed_default_generators(seed);
    Py_RETURN_NONE;
  });
}

PyObject* get_rng_state(PyObject*, PyObject* args) {
  int device = 0;
  if (!PyArg_ParseTuple(args, "|i", &device)) {
    return nullptr;
  }
  return guard_python([device]() -> PyObject* {
    const xla_go_generator state = default_state(checked_generator_device(device));
    return Py_BuildValue("KK", static_cast<unsigned long long>(state.seed),
                         static_cast<unsigned long long>(state.offset));
  });
}

PyObject* set_rng_state(PyObject*, PyObject* args) {
  int device = 0;
  unsigned long long seed = 0;
  unsigned long long offset = 0;
  if (!PyArg_ParseTuple(args, "iKK", &device, &seed, &offset)) {
    return nullptr;
  }
  return guard_python([=]() -> PyObject* {
    set_default_state(checked_generator_device(device), {seed, offset});
    Py_RETURN_NONE;
  });
}

PyObject* py_current_device(PyObject*, PyObject*) { return PyLong_FromLong(current_device()); }

PyObject* py_set_current_device(PyObject*, PyObject* args) {
  int device = 0;
  if (!PyArg_ParseTuple(args, "i", &device)) {
    return nullptr;
  }
  return guard_python([device]() -> PyObject* {
    set_current_device(device);
    Py_RETURN_NONE;
  });
}

PyObject* py_device_count(PyObject*, PyObject*) {
  return guard_python([]() -> PyObject* { return PyLong_FromLong(device_count()); });
}

PyObject* py_follow_cpu_generator(PyObject*, PyObject* args) {
  int follow = 0;
  if (!PyArg_ParseTuple(args, "p", &follow)) {
    return nullptr;
  }
  follow_cpu_generator(follow != 0);
  Py_RETURN_NONE;
}

PyObject* py_forget_device_count(PyObject*, PyObject*) {
  forget_device_count();
  Py_RETURN_NONE;
}

// ---- what is going on ----

PyObject* op_call_count(PyObject*, PyObject*) { return PyLong_FromLongLong(row_call_count()); }

PyObject* py_composite_count(PyObject*, PyObject*) { return PyLong_FromLong(composite_count); }

PyObject* is_loaded(PyObject*, PyObject*) {
  return PyBool_FromLong(loaded_table.load(std::memory_order_acquire) != nullptr);
}

PyObject* py_in_forked_child(PyObject*, PyObject*) {
  return PyBool_FromLong(in_forked_child.load(std::memory_order_relaxed));
}

PyObject* py_hold_other_threads(PyObject*, PyObject*) {
  hold_other_threads();
  Py_RETURN_NONE;
}

// The handle of a storage given by its StorageImpl address (UntypedStorage._cdata).
xla_go_storage* handle_at(unsigned long long address) {
  const auto* storage = reinterpret_cast<const c10::StorageImpl*>(address);
  if (storage == nullptr || !storage->device().is_xla()) {
    throw_python(PythonKind::value_error, "expected a storage on device xla");
  }
  return static_cast<xla_go_storage*>(storage->data_ptr().get_context());
}

PyObject* buffer_pointer(PyObject*, PyObject* args) {
  unsigned long long address = 0;
  if (!PyArg_ParseTuple(args, "K", &address)) {
    return nullptr;
  }
  return guard_python([address]() -> PyObject* {
    const xla_go_table& table = enter();
    xla_go_storage* handle = handle_at(address);
    uint64_t pointer = 0;
    {
      GilRelease released;  // waits for a value that is being computed
      pointer = table.buffer_pointer(handle);
    }
    return PyLong_FromUnsignedLongLong(pointer);
  });
}

PyObject* storage_id(PyObject*, PyObject* args) {
  unsigned long long address = 0;
  if (!PyArg_ParseTuple(args, "K", &address)) {
    return nullptr;
  }
  return guard_python(
      [address]() -> PyObject* { return PyLong_FromLongLong(handle_at(address)->id); });
}

PyMethodDef methods[] = {
    {"initialize", initialize, METH_VARARGS,
     "initialize(torch_version, key_xla, key_cpu, key_autograd_xla, error_classes)\n\n"
     "Checks the running torch against the one built with, then registers device xla."},
    {"refused_rows", refused, METH_NOARGS,
     "Names of runtime rows whose schema the boxed entry cannot serve."},
    {"sync", sync, METH_VARARGS,
     "sync(device=0, cause='sync()') -> int\n\nCuts the pending graph and queues it; cause is what "
     "reports say asked for it. Does not wait. Returns a token for wait() and cancel(), or 0 where "
     "nothing was pending."},
    {"wait", wait, METH_VARARGS,
     "wait(token, timeout_ms) -> bool\n\nWhether the work behind token is done. Blocks for at most "
     "timeout_ms, without the GIL; raises the error that the work ended with."},
    {"cancel", cancel, METH_VARARGS, "cancel(token)\n\nReleases a token; its work goes on."},
    {"drain", drain, METH_NOARGS, "Hands batched drops of storages to the runtime now."},
    {"set_fallback_mode", py_set_fallback_mode, METH_VARARGS,
     "set_fallback_mode(mode)\n\n'cpu' runs operators without a row on the CPU, 'error' raises."},
    {"fallback_mode", py_fallback_mode, METH_NOARGS, "The fallback mode: 'cpu' or 'error'."},
    {"manual_seed", manual_seed, METH_VARARGS,
     "manual_seed(seed)\n\nSeeds the default generators of all xla devices."},
    {"follow_cpu_generator", py_follow_cpu_generator, METH_VARARGS,
     "follow_cpu_generator(follow)\n\nWhether a new seed of the CPU's generator, set by whatever "
     "means, seeds the default generators of all xla devices."},
    {"get_rng_state", get_rng_state, METH_VARARGS,
     "get_rng_state(device=0) -> (seed, offset)\n\nState of a device's default generator."},
    {"set_rng_state", set_rng_state, METH_VARARGS, "set_rng_state(device, seed, offset)"},
    {"current_device", py_current_device, METH_NOARGS, "Index of the thread's current device."},
    {"set_current_device", py_set_current_device, METH_VARARGS, "set_current_device(index)"},
    {"device_count", py_device_count, METH_NOARGS,
     "Number of xla devices of this process. Starts the runtime."},
    {"forget_device_count", py_forget_device_count, METH_NOARGS,
     "Has device_count() ask the runtime again: one device stands for all from now on."},
    {"op_call_count", op_call_count, METH_NOARGS, "Operator calls made through rows so far."},
    {"composite_count", py_composite_count, METH_NOARGS,
     "Number of torch's own composites registered for device xla."},
    {"is_loaded", is_loaded, METH_NOARGS, "Whether the runtime has been started."},
    {"in_forked_child", py_in_forked_child, METH_NOARGS,
     "Whether this process was forked from one that had started the runtime."},
    {"hold_other_threads", py_hold_other_threads, METH_NOARGS,
     "Has every other thread stay where it next meets the runtime: the process ends."},
    {"buffer_pointer", buffer_pointer, METH_VARARGS,
     "buffer_pointer(storage_cdata) -> int\n\nAddress of a ready value's device memory, else 0."},
    {"storage_id", storage_id, METH_VARARGS,
     "storage_id(storage_cdata) -> int\n\nThe runtime's id of a storage, 0 before its first use."},
    {"record_begin", record_begin, METH_VARARGS,
     "record_begin(device, arguments, closed=False) -> recording\n\nFollows what is traced on the "
     "device from now on as a program of the arguments, a list. With closed it may read no other "
     "value of the device; without, such values are constants. Raises UnavailableError where it "
     "cannot."},
    {"record_end", record_end, METH_VARARGS,
     "record_end(recording, arguments, results)\n\nQueues what was traced since record_begin(), as "
     "a "
     "program that gives the list results. Raises UnavailableError, with the reason, where it "
     "cannot "
     "be run again."},
    {"record_cancel", record_cancel, METH_VARARGS,
     "record_cancel(recording)\n\nEnds a recording that was begun. Idempotent."},
    {"same_recording", same_recording, METH_VARARGS,
     "same_recording(recording, other) -> bool\n\nWhether both are of one program, with equal "
     "numbers, from the same arguments to the same results."},
    {"replay", replay, METH_VARARGS,
     "replay(recording, arguments) -> list | None\n\nQueues the recorded program on the arguments, "
     "a "
     "list, without tracing, and gives its results; None, and nothing has happened, where they are "
     "not like those that it was recorded with."},
    {"read_step_state", read_step_state, METH_VARARGS,
     "read_step_state(places, distinct) -> (parameters, values, numbers) | None\n\nWhat a step's "
     "program depends on, at the places that State of _jit/state.py has found: lists of tensors "
     "among other things, and a tuple to compare. distinct has the positions of each parameter's "
     "first. None where an optimizer has other groups than those that were found."},
    {nullptr, nullptr, 0, nullptr}};

PyModuleDef module_definition = {PyModuleDef_HEAD_INIT,
                                 "_torch_adapter",
                                 "Device xla for PyTorch.",
                                 -1,
                                 methods,
                                 nullptr,
                                 nullptr,
                                 nullptr,
                                 nullptr};

}  // namespace

extern "C" __attribute__((visibility("default"))) PyObject* PyInit__torch_adapter() {
  PyObject* module = PyModule_Create(&module_definition);
  if (module != nullptr) {
    const std::string version = std::to_string(TORCH_VERSION_MAJOR) + "." +
                                std::to_string(TORCH_VERSION_MINOR) + "." +
                                std::to_string(TORCH_VERSION_PATCH);
    PyModule_AddStringConstant(module, "built_for_torch", version.c_str());
  }
  return module;
}
