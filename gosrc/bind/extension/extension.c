#include "extension.h"

#include <pthread.h>

#include "data_type.h"

static volatile int forked = 0;

static void on_fork(void) { forked = 1; }

int xla_go_forked(void) { return forked; }

PyObject* xla_go_raise(char* failure) {
  PyErr_SetString(PyExc_RuntimeError, failure);
  free(failure);
  return NULL;
}

PyObject* xla_go_raise_forked(void) {
  PyErr_SetString(
      PyExc_RuntimeError,
      "FAILED_PRECONDITION: xla_go used in a forked child of a process that has used the device: "
      "start it with the spawn method (torch.multiprocessing.set_start_method('spawn'))");
  return NULL;
}

PyObject* xla_go_close_data(PyObject* handle) {
  const long long number = PyLong_AsLongLong(handle);
  if (number == -1 && PyErr_Occurred()) return NULL;
  if (number == 0 || forked) Py_RETURN_NONE;  // in a forked child the parent owns the memory
  char* failure;
  Py_BEGIN_ALLOW_THREADS;
  failure = xlaGoCloseData(number);
  Py_END_ALLOW_THREADS;
  if (failure != NULL) return xla_go_raise(failure);
  Py_RETURN_NONE;
}

static PyObject* call_close_data(PyObject* Py_UNUSED(module), PyObject* handle) {
  return xla_go_close_data(handle);
}

PyObject* xla_go_call_execute(PyObject* module, PyObject* const* arguments, Py_ssize_t count);
PyObject* xla_go_call_dlpack_lend(PyObject* module, PyObject* arguments);
PyObject* xla_go_call_dlpack_take(PyObject* module, PyObject* capsule);
PyObject* xla_go_call_dlpack_view(PyObject* module, PyObject* arguments);
PyObject* xla_go_call_dlpack_close(PyObject* module, PyObject* arguments);

static PyMethodDef methods[] = {
    {"close_data", call_close_data, METH_O,
     "close_data(handle): drops the hold on the device memory. Idempotent."},
    {"dlpack_close", xla_go_call_dlpack_close, METH_VARARGS,
     "dlpack_close(record, versioned): gives a record of dlpack_take back to its owner."},
    {"dlpack_lend", xla_go_call_dlpack_lend, METH_VARARGS,
     "dlpack_lend(reference, address, code, bits, shape, strides, device_type, device_id,\n"
     "versioned, flags): a capsule over lent device memory, which owns the reference from then\n"
     "on. Strides are in elements."},
    {"dlpack_take", xla_go_call_dlpack_take, METH_O,
     "dlpack_take(capsule): takes the record out of a capsule and gives (record, versioned,\n"
     "address, code, bits, lanes, shape, strides, device_type, device_id, flags). strides may be\n"
     "None. The record is to be given to dlpack_view or dlpack_close."},
    {"dlpack_view", xla_go_call_dlpack_view, METH_VARARGS,
     "dlpack_view(record, versioned, address, element, shape, device): the handle of data over\n"
     "the record's memory, which owns the record from then on. Not blocking."},
    {"execute", (PyCFunction)(void (*)(void))xla_go_call_execute, METH_FASTCALL,
     "execute(computation, arguments, device, kept): queues a run of the computation with that\n"
     "handle and gives a list of data. arguments is a tuple of data, device None or a name, kept "
     "a\n"
     "tuple of the numbers of arguments that are not donated. Not blocking."},
    {"own_data_type", xla_go_call_own_data_type, METH_O,
     "own_data_type(type): makes that class, whose slot _handle holds a handle of data, the one\n"
     "whose objects execute takes and makes. They give their handles back when they go."},
    {NULL, NULL, 0, NULL},
};

int xla_go_extend(PyObject* module) {
  if (pthread_atfork(NULL, NULL, on_fork) != 0) {
    PyErr_SetString(PyExc_RuntimeError, "RESOURCE_EXHAUSTED: pthread_atfork() has no memory");
    return -1;
  }
  return PyModule_AddFunctions(module, methods);
}
