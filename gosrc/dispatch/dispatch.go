// Package dispatch is the data plane: the C function table that the torch adapter calls, one
// crossing per operator. It turns C records into calls of ops and tensor and keeps no state of
// its own but the process's Space.
package dispatch

/*
#include <stdlib.h>
#include <string.h>
#include "xla_go_dispatch.h"
const xla_go_table *xla_go_get_table(void);
*/
import "C"

import (
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"unsafe"

	"xla_go/gosrc/client"
	"xla_go/gosrc/dtype"
	"xla_go/gosrc/env"
	"xla_go/gosrc/executor"
	"xla_go/gosrc/ops"
	"xla_go/gosrc/status"
	"xla_go/gosrc/tensor"
)

var (
	startMu sync.Mutex
	space   *tensor.Space
	rows    []*ops.Row
	call    ops.Call // under Core.Mu
)

// Start makes the lazy state over a client. It is called once, before the table is used.
func Start(c client.Client, options executor.Options) error {
	startMu.Lock()
	defer startMu.Unlock()
	if space != nil {
		return status.Errorf(status.FailedPrecondition, "dispatch.Start(): the runtime has been started already")
	}
	rows = ops.Sorted()
	space = tensor.NewSpace(executor.NewCore(c, options))
	RecordStacks(stacksWanted())
	return nil
}

// CacheDirectory gives the directory in which this environment keeps compiled programs, "" for none.
func CacheDirectory() string { return executor.OptionsFromEnvironment().Cache.Directory }

// Space gives the process's storages, nil before Start.
func Space() *tensor.Space { return space }

// TableAddress gives the address of the xla_go_table.
func TableAddress() uintptr { return uintptr(unsafe.Pointer(C.xla_go_get_table())) }

// fail fills the C error and gives its code.
func fail(e *C.xla_go_error, err error) C.int32_t {
	code := status.CodeOf(err)
	e.code = C.int32_t(code)
	e.python_kind = C.int32_t(status.ExceptionOf(err))
	message := status.MessageOf(err)
	buffer := unsafe.Slice((*byte)(unsafe.Pointer(&e.message[0])), len(e.message))
	n := copy(buffer[:len(buffer)-1], message)
	buffer[n] = 0
	return C.int32_t(code)
}

// recovered turns a panic into an error: no Go panic may cross into C.
func recovered(e *C.xla_go_error, result *C.int32_t) {
	r := recover()
	if r == nil {
		return
	}
	if err, ok := r.(error); ok && status.CodeOf(err) != status.Unknown {
		*result = fail(e, err)
		return
	}
	text := fmt.Sprint(r)
	if env.Bool("XLA_GO_DEBUG", false) {
		text += "\n" + string(debug.Stack())
	}
	*result = fail(e, status.Errorf(status.Internal, "internal error: %s", text))
}

func ints(p *C.int64_t, n C.int32_t) []int64 {
	if n <= 0 {
		return nil
	}
	return unsafe.Slice((*int64)(unsafe.Pointer(p)), int(n))
}

// storageOf gives the storage behind a C tensor and makes it at first sight.
func storageOf(s *C.xla_go_storage) (*tensor.Storage, error) {
	if s.id != 0 {
		return space.Get(int64(s.id)), nil
	}
	storage, id, err := space.New(int(s.device), int64(s.nbytes), (*int32)(unsafe.Pointer(&s.has_buffer)))
	s.id = C.int64_t(id)
	return storage, err
}

// view converts a C tensor; sizes and strides stay C memory, valid for the length of the call.
func view(t *C.xla_go_tensor) (ops.View, error) {
	storage, err := storageOf(t.storage)
	if err != nil {
		return ops.View{}, err
	}
	d := dtype.FromTorch(int32(t.dtype))
	if d == dtype.Invalid {
		return ops.View{}, status.Torchf(status.TypeError, "expected a dtype that XLA has, got ScalarType %d: convert the tensor on the CPU first", int32(t.dtype))
	}
	return ops.View{
		Storage: storage, Sizes: ints(t.sizes, t.rank), Strides: ints(t.strides, t.rank), Offset: int64(t.storage_offset),
		Dtype: d, Conj: t.lazy_bits&1 != 0, Neg: t.lazy_bits&2 != 0,
	}, nil
}

func tensorArgument(a *ops.Argument, t *C.xla_go_tensor) (err error) {
	if t.storage == nil {
		*a = ops.Argument{}
		return nil
	}
	*a = ops.Argument{Tag: ops.TagTensor, Wrapped: t.wrapped_number != 0}
	a.View, err = view(t)
	a.Dtype = a.View.Dtype
	return err
}

