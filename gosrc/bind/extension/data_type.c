#include "data_type.h"

#include <structmember.h>

static PyTypeObject* data_type = NULL;
static Py_ssize_t handle_offset = 0;

PyTypeObject* xla_go_data_type(void) { return data_type; }

PyObject** xla_go_data_handle(PyObject* data) { return (PyObject**)((char*)data + handle_offset); }

static PyObject* finalize(PyObject* self, PyObject* Py_UNUSED(nothing)) {
  PyObject* handle = *xla_go_data_handle(self);
  if (handle == NULL) Py_RETURN_NONE;
  return xla_go_close_data(handle);
}

static PyMethodDef finalizer = {"__del__", finalize, METH_NOARGS,
                                "Drops the hold on the device memory."};

PyObject* xla_go_call_own_data_type(PyObject* Py_UNUSED(module), PyObject* type) {
  if (!PyType_Check(type)) {
    PyErr_Format(PyExc_TypeError, "own_data_type(): expected a class, got %s",
                 Py_TYPE(type)->tp_name);
    return NULL;
  }
  PyObject* slot = PyObject_GetAttrString(type, "_handle");
  if (slot == NULL) return NULL;
  if (!Py_IS_TYPE(slot, &PyMemberDescr_Type) ||
      ((PyMemberDescrObject*)slot)->d_member->type != T_OBJECT_EX) {
    PyErr_SetString(PyExc_TypeError, "own_data_type(): expected a class with a slot _handle");
    Py_DECREF(slot);
    return NULL;
  }
  handle_offset = ((PyMemberDescrObject*)slot)->d_member->offset;
  Py_DECREF(slot);
  PyObject* method = PyDescr_NewMethod((PyTypeObject*)type, &finalizer);
  if (method == NULL) return NULL;
  const int failed = PyObject_SetAttrString(type, "__del__", method);
  Py_DECREF(method);
  if (failed) return NULL;
  Py_XDECREF((PyObject*)data_type);
  data_type = (PyTypeObject*)Py_NewRef(type);
  Py_RETURN_NONE;
}
