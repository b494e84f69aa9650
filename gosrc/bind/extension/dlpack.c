#include "dlpack.h"

#include "extension.h"

#define UNVERSIONED "dltensor"
#define VERSIONED "dltensor_versioned"
#define USED_UNVERSIONED "used_dltensor"
#define USED_VERSIONED "used_dltensor_versioned"

// What this file writes: the newest version whose flags and types it knows.
enum { major_version = 1, minor_version = 0 };

// ---- lending: device memory of ours as a capsule ----

// One block: the record that the capsule names, and what it points to.
typedef struct {
  union {
    dlpack_managed unversioned;
    dlpack_managed_versioned versioned;
  } record;
  long long reference;
  int64_t numbers[];  // shape, then strides
} lent;

// PyGILState_Check() says yes to everybody once the process has had a sub-interpreter.
static int holds_gil(void) {
#if PY_VERSION_HEX >= 0x030D0000
  PyThreadState* current = PyThreadState_GetUnchecked();
#else
  PyThreadState* current = _PyThreadState_UncheckedGet();
#endif
  return current != NULL && current == PyGILState_GetThisThreadState();
}

// A consumer may be done on any thread, with or without the interpreter's lock, also after the
// interpreter has ended.
static void give_back(long long reference) {
  if (xla_go_forked()) return;
  char* failure;
  if (Py_IsInitialized() && holds_gil()) {
    // Not under the lock: freeing may wait for a thread that wants it, to release foreign memory.
    Py_BEGIN_ALLOW_THREADS;
    failure = xlaGoReleaseReference(reference);
    Py_END_ALLOW_THREADS;
  } else {
    failure = xlaGoReleaseReference(reference);
  }
  free(failure);
}

static void delete_unversioned(dlpack_managed* self) {
  lent* block = self->context;
  give_back(block->reference);
  free(block);
}

static void delete_versioned(dlpack_managed_versioned* self) {
  lent* block = self->context;
  give_back(block->reference);
  free(block);
}

// The destructor of a capsule: nothing to do where a consumer took the record, which it then
// renamed.
static void drop_capsule(PyObject* capsule) {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  if (PyCapsule_IsValid(capsule, UNVERSIONED)) {
    dlpack_managed* managed = PyCapsule_GetPointer(capsule, UNVERSIONED);
    if (managed->deleter != NULL) managed->deleter(managed);
  } else if (PyCapsule_IsValid(capsule, VERSIONED)) {
    dlpack_managed_versioned* managed = PyCapsule_GetPointer(capsule, VERSIONED);
    if (managed->deleter != NULL) managed->deleter(managed);
  }
  PyErr_Restore(type, value, trace);
}

static int copy_numbers(PyObject* tuple, int64_t* numbers) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); i++) {
    numbers[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(tuple, i));
    if (numbers[i] == -1 && PyErr_Occurred()) return -1;
  }
  return 0;
}

PyObject* xla_go_call_dlpack_lend(PyObject* Py_UNUSED(module), PyObject* arguments) {
  long long reference, address;
  int code, bits, device_type, device_id, versioned;
  unsigned long long flags;
  PyObject *shape, *strides;
  if (!PyArg_ParseTuple(arguments, "LLiiO!O!iipK", &reference, &address, &code, &bits,
                        &PyTuple_Type, &shape, &PyTuple_Type, &strides, &device_type, &device_id,
                        &versioned, &flags)) {
    return NULL;
  }
  const Py_ssize_t rank = PyTuple_GET_SIZE(shape);
  if (PyTuple_GET_SIZE(strides) != rank) {
    PyErr_SetString(PyExc_ValueError, "dlpack_lend(): expected a stride for each dimension");
    return NULL;
  }
  lent* block = calloc(1, sizeof(lent) + 2 * (size_t)rank * sizeof(int64_t));
  if (block == NULL) return PyErr_NoMemory();
  if (copy_numbers(shape, block->numbers) != 0 ||
      copy_numbers(strides, block->numbers + rank) != 0) {
    free(block);
    return NULL;
  }
  dlpack_tensor* tensor = &block->record.unversioned.tensor;
  if (versioned) {
    dlpack_managed_versioned* managed = &block->record.versioned;
    managed->major = major_version;
    managed->minor = minor_version;
    managed->context = block;
    managed->deleter = delete_versioned;
    managed->flags = flags;
    tensor = &managed->tensor;
  } else {
    block->record.unversioned.context = block;
    block->record.unversioned.deleter = delete_unversioned;
  }
  tensor->data = (void*)(uintptr_t)address;
  tensor->device = (dlpack_device){device_type, device_id};
  tensor->rank = (int32_t)rank;
  tensor->code = (uint8_t)code;
  tensor->bits = (uint8_t)bits;
  tensor->lanes = 1;
  tensor->shape = block->numbers;
  tensor->strides = block->numbers + rank;
  PyObject* capsule =
      PyCapsule_New(&block->record, versioned ? VERSIONED : UNVERSIONED, drop_capsule);
  if (capsule == NULL) {
    free(block);  // the reference is still the caller's
    return NULL;
  }
  block->reference = reference;
  return capsule;
}

// ---- borrowing: a capsule of someone else ----

// A record taken out of its capsule, until `dlpack_view` or `dlpack_close`.
typedef struct {
  void* record;
  int versioned;
} borrowed;

