// What a step of xla_go.jit depends on besides its arguments, read in one go: it is read at each
// call, and Python takes longer for it than for all else of a call that runs a known program.
#pragma once

#include <Python.h>

namespace xla_go {

// read_step_state(places, distinct) -> (parameters, values, numbers) | None; see module.cpp.
PyObject* read_step_state(PyObject* self, PyObject* args);

}  // namespace xla_go
