package dispatch

/*
#include <stdlib.h>
*/
import "C"

import (
	"fmt"
	"runtime/debug"
	"sync"
	"unsafe"

	"xla_go/gosrc/client"
	"xla_go/gosrc/client/current"
	"xla_go/gosrc/status"
)

// Each exported function here is called by the extension module's own functions;
// gosrc/bind/extension/extension.h says what it does.

// runLists are the lists of one run, kept for the next.
type runLists struct {
	arguments []client.Data
	kept      []int
}

var freeRunLists = sync.Pool{New: func() any { return new(runLists) }}

func (l *runLists) free() {
	clear(l.arguments)
	l.arguments, l.kept = l.arguments[:0], l.kept[:0]
	freeRunLists.Put(l)
}

// fill looks up the arguments by their handles.
func (l *runLists) fill(handles []int64) error {
	for i, handle := range handles {
		data, err := DataHandles.Get(handle)
		if err != nil {
			return status.Annotate(err, "argument %d", i)
		}
		l.arguments = append(l.arguments, data)
	}
	return nil
}

func int64s(p *C.longlong, n C.int) []int64 {
	return unsafe.Slice((*int64)(unsafe.Pointer(p)), int(n))
}

// failureText gives an error for C: its text with the code's name in front, to be freed.
func failureText(err error) *C.char { return C.CString(err.Error()) }

// panicText is failureText of a panic, deferred: no Go panic may cross into C.
func panicText(result **C.char) {
	if cause := recover(); cause != nil {
		*result = failureText(status.Errorf(status.Internal, "panic in the runtime: %s\n%s", fmt.Sprint(cause), debug.Stack()))
	}
}

// Execute queues a run on one device, "" for the computation's first, and appends the results' handles to results.
// arguments are handles of data and stay open; kept are numbers of arguments that are not donated. Not blocking.
func Execute(computation int64, arguments []int64, device string, kept []int64, results []int64) ([]int64, error) {
	c, err := current.Get()
	if err != nil {
		return nil, err
	}
	program, err := ComputationHandles.Get(computation)
	if err != nil {
		return nil, err
	}
	if device == "" {
		device = program.FirstDevice
	}
	lists := freeRunLists.Get().(*runLists)
	defer lists.free()
	if err := lists.fill(arguments); err != nil {
		return nil, err
	}
	for _, i := range kept {
		lists.kept = append(lists.kept, int(i))
	}
	outputs, err := c.ExecuteComputation(program.Computation, lists.arguments, device, client.ExecuteOptions{ExplodeTuple: true, NonDonatable: lists.kept})
	if err != nil {
		return nil, err
	}
	for _, output := range outputs {
		results = append(results, DataHandles.Add(output))
	}
	return results, nil
}

//export xlaGoExecute
func xlaGoExecute(computation C.longlong, arguments *C.longlong, count C.int, device *C.char, kept *C.longlong, keptCount C.int, room C.int, results **C.longlong, resultCount *C.int) (failure *C.char) {
	defer panicText(&failure)
	var name string
	if device != nil {
		name = C.GoString(device)
	}
	handles, err := Execute(int64(computation), int64s(arguments, count), name, int64s(kept, keptCount), int64s(*results, room)[:0])
	if err != nil {
		return failureText(err)
	}
	*resultCount = C.int(len(handles))
	if len(handles) > int(room) {
		*results = (*C.longlong)(C.malloc(C.size_t(8 * len(handles))))
		copy(int64s(*results, *resultCount), handles)
	}
	return nil
}

// CloseData drops the hold on the device memory. Idempotent: it says whether the handle was open.
func CloseData(handle int64) bool {
	data, ok := DataHandles.Remove(handle)
	if ok {
		data.Close()
	}
	return ok
}

//export xlaGoCloseData
func xlaGoCloseData(handle C.longlong) (failure *C.char) {
	defer panicText(&failure)
	CloseData(int64(handle))
	return nil
}
