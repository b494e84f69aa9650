#include "runtime.h"

#include <Python.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "call.h"
#include "errors.h"
#include "storage.h"

namespace xla_go {

std::atomic<const xla_go_table*> loaded_table{nullptr};
std::atomic<bool> in_forked_child{false};
std::atomic<bool> process_ends{false};
std::atomic<int64_t> reported_compiles{0};

namespace {

std::atomic<int> known_device_count{0};  // 0 before it was asked for

pthread_t ending_thread;  // set before process_ends

// PyGILState_Check() says yes to everybody once the process has had a sub-interpreter.
bool holds_gil() {
#if PY_VERSION_HEX >= 0x030D0000
  const PyThreadState* current = PyThreadState_GetUnchecked();
#else
  const PyThreadState* current = _PyThreadState_UncheckedGet();
#endif
  return current != nullptr && current == PyGILState_GetThisThreadState();
}

// Takes the GIL by a function of Python's, which ends this thread where Python is ending: what
// unwinds its stack then does not get further than here.
template <typename Take>
void take_gil(Take take) {
  stay_if_held();
  try {
    take();
  } catch (abi::__forced_unwind&) {
    stay();
  }
}

// Holds the GIL for its lifetime, whether or not the thread held it before.
class GilHold {
 public:
  GilHold() {
    take_gil([this] { state_ = PyGILState_Ensure(); });
  }
  ~GilHold() {
    if (C10_UNLIKELY(!holds_gil())) {
      stay();  // Python has ended this thread within a call of it
    }
    PyGILState_Release(state_);
  }
  GilHold(const GilHold&) = delete;
  GilHold& operator=(const GilHold&) = delete;

 private:
  PyGILState_STATE state_;
};

// Tells of an exception of what must not fail an operator, which is dropped. A Ctrl-C that came in
// it is for the user's code.
void drop_exception(PyObject* where) {
  if (PyErr_ExceptionMatches(PyExc_KeyboardInterrupt) != 0) {
    PyErr_Clear();
    PyErr_SetInterrupt();
  } else {
    PyErr_WriteUnraisable(where);
  }
}

void mark_forked_child() { in_forked_child.store(true, std::memory_order_relaxed); }

const xla_go_table* ask_python_for_table() {
  PyObject* module = PyImport_ImportModule("xla_go._runtime");
  if (module == nullptr) {
    throw_pending_python_error();
  }
  PyObject* address = PyObject_CallMethod(module, "load_table", nullptr);
  Py_DECREF(module);
  if (address == nullptr) {
    throw_pending_python_error();
  }
  void* pointer = PyLong_AsVoidPtr(address);
  Py_DECREF(address);
  if (pointer == nullptr) {
    if (PyErr_Occurred()) {
      throw_pending_python_error();
    }
    throw_python(PythonKind::runtime_error, "load_table(): expected the address of a table, got 0");
  }
  return static_cast<const xla_go_table*>(pointer);
}

void check_table(const xla_go_table& table) {
  if (table.version != XLA_GO_DISPATCH_VERSION ||
      table.struct_size < static_cast<int64_t>(sizeof(xla_go_table))) {
    throw_python(PythonKind::runtime_error,
                 "xla_go: expected a runtime with table version " +
                     std::to_string(XLA_GO_DISPATCH_VERSION) + " and at least " +
                     std::to_string(sizeof(xla_go_table)) + " bytes, got version " +
                     std::to_string(table.version) + " and " + std::to_string(table.struct_size) +
                     " bytes; install xla_go again so that its parts match");
  }
  if (table.rows_digest() != rows_digest) {
    throw_python(PythonKind::runtime_error,
                 "xla_go: the adapter was built with another table of operators than the runtime "
                 "has; install xla_go again so that its parts match");
  }
}

}  // namespace

const xla_go_table* load_table() {
  GilHold gil;
  const xla_go_table* table = loaded_table.load(std::memory_order_acquire);
  if (table != nullptr) {
    return table;
  }
  table = ask_python_for_table();
  check_table(*table);
  // Python may have let another thread through while it loaded; its loader gives both the same
  // table, and the handler below is harmless if it is registered twice.
  if (loaded_table.exchange(table, std::memory_order_acq_rel) == nullptr) {
    pthread_atfork(nullptr, nullptr, &mark_forked_child);
  }
  return table;
}

void throw_forked_child() {
  throw_error({9 /* FAILED_PRECONDITION */, static_cast<int32_t>(PythonKind::by_code),
               "xla_go used in a forked child of a process that has used the device: start it with "
               "the spawn method (torch.multiprocessing.set_start_method('spawn'))"});
}

void stay() {
  for (;;) {
    pause();
  }
}

void hold_other_threads() {
  ending_thread = pthread_self();
  process_ends.store(true, std::memory_order_release);
}

void stay_if_held() {
  if (!process_ends.load(std::memory_order_acquire) ||
      pthread_equal(ending_thread, pthread_self()) != 0) {
    return;
  }
  if (holds_gil()) {
    PyEval_SaveThread();
  }
  stay();
}

int device_count() {
  const xla_go_table& table = enter();
  // Asking costs a crossing.
  int count = known_device_count.load(std::memory_order_relaxed);
  if (count == 0) {
    count = table.device_count != nullptr ? std::min(table.device_count(), max_devices) : 1;
    known_device_count.store(count, std::memory_order_relaxed);
  }
  return count;
}

void forget_device_count() { known_device_count.store(0, std::memory_order_relaxed); }

GilRelease::GilRelease() {
  if (Py_IsInitialized() && holds_gil()) {
    thread_state_ = PyEval_SaveThread();
  }
}

GilRelease::~GilRelease() {
  if (thread_state_ != nullptr) {
    take_gil([this] { PyEval_RestoreThread(static_cast<PyThreadState*>(thread_state_)); });
  }
}

void report_compiles(int64_t started) {
  reported_compiles.store(started, std::memory_order_relaxed);
  if (!Py_IsInitialized()) {
    return;
  }
  GilHold gil;
  PyObject* module = PyImport_ImportModule("xla_go._compiles");
  PyObject* done = module != nullptr ? PyObject_CallMethod(module, "locate", nullptr) : nullptr;
  if (done == nullptr) {
    drop_exception(module);  // a place that is not known must not fail the step
  }
  Py_XDECREF(done);
  Py_XDECREF(module);
}

void report_stack(const xla_go_table& table) {
  if (!Py_IsInitialized()) {
    return;
  }
  GilHold gil;
  // An exception that is on its way (a backward hook's, say) is not to be disturbed.
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyObject* module = PyImport_ImportModule("xla_go._stacks");
  PyObject* number = module != nullptr ? PyObject_CallMethod(module, "current", nullptr) : nullptr;
  if (number == nullptr) {
    drop_exception(module);  // a place that is not known must not fail the operator
    table.set_stack(0);
  } else {
    table.set_stack(static_cast<int32_t>(PyLong_AsLong(number)));
  }
  Py_XDECREF(number);
  Py_XDECREF(module);
  PyErr_Restore(type, value, trace);
}

bool run_signal_handlers() {
  if (!Py_IsInitialized()) {
    return true;
  }
  GilHold gil;
  // The exception stays set on this thread's Python state until throw_interrupt().
  return PyErr_CheckSignals() == 0;
}

void throw_interrupt() {
  GilHold gil;
  throw_pending_python_error();
}

}  // namespace xla_go
