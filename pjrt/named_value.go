package pjrt

/*
#include "calls.h"

static void set_string(PJRT_NamedValue *v, const char *s) { v->string_value = s; }
static void set_int64(PJRT_NamedValue *v, int64_t i) { v->int64_value = i; }
static void set_list(PJRT_NamedValue *v, const int64_t *l) { v->int64_array_value = l; }
static void set_float(PJRT_NamedValue *v, float f) { v->float_value = f; }
static void set_bool(PJRT_NamedValue *v, bool b) { v->bool_value = b; }
static const char *get_string(const PJRT_NamedValue *v) { return v->string_value; }
static int64_t get_int64(const PJRT_NamedValue *v) { return v->int64_value; }
static const int64_t *get_list(const PJRT_NamedValue *v) { return v->int64_array_value; }
static float get_float(const PJRT_NamedValue *v) { return v->float_value; }
static bool get_bool(const PJRT_NamedValue *v) { return v->bool_value; }
*/
import "C"

import (
	"maps"
	"runtime"
	"slices"
	"unsafe"

	"xla_go/gosrc/status"
)

// counts are options that must be positive numbers. The CPU plugin ends the process where they are
// not, so they are checked before.
var counts = []string{"cpu_device_count"}

func checkCount(name string, value any) error {
	if !slices.Contains(counts, name) {
		return nil
	}
	var n int64
	switch v := value.(type) {
	case int:
		n = int64(v)
	case int32:
		n = int64(v)
	case int64:
		n = v
	}
	if n < 1 || n > 1<<16 {
		return status.Errorf(status.InvalidArgument, "create option %q: expected an integer from 1 to %d, got %v (%T)", name, 1<<16, value, value)
	}
	return nil
}

// encodeValues lays options out for C, sorted by name. The memory is pinned until pinner is unpinned.
// Values may be string, bool, float32, float64, any integer of Go and []int64.
func encodeValues(options map[string]any, pinner *runtime.Pinner) ([]C.PJRT_NamedValue, error) {
	values := make([]C.PJRT_NamedValue, 0, len(options))
	for _, name := range slices.Sorted(maps.Keys(options)) {
		if name == "" {
			return nil, status.Errorf(status.InvalidArgument, "create options: expected names, got an empty one")
		}
		if err := checkCount(name, options[name]); err != nil {
			return nil, err
		}
		v := C.PJRT_NamedValue{struct_size: C.S_PJRT_NamedValue, value_size: 1}
		v.name, v.name_size = pinString(name, pinner), C.size_t(len(name))
		switch value := options[name].(type) {
		case string:
			v._type, v.value_size = C.VALUE_STRING, C.size_t(len(value))
			C.set_string(&v, pinString(value, pinner))
		case int:
			v._type = C.VALUE_INT64
			C.set_int64(&v, C.int64_t(value))
		case int32:
			v._type = C.VALUE_INT64
			C.set_int64(&v, C.int64_t(value))
		case int64:
			v._type = C.VALUE_INT64
			C.set_int64(&v, C.int64_t(value))
		case []int64:
			v._type, v.value_size = C.VALUE_INT64_LIST, C.size_t(len(value))
			if len(value) > 0 {
				pinner.Pin(&value[0])
				C.set_list(&v, (*C.int64_t)(unsafe.Pointer(&value[0])))
			}
		case float32:
			v._type = C.VALUE_FLOAT
			C.set_float(&v, C.float(value))
		case float64:
			v._type = C.VALUE_FLOAT
			C.set_float(&v, C.float(value))
		case bool:
			v._type = C.VALUE_BOOL
			C.set_bool(&v, C.bool(value))
		default:
			return nil, status.Errorf(status.InvalidArgument, "create option %q: expected a string, integer, list of integers, float or bool, got %T", name, value)
		}
		values = append(values, v)
	}
	if len(values) > 0 {
		pinner.Pin(&values[0])
	}
	return values, nil
}

func pinString(s string, pinner *runtime.Pinner) *C.char {
	b := append([]byte(s), 0)
	pinner.Pin(&b[0])
	return (*C.char)(unsafe.Pointer(&b[0]))
}

// namedValues copies what a plugin gave: string, int64, []int64, float32 or bool.
func namedValues(values *C.PJRT_NamedValue, count C.size_t) map[string]any {
	if count == 0 {
		return nil
	}
	result := make(map[string]any, int(count))
	list := unsafe.Slice(values, int(count))
	for i := range list {
		v := &list[i]
		var value any
		switch v._type {
		case C.VALUE_STRING:
			value = goString(C.get_string(v), v.value_size)
		case C.VALUE_INT64:
			value = int64(C.get_int64(v))
		case C.VALUE_INT64_LIST:
			value = slices.Clone(unsafe.Slice((*int64)(unsafe.Pointer(C.get_list(v))), int(v.value_size)))
		case C.VALUE_FLOAT:
			value = float32(C.get_float(v))
		case C.VALUE_BOOL:
			value = bool(C.get_bool(v))
		default:
			continue // a kind of value that is newer than this package
		}
		result[goString(v.name, v.name_size)] = value
	}
	return result
}
