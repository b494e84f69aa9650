#include "step_state.h"

#include <ATen/autocast_mode.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/object_ptr.h>

#include <cmath>
#include <cstdint>

#include "errors.h"
#include "runtime.h"

namespace xla_go {
namespace {

void check(bool done) {
  if (C10_UNLIKELY(!done)) {
    throw_pending_python_error();
  }
}

// A new reference that Python gave, or its exception.
THPObjectPtr owned(PyObject* object) {
  check(object != nullptr);
  return THPObjectPtr(object);
}

void append(PyObject* list, PyObject* borrowed) { check(PyList_Append(list, borrowed) == 0); }

void append_values(PyObject* list, PyObject* mapping) {
  if (C10_LIKELY(PyDict_Check(mapping))) {
    PyObject* value = nullptr;
    Py_ssize_t position = 0;
    while (PyDict_Next(mapping, &position, nullptr, &value) != 0) {
      append(list, value);
    }
    return;
  }
  THPObjectPtr values = owned(PyMapping_Values(mapping));
  check(PyList_SetSlice(list, PyList_GET_SIZE(list), PyList_GET_SIZE(list), values.get()) == 0);
}

// Where a step's state is, as State in _jit/state.py has it. All borrowed.
struct Places {
  PyObject* owner;            // of a method, else None
  PyObject* cells;            // of the functions around the step
  PyObject* names;            // (dict, name) of other variables
  PyObject* modules;          // all of them
  PyObject* parameters;       // dicts of modules
  PyObject* buffers;          // dicts of modules
  PyObject* groups;           // (optimizer, its groups)
  PyObject* settings;         // (group, names of its numbers)
  PyObject* tensor_settings;  // (group, name) of a setting that is a tensor
  PyObject* kinds;            // of values, by their type
  PyObject* kind;             // finds the kind of a type that is not among them
  int number;                 // the kind of what is compared by its value
};

// Names of attributes and keys, and what stands for a nan.
struct Names {
  PyObject* param_groups = PyUnicode_InternFromString("param_groups");
  PyObject* params = PyUnicode_InternFromString("params");
  PyObject* state = PyUnicode_InternFromString("state");
  PyObject* training = PyUnicode_InternFromString("training");
  PyObject* nan = PyUnicode_InternFromString("nan");
};

const Names& names() {
  static const Names made;
  return made;
}

template <class Function>
void for_each(PyObject* tuple, Function function) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
    function(PyTuple_GET_ITEM(tuple, i));
  }
}

template <class Function>
void for_each_pair(PyObject* tuple, Function function) {
  for_each(tuple,
           [&](PyObject* pair) { function(PyTuple_GET_ITEM(pair, 0), PyTuple_GET_ITEM(pair, 1)); });
}

PyObject* item(PyObject* dict, PyObject* name) {
  PyObject* value = PyDict_GetItemWithError(dict, name);
  check(value != nullptr || PyErr_Occurred() == nullptr);
  return value != nullptr ? value : Py_None;
}

class Reader {
 public:
  explicit Reader(const Places& places) : places_(places) {}

  // False where an optimizer has got other groups, as from a state that was loaded.
  bool groups_are_known() const {
    bool known = true;
    for_each_pair(places_.groups, [&](PyObject* optimizer, PyObject* groups) {
      known = known && owned(PyObject_GetAttr(optimizer, names().param_groups)).get() == groups;
    });
    return known;
  }

  THPObjectPtr read(PyObject* distinct) {
    read_variables();
    read_parameters();
    read_values();
    read_numbers();
    read_gradients(distinct);
    append(numbers_, owned(PyLong_FromLongLong(modes())));
    THPObjectPtr numbers = owned(PyList_AsTuple(numbers_));
    return owned(PyTuple_Pack(3, parameters_.get(), values_.get(), numbers.get()));
  }

 private:
  void read_variables() {
    if (places_.owner != Py_None) {
      append(variables_, places_.owner);
    }
    for_each(places_.cells, [&](PyObject* cell) {
      if (PyObject* value = PyCell_GET(cell)) {  // else nothing was assigned yet
        append(variables_, value);
      }
    });
    for_each_pair(places_.names,
                  [&](PyObject* dict, PyObject* name) { append(variables_, item(dict, name)); });
  }

  // Those of modules and optimizers, as these have them now, None among them. One that both have
  // comes twice.
  void read_parameters() {
    for_each(places_.parameters, [&](PyObject* dict) { append_values(parameters_, dict); });
    for_each_pair(places_.groups, [&](PyObject*, PyObject* groups) {
      for (Py_ssize_t i = 0; i < PyList_GET_SIZE(groups); ++i) {
        THPObjectPtr list = owned(PyObject_GetItem(PyList_GET_ITEM(groups, i), names().params));
        const Py_ssize_t end = PyList_GET_SIZE(parameters_.get());
        check(PyList_SetSlice(parameters_, end, end, list.get()) == 0);
      }
    });
  }

