package dispatch

/*
#include "xla_go_dispatch.h"
*/
import "C"

import (
	"sync/atomic"
	"time"
	"unsafe"

	"xla_go/gosrc/client"
	"xla_go/gosrc/dtype"
	"xla_go/gosrc/executor"
	"xla_go/gosrc/ir"
	"xla_go/gosrc/metrics"
	"xla_go/gosrc/ops"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/tensor"
)

// waitSlice is how long a call waits for the compiler before it lets its caller look for signals.
const waitSlice = 50 * time.Millisecond

// Each exported function is one entry of xla_go_table; xla_go_dispatch.h says what it does.

//export xlaGoOp
func xlaGoOp(c *C.xla_go_call) (result C.int32_t) {
	result, checked := traceOp(c)
	if checked == nil || result != 0 {
		return result
	}
	defer recovered(&c.error, &result)
	for !checked.AwaitChecks(time.Hour) {
	}
	core := space.Core
	core.Mu.Lock()
	defer core.Mu.Unlock()
	if err := checked.Device().TakeDeferredError(); err != nil {
		dropOutputs(c)
		return fail(&c.error, err)
	}
	return 0
}

// traceOp runs the row. In eager mode it gives the step of the call, where what that checks has to be waited for.
func traceOp(c *C.xla_go_call) (result C.int32_t, checked *executor.Step) {
	core := space.Core
	core.Mu.Lock()
	defer core.Mu.Unlock()
	defer recovered(&c.error, &result)
	// On an error too: what the call made and nothing took is freed.
	defer core.Graph.EndCall()
	checked, err := runCall(c)
	showCompiles()
	if err != nil {
		return fail(&c.error, err), nil
	}
	return 0, checked
}

// dropOutputs forgets the results of a call that fails after all: the adapter uses their handles again. Under Core.Mu.
func dropOutputs(c *C.xla_go_call) {
	if c.in_place != 0 {
		return
	}
	for i := range int(c.output_count) {
		if s := c.outputs[i].storage; s != nil && s.id != 0 {
			space.Drop(int64(s.id))
			s.id, s.has_buffer = 0, 0
		}
	}
}

//export xlaGoDrop
func xlaGoDrop(storages **C.xla_go_storage, n C.int32_t) {
	core := space.Core
	core.Mu.Lock()
	defer core.Mu.Unlock()
	for _, s := range unsafe.Slice(storages, int(n)) {
		space.Drop(int64(s.id))
	}
}

//export xlaGoUpload
func xlaGoUpload(target *C.xla_go_tensor, data unsafe.Pointer, strides *C.int64_t, e *C.xla_go_error) (result C.int32_t) {
	defer recovered(e, &result)
	if err := upload(target, uintptr(data), strides); err != nil {
		return fail(e, err)
	}
	return 0
}

// upload copies to the device without any lock, then stores the value under the core's lock.
func upload(target *C.xla_go_tensor, data uintptr, strides *C.int64_t) error {
	core := space.Core
	core.Mu.Lock()
	v, err := view(target)
	core.Mu.Unlock()
	if err != nil {
		return err
	}
	dims := append([]int64(nil), v.Sizes...)
	if shape.Product(dims) == 0 {
		return nil
	}
	d, err := core.Device(int(target.storage.device))
	if err != nil {
		return err
	}
	var byteStrides []int64
	if strides != nil && len(dims) > 0 {
		byteStrides = append(byteStrides, unsafe.Slice((*int64)(strides), len(dims))...)
		for i := range byteStrides {
			byteStrides[i] *= v.Dtype.Size()
		}
	}
	if core.Partitioned() {
		return deferUpload(&v, dims, data, byteStrides)
	}
	copied := make(chan struct{})
	values, err := core.Client().TransferToDevice([]client.TensorSource{{
		Shape: shape.Shape{Dtype: v.Dtype, Dims: dims}, Device: d.Name(), Address: data, ByteStrides: byteStrides, Release: func() { close(copied) },
	}})
	if err != nil {
		return err
	}
	<-copied // the caller may change its memory once this returns
	core.Mu.Lock()
	defer core.Mu.Unlock()
	defer core.Graph.EndCall()
	noteStack()
	return space.Write(&v, core.Graph.Leaf(ir.NewBuffer(values[0]), v.Dtype, dims))
}

// deferUpload keeps a copy of the host's data until somebody needs it on the devices, or says how it is to lie over them.
func deferUpload(v *ops.View, dims []int64, data uintptr, byteStrides []int64) error {
	strides := shape.RowMajorStrides(dims)
	for i := range byteStrides {
		strides[i] = byteStrides[i] / v.Dtype.Size()
	}
	copied := make([]byte, shape.Product(dims)*v.Dtype.Size())
	r := reading{sizes: dims, strides: strides, item: v.Dtype.Size()}
	r.strided(unsafe.Pointer(unsafe.SliceData(copied)), *(*unsafe.Pointer)(unsafe.Pointer(&data)))
	core := space.Core
	core.Mu.Lock()
	defer core.Mu.Unlock()
	defer core.Graph.EndCall()
	return space.Write(v, core.DeferredLeaf(copied, v.Dtype, dims))
}

//export xlaGoCopy
func xlaGoCopy(source, target *C.xla_go_tensor, e *C.xla_go_error) (result C.int32_t) {
	defer recovered(e, &result)
	defer showCompiles()
	var err error
	if source.storage.device == target.storage.device {
		err = copyWithin(source, target)
	} else {
		err = copyAcross(source, target)
	}
	if err != nil {
		return fail(e, err)
	}
	return 0
}

