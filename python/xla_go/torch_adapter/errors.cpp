#include "errors.h"

#include <Python.h>
#include <c10/util/Exception.h>
#include <torch/csrc/Exceptions.h>

#include <utility>

namespace xla_go {
namespace {

constexpr int code_count = 17;  // canonical codes run from 0 to 16
PyObject* code_classes[code_count] = {};

// torch.linalg.LinAlgError, which torch's libraries do not export. A new reference for the life of
// the process.
PyObject* linalg_error() {
  static PyObject* const type = [] {
    PyObject* module = PyImport_ImportModule("torch.linalg");
    PyObject* found = module != nullptr ? PyObject_GetAttrString(module, "LinAlgError") : nullptr;
    Py_XDECREF(module);
    if (found == nullptr) {
      PyErr_Clear();
      Py_INCREF(PyExc_RuntimeError);
      found = PyExc_RuntimeError;  // its base class
    }
    return found;
  }();
  return type;
}

// torch asks python_type() with the GIL held, at the place where the exception becomes Python's.
class TypedError final : public torch::PyTorchError {
 public:
  TypedError(PythonKind kind, int code, std::string message)
      : torch::PyTorchError(std::move(message)), kind_(kind), code_(code) {}

  PyObject* python_type() override {
    switch (kind_) {
      case PythonKind::index_error:
        return PyExc_IndexError;
      case PythonKind::type_error:
        return PyExc_TypeError;
      case PythonKind::value_error:
        return PyExc_ValueError;
      case PythonKind::not_implemented_error:
      case PythonKind::cpu_fallback:
        return PyExc_NotImplementedError;
      case PythonKind::runtime_error:
        return PyExc_RuntimeError;
      case PythonKind::linalg_error:
        return linalg_error();
      case PythonKind::by_code:
        break;
    }
    if (code_ > 0 && code_ < code_count && code_classes[code_] != nullptr) {
      return code_classes[code_];
    }
    return PyExc_RuntimeError;
  }

 private:
  PythonKind kind_;
  int code_;
};

}  // namespace

void throw_error(const xla_go_error& error) {
  throw TypedError(static_cast<PythonKind>(error.python_kind), error.code, error.message);
}

void throw_python(PythonKind kind, std::string message) {
  throw TypedError(kind, 0, std::move(message));
}

void throw_pending_python_error() {
  python_error pending;
  pending.persist();
  throw std::move(pending);
}

PyObject* set_python_error() {
  try {
    throw;
  } catch (python_error& error) {
    error.restore();
  } catch (torch::PyTorchError& error) {
    PyErr_SetString(error.python_type(), error.what());
  } catch (const c10::Error& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what_without_backtrace());
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  return nullptr;
}

bool set_error_classes(PyObject* classes) {
  if (!PyDict_Check(classes)) {
    PyErr_SetString(PyExc_TypeError, "error classes: expected a dict of code to class");
    return false;
  }
  PyObject* key = nullptr;
  PyObject* value = nullptr;
  Py_ssize_t position = 0;
  while (PyDict_Next(classes, &position, &key, &value)) {
    const long code = PyLong_AsLong(key);
    if (code <= 0 || code >= code_count || !PyExceptionClass_Check(value)) {
      if (!PyErr_Occurred()) {
        PyErr_SetString(PyExc_TypeError, "error classes: expected codes 1 to 16 and classes");
      }
      return false;
    }
    Py_INCREF(value);
    Py_XSETREF(code_classes[code], value);
  }
  return true;
}

}  // namespace xla_go