static void release_record(void* record, int versioned) {
  if (versioned) {
    dlpack_managed_versioned* managed = record;
    if (managed->deleter != NULL) managed->deleter(managed);
  } else {
    dlpack_managed* managed = record;
    if (managed->deleter != NULL) managed->deleter(managed);
  }
}

static int finalizing(void) {
#if PY_VERSION_HEX >= 0x030d0000
  return !Py_IsInitialized() || Py_IsFinalizing();
#else
  return !Py_IsInitialized() || _Py_IsFinalizing();
#endif
}

// The owner's deleter may use Python, so it is called with the interpreter's lock. Once the
// interpreter ends another thread cannot have that any more: the memory then goes with the process.
static void release_borrowed(void* context) {
  borrowed* b = context;
  if (!xla_go_forked()) {
    if (!finalizing()) {
      const PyGILState_STATE state = PyGILState_Ensure();
      release_record(b->record, b->versioned);
      PyGILState_Release(state);
    }
  }
  free(b);
}

static PyObject* numbers_tuple(const int64_t* numbers, int32_t count) {
  PyObject* tuple = PyTuple_New(count);
  for (int32_t i = 0; tuple != NULL && i < count; i++) {
    PyObject* number = PyLong_FromLongLong(numbers[i]);
    if (number == NULL) {
      Py_CLEAR(tuple);
    } else {
      PyTuple_SET_ITEM(tuple, i, number);
    }
  }
  return tuple;
}

static PyObject* describe(const dlpack_tensor* t, void* record, int versioned, uint64_t flags) {
  PyObject* shape = numbers_tuple(t->shape, t->rank);
  PyObject* strides = NULL;
  if (t->strides != NULL || t->rank == 0) {
    strides = numbers_tuple(t->strides, t->rank);
  } else {
    strides = Py_NewRef(Py_None);
  }
  if (shape == NULL || strides == NULL) {
    Py_XDECREF(shape);
    Py_XDECREF(strides);
    return NULL;
  }
  return Py_BuildValue("(KiKiiiNNiiK)", (unsigned long long)(uintptr_t)record, versioned,
                       (unsigned long long)((uintptr_t)t->data + t->byte_offset), (int)t->code,
                       (int)t->bits, (int)t->lanes, shape, strides, (int)t->device.type,
                       (int)t->device.id, (unsigned long long)flags);
}

PyObject* xla_go_call_dlpack_take(PyObject* Py_UNUSED(module), PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, VERSIONED)) {
    dlpack_managed_versioned* managed = PyCapsule_GetPointer(capsule, VERSIONED);
    if (managed->major > major_version) {
      PyErr_Format(PyExc_BufferError,
                   "from_dlpack(): expected DLPack of at most version %d.x, got %d.%d",
                   (int)major_version, (int)managed->major, (int)managed->minor);
      return NULL;
    }
    PyObject* result = describe(&managed->tensor, managed, 1, managed->flags);
    if (result != NULL && PyCapsule_SetName(capsule, USED_VERSIONED) != 0) Py_CLEAR(result);
    return result;
  }
  if (PyCapsule_IsValid(capsule, UNVERSIONED)) {
    dlpack_managed* managed = PyCapsule_GetPointer(capsule, UNVERSIONED);
    PyObject* result = describe(&managed->tensor, managed, 0, 0);
    if (result != NULL && PyCapsule_SetName(capsule, USED_UNVERSIONED) != 0) Py_CLEAR(result);
    return result;
  }
  PyErr_SetString(PyExc_ValueError,
                  "from_dlpack(): expected a DLPack capsule that nobody has consumed yet");
  return NULL;
}

PyObject* xla_go_call_dlpack_close(PyObject* Py_UNUSED(module), PyObject* arguments) {
  unsigned long long record;
  int versioned;
  if (!PyArg_ParseTuple(arguments, "Kp", &record, &versioned)) return NULL;
  release_record((void*)(uintptr_t)record, versioned);
  Py_RETURN_NONE;
}

PyObject* xla_go_call_dlpack_view(PyObject* Py_UNUSED(module), PyObject* arguments) {
  unsigned long long record;
  long long address, handle = 0;
  int versioned;
  const char *element, *device;
  PyObject* shape;
  if (!PyArg_ParseTuple(arguments, "KpLsO!s", &record, &versioned, &address, &element,
                        &PyTuple_Type, &shape, &device)) {
    return NULL;
  }
  if (xla_go_forked()) return xla_go_raise_forked();
  const Py_ssize_t rank = PyTuple_GET_SIZE(shape);
  long long* dims = PyMem_New(long long, rank + 1);
  borrowed* b = malloc(sizeof(borrowed));
  if (dims == NULL || b == NULL) {
    PyMem_Free(dims);
    free(b);
    return PyErr_NoMemory();
  }
  *b = (borrowed){(void*)(uintptr_t)record, versioned};
  if (copy_numbers(shape, (int64_t*)dims) != 0) {
    PyMem_Free(dims);
    free(b);
    return NULL;
  }
  char* failure;
  Py_BEGIN_ALLOW_THREADS;
  failure = xlaGoViewForeign(address, (char*)element, dims, (int)rank, (char*)device,
                             release_borrowed, b, &handle);
  Py_END_ALLOW_THREADS;
  PyMem_Free(dims);
  if (failure != NULL) {
    free(b);
    return xla_go_raise(failure);
  }
  return PyLong_FromLongLong(handle);
}