  // What the step may read or write: buffers, states of optimizers and variables; tensors among
  // other things.
  void read_values() {
    for_each(places_.buffers, [&](PyObject* dict) { append_values(values_, dict); });
    for_each_pair(places_.groups, [&](PyObject* optimizer, PyObject*) {
      THPObjectPtr states = owned(PyObject_GetAttr(optimizer, names().state));
      THPObjectPtr list = owned(PyList_New(0));
      append_values(list, states);
      for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list.get()); ++i) {
        append_values(values_, PyList_GET_ITEM(list.get(), i));
      }
    });
    for_each_pair(places_.tensor_settings,
                  [&](PyObject* group, PyObject* name) { append(values_, item(group, name)); });
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(variables_.get()); ++i) {
      PyObject* value = PyList_GET_ITEM(variables_.get(), i);
      if (THPVariable_Check(value)) {
        append(values_, value);
      }
    }
  }

  // What else the program depends on: modes of modules, settings of optimizers, and variables that
  // are numbers or the like.
  void read_numbers() {
    for_each(places_.modules, [&](PyObject* module) {
      append(numbers_, owned(PyObject_GetAttr(module, names().training)));
    });
    for_each_pair(places_.settings, [&](PyObject* group, PyObject* chosen) {
      for_each(chosen, [&](PyObject* name) { append_number(item(group, name)); });
    });
    for_each_pair(places_.tensor_settings,
                  [&](PyObject* group, PyObject* name) { append_state_of(item(group, name)); });
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(variables_.get()); ++i) {
      PyObject* value = PyList_GET_ITEM(variables_.get(), i);
      if (THPVariable_Check(value)) {
        append_state_of(value);
      } else if (kind_of(value) == places_.number) {
        append(numbers_, reinterpret_cast<PyObject*>(Py_TYPE(value)));
        append_number(value);
      }
    }
  }

  // Which parameters have a gradient.
  void read_gradients(PyObject* distinct) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(distinct); ++i) {
      const Py_ssize_t at = PyLong_AsSsize_t(PyList_GET_ITEM(distinct, i));
      if (at >= PyList_GET_SIZE(parameters_.get())) {
        continue;
      }
      PyObject* parameter = PyList_GET_ITEM(parameters_.get(), at);
      const bool has =
          THPVariable_Check(parameter) && THPVariable_Unpack(parameter).grad().defined();
      append(numbers_, has ? Py_True : Py_False);
    }
  }

  // The thread's modes that operators depend on.
  static int64_t modes() {
    int64_t bits = at::GradMode::is_enabled() ? 1 : 0;
    bits |= c10::InferenceMode::is_enabled() ? 2 : 0;
    if (at::autocast::is_autocast_enabled(at::kXLA)) {
      bits |= 4 | static_cast<int64_t>(at::autocast::get_autocast_dtype(at::kXLA)) << 8;
    }
    return bits | static_cast<int64_t>(c10::get_default_dtype_as_scalartype()) << 16;
  }

  // As _jit/state.py's exact(): zeros of both signs are equal as numbers, and no nan is equal to
  // itself.
  void append_number(PyObject* value) {
    if (PyFloat_Check(value)) {
      const double number = PyFloat_AS_DOUBLE(value);
      append(numbers_, std::isnan(number) ? names().nan : value);
      if (number == 0) {
        append(numbers_, std::signbit(number) ? Py_True : Py_False);
      }
    } else if (C10_UNLIKELY(PyComplex_Check(value))) {
      append(numbers_, owned(PyObject_Repr(value)));
    } else {
      append(numbers_, value);
    }
  }

  // Something that changes when a tensor on the host does: its program has what it holds. None for
  // one on the device.
  void append_state_of(PyObject* value) {
    const at::Tensor& tensor = THPVariable_Unpack(value);
    if (tensor.is_xla()) {
      append(numbers_, Py_None);
      return;
    }
    append(numbers_, owned(PyLong_FromVoidPtr(value)));
    append(numbers_, owned(PyLong_FromUnsignedLong(tensor._version())));
  }

  int kind_of(PyObject* value) const {
    PyObject* known =
        PyDict_GetItemWithError(places_.kinds, reinterpret_cast<PyObject*>(Py_TYPE(value)));
    if (C10_LIKELY(known != nullptr)) {
      return static_cast<int>(PyLong_AsLong(known));
    }
    check(PyErr_Occurred() == nullptr);
    return static_cast<int>(PyLong_AsLong(owned(PyObject_CallOneArg(places_.kind, value))));
  }

  const Places& places_;
  THPObjectPtr variables_ = owned(PyList_New(0));
  THPObjectPtr parameters_ = owned(PyList_New(0));
  THPObjectPtr values_ = owned(PyList_New(0));
  THPObjectPtr numbers_ = owned(PyList_New(0));
};

}  // namespace

PyObject* read_step_state(PyObject*, PyObject* args) {
  Places places{};
  PyObject* distinct = nullptr;
  if (!PyArg_ParseTuple(args, "(OO!O!O!O!O!O!O!O!O!Oi)O!", &places.owner, &PyTuple_Type,
                        &places.cells, &PyTuple_Type, &places.names, &PyTuple_Type, &places.modules,
                        &PyTuple_Type, &places.parameters, &PyTuple_Type, &places.buffers,
                        &PyTuple_Type, &places.groups, &PyTuple_Type, &places.settings,
                        &PyTuple_Type, &places.tensor_settings, &PyDict_Type, &places.kinds,
                        &places.kind, &places.number, &PyList_Type, &distinct)) {
    return nullptr;
  }
  return guard_python([&]() -> PyObject* {
    Reader reader(places);
    if (!reader.groups_are_known()) {
      Py_RETURN_NONE;
    }
    return reader.read(distinct).release();
  });
}

}  // namespace xla_go