// copyWithin traces a copy on one device.
func copyWithin(source, target *C.xla_go_tensor) error {
	core := space.Core
	core.Mu.Lock()
	defer core.Mu.Unlock()
	defer core.Graph.EndCall()
	noteStack()
	from, err := view(source)
	if err != nil {
		return err
	}
	to, err := view(target)
	if err != nil {
		return err
	}
	if err := space.Write(&to, space.Read(&from)); err != nil {
		return err
	}
	return to.Storage.(*tensor.Storage).Device().EndCall()
}

// copyAcross moves a value to another device. It waits until the value has been scheduled, not until
// it is computed.
func copyAcross(source, target *C.xla_go_tensor) error {
	core := space.Core
	defer core.BeginCall()()
	buffer, d, dims, err := valueOf(source)
	if err != nil || buffer == nil {
		return err
	}
	defer buffer.Release()
	data, err := buffer.Wait()
	if err != nil {
		return err
	}
	device, err := core.Device(int(target.storage.device))
	if err != nil {
		return err
	}
	moved, err := core.Client().CopyToDevice(data, device.Name())
	if err != nil {
		return err
	}
	core.Mu.Lock()
	defer core.Mu.Unlock()
	defer core.Graph.EndCall()
	noteStack()
	leaf, err := core.Leaf(moved, d, dims)
	if err != nil {
		return err
	}
	to, err := view(target)
	if err != nil {
		return err
	}
	return space.Write(&to, leaf)
}

// valueOf queues what a view needs and gives its value, retained, in the view's own shape; nil for an
// empty view.
func valueOf(source *C.xla_go_tensor) (*ir.Buffer, dtype.Dtype, []int64, error) {
	core := space.Core
	core.LockResolved()
	defer core.Mu.Unlock()
	defer core.Graph.EndCall()
	noteStack()
	v, err := view(source)
	if err != nil {
		return nil, dtype.Invalid, nil, err
	}
	dims := append([]int64(nil), v.Sizes...)
	if shape.Product(dims) == 0 {
		return nil, v.Dtype, dims, nil
	}
	core.Break("a value is copied to another device in its middle")
	device := v.Storage.(*tensor.Storage).Device()
	root := &executor.Root{} // of this copy's own: the view need not be a whole storage
	root.Init(device)
	root.Set(space.Read(&v))
	defer root.Drop()
	if !root.Value().IsLeaf() {
		if err := root.Refuse(); err != nil {
			return nil, v.Dtype, dims, err
		}
		if err := core.RefuseRead(); err != nil {
			return nil, v.Dtype, dims, err
		}
		if _, err := device.Cut("copy to another device"); err != nil {
			return nil, v.Dtype, dims, err
		}
	}
	buffer := root.Value().Buffer
	buffer.Retain()
	return buffer, v.Dtype, dims, nil
}

//export xlaGoSync
func xlaGoSync(device C.int32_t, cause *C.char, token *C.int64_t, e *C.xla_go_error) (result C.int32_t) {
	defer recovered(e, &result)
	defer showCompiles()
	core := space.Core
	d, err := core.Device(int(device))
	if err != nil {
		return fail(e, err)
	}
	d.WaitForRoom()
	*token = 0
	if !core.TryLockResolved(waitSlice) {
		return -1
	}
	defer core.Mu.Unlock()
	step, err := d.Cut(C.GoString(cause))
	if err != nil {
		return fail(e, err)
	}
	if step != nil {
		*token = reads.add(&reading{wait: core.NewWait(step.Buffers()...), begun: time.Now()})
	}
	return 0
}

//export xlaGoResizeStorage
func xlaGoResizeStorage(s *C.xla_go_storage, nbytes C.int64_t, e *C.xla_go_error) (result C.int32_t) {
	core := space.Core
	core.Mu.Lock()
	defer core.Mu.Unlock()
	defer recovered(e, &result)
	defer core.Graph.EndCall()
	noteStack()
	if s.id != 0 {
		space.Resize(space.Get(int64(s.id)), int64(nbytes))
	}
	s.nbytes = nbytes
	return 0
}

//export xlaGoCount
func xlaGoCount(name *C.char, n C.int64_t) { metrics.Counter(C.GoString(name)).Add(int64(n)) }

//export xlaGoDeviceCount
func xlaGoDeviceCount() C.int32_t {
	if space.Core.Partitioned() {
		return 1
	}
	return C.int32_t(space.Core.Client().GetNumLocalDevices())
}

// showCompiles makes the number of compiles, and of cuts under analysis, visible to the adapter. Deferred in each call
// that may start one.
func showCompiles() {
	atomic.StoreInt64((*int64)(unsafe.Pointer(&C.xla_go_compiles)), space.Core.Unlocated())
}

//export xlaGoRowsDigest
func xlaGoRowsDigest() C.uint64_t { return C.uint64_t(ops.NamesDigest()) }

//export xlaGoBufferPointer
func xlaGoBufferPointer(s *C.xla_go_storage) C.uint64_t {
	if s.id == 0 {
		return 0
	}
	core := space.Core
	core.Mu.Lock()
	value := space.Get(int64(s.id)).Value()
	var buffer *ir.Buffer
	if value != nil && value.IsLeaf() {
		buffer = value.Buffer
		buffer.Retain()
	}
	core.Mu.Unlock()
	if buffer == nil {
		return 0
	}
	defer buffer.Release()
	data, err := buffer.Wait()
	if err != nil {
		return 0
	}
	pointer, err := core.Client().UnsafeBufferPointer(data)
	if err != nil {
		return 0
	}
	return C.uint64_t(pointer)
}
