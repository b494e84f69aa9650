#include "data_type.h"
#include "extension.h"

// Runs with more arguments or results than this take a block of memory.
#define FEW 32

// Reads the handle of one argument. 0, or -1 with an exception set.
static int handle_of(PyObject* item, Py_ssize_t index, long long* handle) {
  PyTypeObject* type = xla_go_data_type();
  if (!PyObject_TypeCheck(item, type)) {
    PyErr_Format(PyExc_TypeError,
                 "execute(): expected %s as argument %zd, got %s: put an array on the device with "
                 "xla_go.client.upload",
                 type->tp_name, index, Py_TYPE(item)->tp_name);
    return -1;
  }
  PyObject* number = *xla_go_data_handle(item);
  if (number == NULL) {
    PyErr_Format(PyExc_ValueError,
                 "execute(): expected open data as argument %zd, got a %s that was never made",
                 index, type->tp_name);
    return -1;
  }
  *handle = PyLong_AsLongLong(number);
  return *handle == -1 && PyErr_Occurred() ? -1 : 0;
}

// Makes the object that owns an open handle.
static PyObject* new_result(long long handle) {
  PyTypeObject* type = xla_go_data_type();
  PyObject* number = PyLong_FromLongLong(handle);
  if (number == NULL) return NULL;
  PyObject* result = type->tp_alloc(type, 0);
  if (result == NULL) {
    Py_DECREF(number);
    return NULL;
  }
  *xla_go_data_handle(result) = number;
  return result;
}

static PyObject* new_results(const long long* handles, int count) {
  PyObject* list = PyList_New(count);
  int made = 0;
  while (list != NULL && made < count) {
    PyObject* result = new_result(handles[made]);
    if (result == NULL) break;
    PyList_SET_ITEM(list, made++, result);
  }
  if (list != NULL && made == count) return list;
  Py_XDECREF(list);
  Py_BEGIN_ALLOW_THREADS;
  for (int i = made; i < count; i++) free(xlaGoCloseData(handles[i]));  // no object owns these
  Py_END_ALLOW_THREADS;
  return NULL;
}

static PyObject* run(long long computation, PyObject* arguments, char* device, PyObject* kept,
                     long long* handles) {
  const Py_ssize_t count = PyTuple_GET_SIZE(arguments), kept_count = PyTuple_GET_SIZE(kept);
  for (Py_ssize_t i = 0; i < count; i++) {
    if (handle_of(PyTuple_GET_ITEM(arguments, i), i, &handles[i]) != 0) return NULL;
  }
  for (Py_ssize_t i = 0; i < kept_count; i++) {
    handles[count + i] = PyLong_AsLongLong(PyTuple_GET_ITEM(kept, i));
    if (handles[count + i] == -1 && PyErr_Occurred()) return NULL;
  }
  long long few[FEW], *results = few;
  int result_count = 0;
  char* failure;
  Py_BEGIN_ALLOW_THREADS;
  failure = xlaGoExecute(computation, handles, (int)count, device, handles + count, (int)kept_count,
                         FEW, &results, &result_count);
  Py_END_ALLOW_THREADS;
  if (failure != NULL) return xla_go_raise(failure);
  PyObject* list = new_results(results, result_count);
  if (results != few) free(results);
  return list;
}

PyObject* xla_go_call_execute(PyObject* Py_UNUSED(module), PyObject* const* arguments,
                              Py_ssize_t count) {
  if (count != 4 || !PyTuple_Check(arguments[1]) || !PyTuple_Check(arguments[3])) {
    PyErr_SetString(PyExc_TypeError, "execute(): expected (computation, arguments, device, kept)");
    return NULL;
  }
  if (xla_go_data_type() == NULL) {
    PyErr_SetString(PyExc_RuntimeError,
                    "FAILED_PRECONDITION: execute(): expected own_data_type first");
    return NULL;
  }
  if (xla_go_forked()) return xla_go_raise_forked();
  const long long computation = PyLong_AsLongLong(arguments[0]);
  if (computation == -1 && PyErr_Occurred()) return NULL;
  const char* device = NULL;
  if (arguments[2] != Py_None && (device = PyUnicode_AsUTF8(arguments[2])) == NULL) return NULL;
  const Py_ssize_t numbers = PyTuple_GET_SIZE(arguments[1]) + PyTuple_GET_SIZE(arguments[3]);
  long long few[FEW], *handles = few;
  if (numbers > FEW && (handles = PyMem_New(long long, numbers)) == NULL) return PyErr_NoMemory();
  PyObject* result = run(computation, arguments[1], (char*)device, arguments[3], handles);
  if (handles != few) PyMem_Free(handles);
  return result;
}
