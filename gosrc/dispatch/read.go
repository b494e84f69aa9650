package dispatch

/*
#include <string.h>
#include "xla_go_dispatch.h"
void xla_go_copy_strided(char *destination, const char *source, int64_t item_size, int32_t rank,
                         const int64_t *sizes, const int64_t *strides, int64_t offset);
void xla_go_prefer_large_pages(void *memory, size_t size);
*/
import "C"

import (
	"slices"
	"sync"
	"time"
	"unsafe"

	"xla_go/gosrc/client"
	"xla_go/gosrc/executor"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/metrics"
	"xla_go/gosrc/ops"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
	"xla_go/gosrc/tensor"
)

// largeRead is the size from which a whole dense value is read by the client's own copy, which may be on several
// threads.
const largeRead = 1 << 20

// manyPages is the size from which the destination's pages are worth a look.
const manyPages = 4 << 20

var (
	inbound      = metrics.Bytes("InboundData")
	transferTime = metrics.Time("TransferFromDeviceTime")
	readTime     = metrics.Time("ReadTime") // from its begin to its end, the wait for the value included
)

// reading is a read (or a wait for a step) on its way, between xlaGoReadBegin and its end.
type reading struct {
	wait    *executor.Wait // nil for a storage that nothing was written to: zeros
	sizes   []int64
	strides []int64
	offset  int64
	item    int64
	bytes   int64
	begun   time.Time
	noted   *executor.Read // nil where nobody wants to know
}

func (r *reading) close() {
	took := time.Since(r.begun)
	readTime.Observe(took)
	if r.noted != nil {
		r.noted.End(took)
		showCompiles()
	}
	if r.wait != nil {
		r.wait.Close()
	}
}

// readTable maps tokens to readings.
type readTable struct {
	mu   sync.Mutex
	next int64
	byID map[int64]*reading
}

var reads = readTable{byID: map[int64]*reading{}}

func (t *readTable) add(r *reading) C.int64_t {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.next++
	t.byID[t.next] = r
	return C.int64_t(t.next)
}

func (t *readTable) get(token C.int64_t) *reading {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byID[int64(token)]
}

func (t *readTable) take(token C.int64_t) *reading {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.byID[int64(token)]
	delete(t.byID, int64(token))
	return r
}

// PendingReads gives the number of reads that were begun and not ended.
func PendingReads() int {
	reads.mu.Lock()
	defer reads.mu.Unlock()
	return len(reads.byID)
}

//export xlaGoReadBegin
func xlaGoReadBegin(source *C.xla_go_tensor, token *C.int64_t, e *C.xla_go_error) (result C.int32_t) {
	core := space.Core
	if !core.TryLockResolved(waitSlice) {
		return -1
	}
	defer core.Mu.Unlock()
	defer recovered(e, &result)
	defer core.Graph.EndCall()
	noteStack()
	v, err := view(source)
	if err != nil {
		return fail(e, err)
	}
	r, err := begin(&v)
	if err == nil {
		r.noted = core.NoteRead()
	}
	showCompiles()
	if err != nil {
		return fail(e, err)
	}
	*token = reads.add(r)
	return 0
}

// begin queues what the view needs. A view of a value that is ready or queued never compiles: the
// storage is strided on the host when the read ends.
func begin(v *ops.View) (*reading, error) {
	core := space.Core
	storage := v.Storage.(*tensor.Storage)
	r := &reading{
		sizes: append([]int64(nil), v.Sizes...), strides: append([]int64(nil), v.Strides...),
		offset: v.Offset, item: v.Dtype.Size(), bytes: shape.Product(v.Sizes) * v.Dtype.Size(), begun: time.Now(),
	}
	if err := storage.Failure(); err != nil {
		return nil, err
	}
	if r.bytes == 0 {
		return r, nil
	}
	core.Break("a value is read in its middle, which an operator without a row or a shape that depends on data does")
	if err := storage.Device().TakeDeferredError(); err != nil {
		return nil, err
	}
	root := &storage.Root
	if v.Conj || v.Neg {
		// Lazy bits are resolved by the device: a root of this read's own holds the result.
		root = &executor.Root{}
		root.Init(storage.Device())
		root.Set(space.Read(v))
		defer root.Drop()
		r.strides, r.offset = shape.RowMajorStrides(r.sizes), 0
	}
	value := root.Value()
	if value == nil {
		return r, nil
	}
	if !value.IsLeaf() {
		if err := root.Refuse(); err != nil {
			return nil, err
		}
		if err := core.RefuseRead(); err != nil {
			return nil, err
		}
		if _, err := root.Device().Cut("read of a value"); err != nil {
			return nil, err
		}
		value = root.Value()
	}
	value.Buffer.Retain()
	r.wait = core.NewWait(value.Buffer)
	return r, nil
}