func argument(a *ops.Argument, c *C.xla_go_argument) error {
	tag := ops.Tag(c.tag)
	if tag == ops.TagTensor {
		return tensorArgument(a, &c.tensor)
	}
	// The adapter's records are reused: a field that this kind of argument does not set holds what an
	// earlier call left there, and is not looked at.
	*a = ops.Argument{Tag: tag}
	switch tag {
	case ops.TagInt, ops.TagBool, ops.TagDevice:
		a.Int, a.Float = int64(c.i), float64(c.i)
	case ops.TagDouble:
		a.Float = float64(c.d)
	case ops.TagComplex:
		a.Float, a.Imag = float64(c.d), float64(c.imag)
	case ops.TagCPUScalar:
		if a.Integral = c.integral != 0; a.Integral {
			a.Int, a.Float = int64(c.i), float64(c.i)
		} else {
			a.Float = float64(c.d)
		}
		a.Wrapped = c.wrapped_number != 0
		if a.Dtype = dtype.FromTorch(int32(c.dtype)); a.Dtype == dtype.Invalid {
			return status.Torchf(status.TypeError, "expected a dtype that XLA has, got a CPU scalar of ScalarType %d", int32(c.dtype))
		}
		if a.Dtype.IsComplex() {
			a.Imag = float64(c.imag)
		}
	case ops.TagIntList, ops.TagBoolList:
		a.Ints = ints(c.ints, c.count)
	case ops.TagScalarList, ops.TagDoubleList:
		if a.Integral = tag == ops.TagScalarList && c.integral != 0; a.Integral {
			a.Ints = ints(c.ints, c.count)
		}
		if c.count > 0 {
			a.Floats = unsafe.Slice((*float64)(unsafe.Pointer(c.doubles)), int(c.count))
		}
	case ops.TagTensorList:
		a.Tensors = make([]ops.Argument, int(c.count))
		for i, t := range unsafe.Slice(c.tensors, int(c.count)) {
			if err := tensorArgument(&a.Tensors[i], &t); err != nil {
				return err
			}
		}
	case ops.TagString:
		a.Text = C.GoString(c.text)
	case ops.TagGenerator:
		a.Generator = ops.Generator{Seed: uint64(c.generator.seed), Offset: (*uint64)(unsafe.Pointer(&c.generator.offset))}
	}
	return nil
}

// runCall traces a call. checked is its step where eager mode has to wait for what that checks.
func runCall(c *C.xla_go_call) (checked *executor.Step, err error) {
	noteStack()
	row := rows[c.op]
	n := int(c.argument_count)
	if cap(call.Args) < n {
		call.Args = make([]ops.Argument, n+8)
	}
	call.Args = call.Args[:n]
	arguments := unsafe.Slice(c.arguments, n)
	device := 0
	for i := range arguments {
		if err := argument(&call.Args[i], &arguments[i]); err != nil {
			return nil, err
		}
	}
	if call.DefaultDtype = dtype.FromTorch(int32(c.default_dtype)); !call.DefaultDtype.IsFloat() {
		call.DefaultDtype = dtype.F32
	}
	call.InPlace = c.in_place != 0
	if err := call.Run(row, &space.Core.Graph, space); err != nil {
		return nil, err
	}
	if call.InPlace {
		if err := writeSelf(); err != nil {
			return nil, err
		}
		device = call.Args[0].View.Storage.(*tensor.Storage).Device().Index
	} else {
		for i, r := range call.Results {
			if i >= int(c.output_count) {
				return nil, status.Errorf(status.Internal, "%s(): the row has %d results, the schema %d", row.Name, len(call.Results), int(c.output_count))
			}
			if err := output(&c.outputs[i], r); err != nil {
				return nil, err
			}
			if r.Node != nil {
				device = int(c.outputs[i].storage.device)
			}
		}
	}
	d, err := space.Core.Device(device)
	if err != nil {
		return nil, err
	}
	if err := d.EndCall(); err != nil || !space.Core.IsEager() {
		return nil, err
	}
	return d.TakeAwaited(), nil
}

// writeSelf puts result 0 into argument 0, with torch's checks of an in-place operator.
func writeSelf() error {
	if len(call.Results) == 0 {
		return nil // the row wrote by itself
	}
	self, value := &call.Args[0], call.Results[0].Node
	if !ops.CanCast(value.Dtype, self.Dtype) {
		return ops.Errorf("result type %s can't be cast to the desired output type %s", ops.TorchClass(value.Dtype), ops.TorchClass(self.Dtype))
	}
	if !slices.Equal(value.Dims, self.View.Sizes) {
		return ops.Errorf("output with shape %s doesn't match the broadcast shape %s", bracketed(self.View.Sizes), bracketed(value.Dims))
	}
	return space.Write(&self.View, value)
}

func bracketed(dims []int64) string {
	text := "["
	for i, d := range dims {
		if i > 0 {
			text += ", "
		}
		text += fmt.Sprint(d)
	}
	return text + "]"
}

// output fills a result record and stores the value in the fresh storage that came with it.
func output(o *C.xla_go_output, r ops.Result) error {
	n := r.Node
	if n == nil {
		o.defined = 0
		return nil
	}
	if len(n.Dims) > len(o.sizes) {
		return ops.Errorf("tensors with more than %d dimensions are not supported, got %d", len(o.sizes), len(n.Dims))
	}
	number, ok := n.Dtype.Torch()
	if !ok {
		return status.Errorf(status.Internal, "a result has dtype %v, which torch does not have", n.Dtype)
	}
	count := int64(1)
	for i, d := range n.Dims {
		o.sizes[i] = C.int64_t(d)
		count *= d
	}
	o.defined, o.dtype, o.rank, o.nbytes = 1, C.int32_t(number), C.int32_t(len(n.Dims)), C.int64_t(count*n.Dtype.Size())
	o.storage.nbytes = o.nbytes
	storage, err := storageOf(o.storage)
	if err != nil {
		return err
	}
	storage.Set(n)
	return nil
}
