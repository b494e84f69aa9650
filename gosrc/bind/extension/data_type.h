// The class of Python that owns handles of data, which this module makes and finalizes itself: a
// Python frame for each would cost a small run a tenth of its time.
#pragma once
#include "extension.h"

// Takes the class: one whose slot `_handle` holds the handle as an int. It gets its `__del__` here.
// None, or NULL with a Python exception set.
PyObject* xla_go_call_own_data_type(PyObject* module, PyObject* type);

// The class that was taken, borrowed; NULL before.
PyTypeObject* xla_go_data_type(void);

// The slot of one of its objects; NULL in it where none was set.
PyObject** xla_go_data_handle(PyObject* data);