//export xlaGoReadWait
func xlaGoReadWait(token C.int64_t, timeoutMS C.int32_t, e *C.xla_go_error) (result C.int32_t) {
	defer recovered(e, &result)
	r := reads.get(token)
	if r == nil {
		return fail(e, status.Errorf(status.InvalidArgument, "read: expected the token of a read that was begun, got %d", int64(token)))
	}
	if r.wait == nil {
		return 0
	}
	done, err := r.wait.Poll(time.Duration(timeoutMS) * time.Millisecond)
	switch {
	case err != nil:
		space.Core.Reported(err)
		return fail(e, err)
	case !done:
		return -1
	}
	if err := space.Core.TakeDeferredError(); err != nil {
		return fail(e, err)
	}
	return 0
}

//export xlaGoReadFinish
func xlaGoReadFinish(token C.int64_t, destination unsafe.Pointer, e *C.xla_go_error) (result C.int32_t) {
	defer recovered(e, &result)
	r := reads.take(token)
	if r == nil {
		return fail(e, status.Errorf(status.InvalidArgument, "read: expected the token of a read that was begun, got %d", int64(token)))
	}
	defer r.close()
	if r.bytes == 0 {
		return 0
	}
	if r.wait == nil {
		C.memset(destination, 0, C.size_t(r.bytes))
		return 0
	}
	if err := r.copyTo(destination); err != nil {
		return fail(e, err)
	}
	return 0
}

// copyTo strides the storage's bytes into dense memory: from the device memory itself where the
// host can address it, else from a copy.
func (r *reading) copyTo(destination unsafe.Pointer) error {
	c := space.Core.Client()
	data := r.wait.Data(0)
	if r.bytes >= largeRead && r.offset == 0 && r.bytes == data.Shape().ByteSize() && slices.Equal(r.strides, shape.RowMajorStrides(r.sizes)) {
		if r.bytes >= manyPages {
			C.xla_go_prefer_large_pages(destination, C.size_t(r.bytes))
		}
		return c.TransferFromDeviceInto(data, unsafe.Slice((*byte)(destination), r.bytes))
	}
	if s := data.Sharding(); s != nil {
		if parsed, err := hlo.ParseSharding(s.OpSharding); err == nil && parsed.Kind == hlo.Replicated {
			whole, err := c.GetDataShard(data, 0)
			if err != nil {
				return err
			}
			defer whole.Close()
			data = whole
		}
	}
	reference, err := c.AcquireExternalReference(data)
	if err == nil {
		defer reference.Release()
		if reference.HostAddressable && reference.RowMajor {
			begun := time.Now()
			r.strided(destination, *(*unsafe.Pointer)(unsafe.Pointer(&reference.Pointer)))
			inbound.Observe(float64(r.bytes)) // the client observes its own transfers
			transferTime.Observe(time.Since(begun))
			return nil
		}
	}
	literals, err := c.TransferFromDevice([]client.Data{data})
	if err != nil {
		return err
	}
	r.strided(destination, unsafe.Pointer(unsafe.SliceData(literals[0].Bytes)))
	return nil
}

func (r *reading) strided(destination, source unsafe.Pointer) {
	var sizes, strides *C.int64_t
	if len(r.sizes) > 0 {
		sizes, strides = (*C.int64_t)(unsafe.Pointer(&r.sizes[0])), (*C.int64_t)(unsafe.Pointer(&r.strides[0]))
	}
	C.xla_go_copy_strided((*C.char)(destination), (*C.char)(source), C.int64_t(r.item),
		C.int32_t(len(r.sizes)), sizes, strides, C.int64_t(r.offset))
}

//export xlaGoReadCancel
func xlaGoReadCancel(token C.int64_t) {
	if r := reads.take(token); r != nil {
		r.close()
	}
}
