// Recordings: compiled functions that run again without a call per operator.
#pragma once

typedef struct _object PyObject;

namespace xla_go {

// The functions of the module; their texts for Python are in module.cpp.
PyObject* record_begin(PyObject*, PyObject* args);
PyObject* record_end(PyObject*, PyObject* args);
PyObject* record_cancel(PyObject*, PyObject* args);
PyObject* same_recording(PyObject*, PyObject* args);
PyObject* replay(PyObject*, PyObject* args);

}  // namespace xla_go
