// The functions of xla_go._native that are written by hand, beside those that gopy writes: calls
// whose time counts, and what only the interpreter's own C API can make. setup.py puts these files
// beside gopy's and has the module's start call xla_go_extend.
//
// Every function releases the interpreter's lock around Go, and none enters Go in a forked child,
// where Go's threads do not exist.
#pragma once
#define PY_SSIZE_T_CLEAN
#include <Python.h>

// Adds the functions to the module. 0, or -1 with a Python exception set.
int xla_go_extend(PyObject* module);

// Whether this is a forked child of the process that loaded the module.
int xla_go_forked(void);

// Raises a failure that Go gave (its text, with the status code's name in front) and frees it.
// Gives NULL.
PyObject* xla_go_raise(char* failure);

// Raises what a call in a forked child raises. Gives NULL.
PyObject* xla_go_raise_forked(void);

// Drops the hold on the device memory of a handle, an int. Idempotent. None, or NULL with a Python
// exception set.
PyObject* xla_go_close_data(PyObject* handle);

// --- Go's side (gosrc/dispatch). A failure is a text to be freed, NULL where there is none. ---

// Queues a run on one device, NULL for the computation's first. `arguments` are handles of data and
// stay open, `kept` are numbers of arguments that are not donated. *results has room for `room`
// handles and is replaced by a block to be freed where there are more. Not blocking.
char* xlaGoExecute(long long computation, long long* arguments, int argument_count, char* device,
                   long long* kept, int kept_count, int room, long long** results,
                   int* result_count);

// Drops the hold on device memory. Idempotent.
char* xlaGoCloseData(long long handle);

// Gives lent device memory back. Idempotent.
char* xlaGoReleaseReference(long long reference);

// Makes data over memory owned outside, dense and row-major; release(context) is called once, on
// any thread, when its last holder is gone, and never where this fails. Not blocking.
char* xlaGoViewForeign(long long address, char* element, long long* dims, int rank, char* device,
                       void (*release)(void*), void* context, long long* handle);
