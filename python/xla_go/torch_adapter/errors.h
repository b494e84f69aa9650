// Errors that leave an operator: a runtime error becomes an exception of the class that its code
// or kind names, in Python as well as through autograd.
#pragma once

#include <string>

#include "xla_go_dispatch.h"

typedef struct _object PyObject;

namespace xla_go {

// The values of xla_go_error::python_kind.
enum class PythonKind : int {
  by_code = 0,
  index_error = 1,
  type_error = 2,
  value_error = 3,
  not_implemented_error = 4,
  runtime_error = 5,
  cpu_fallback = 6,  // no exception: the row cannot express the call, torch's CPU kernel can
  linalg_error = 7,
};

// Throws the exception for a failed call of the runtime.
[[noreturn]] void throw_error(const xla_go_error& error);

// Throws an exception of a Python class that is not tied to a status code.
[[noreturn]] void throw_python(PythonKind kind, std::string message);

// Throws the exception that Python has set on this thread. Call with the GIL held.
[[noreturn]] void throw_pending_python_error();

// Sets the Python exception for the C++ exception that is being handled. Call from a catch block
// with the GIL held; returns nullptr for the convenience of `return`.
PyObject* set_python_error();

// `classes` maps a canonical code (int) to an exception class. Keeps a reference for the life of
// the process. Returns false with a Python exception set where it is not such a mapping.
bool set_error_classes(PyObject* classes);

}  // namespace xla_go
