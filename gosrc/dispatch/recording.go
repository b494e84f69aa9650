package dispatch

/*
#include "xla_go_dispatch.h"
*/
import "C"

import (
	"unsafe"

	"xla_go/gosrc/executor"
	"xla_go/gosrc/status"
)

var (
	recorder   *executor.Recorder // under Core.Mu; nil for none
	recordings = NewHandles[*executor.Recording]("recordings")
)

// Recordings gives the number of programs that are kept to be run again.
func Recordings() int64 { return recordings.Count() }

// rootsOf gives the roots of storages and makes those at first sight. Under Core.Mu.
func rootsOf(storages **C.xla_go_storage, n C.int32_t) ([]*executor.Root, error) {
	roots := make([]*executor.Root, int(n))
	for i, s := range unsafe.Slice(storages, int(n)) {
		storage, err := storageOf(s)
		if err != nil {
			return nil, err
		}
		roots[i] = &storage.Root
	}
	return roots, nil
}

//export xlaGoRecordBegin
func xlaGoRecordBegin(device C.int32_t, inputs **C.xla_go_storage, n C.int32_t, closed C.int32_t, g *C.xla_go_generator, e *C.xla_go_error) (result C.int32_t) {
	core := space.Core
	core.Mu.Lock()
	defer core.Mu.Unlock()
	defer recovered(e, &result)
	defer showCompiles()
	d, err := core.Device(int(device))
	if err != nil {
		return fail(e, err)
	}
	roots, err := rootsOf(inputs, n)
	if err != nil {
		return fail(e, err)
	}
	if recorder, err = d.Record(roots, (*uint64)(unsafe.Pointer(&g.offset)), closed != 0); err != nil {
		return fail(e, err)
	}
	return 0
}

//export xlaGoRecordEnd
func xlaGoRecordEnd(outputs **C.xla_go_storage, n C.int32_t, handle *C.int64_t, e *C.xla_go_error) (result C.int32_t) {
	core := space.Core
	core.Mu.Lock()
	defer core.Mu.Unlock()
	defer recovered(e, &result)
	defer showCompiles()
	if recorder == nil {
		return fail(e, status.Errorf(status.FailedPrecondition, "record_end: expected record_begin before it"))
	}
	r := recorder
	recorder = nil
	defer r.Close()
	roots, err := rootsOf(outputs, n)
	if err != nil {
		return fail(e, err)
	}
	recording, err := r.Finish(roots)
	if err != nil {
		return fail(e, err)
	}
	*handle = C.int64_t(recordings.Add(recording))
	return 0
}

// Export ends the recording that record_begin began, with the program that computes the storages with the given ids from its
// inputs. Whoever began it cancels it afterwards.
func Export(storages []int64) (*executor.Export, error) {
	if space == nil {
		return nil, status.Errorf(status.FailedPrecondition, "expected a tensor on device xla, there is none yet")
	}
	core := space.Core
	core.Mu.Lock()
	defer core.Mu.Unlock()
	if recorder == nil {
		return nil, status.Errorf(status.FailedPrecondition, "expected record_begin before it")
	}
	r := recorder
	recorder = nil
	defer r.Close()
	roots := make([]*executor.Root, len(storages))
	for i, id := range storages {
		if _, err := space.ValueOf(id); err != nil {
			return nil, status.Annotate(err, "output %d", i)
		}
		roots[i] = &space.Get(id).Root
	}
	return r.Export(roots)
}

//export xlaGoRecordCancel
func xlaGoRecordCancel() {
	core := space.Core
	core.Mu.Lock()
	defer core.Mu.Unlock()
	if recorder != nil {
		recorder.Close()
		recorder = nil
	}
}

//export xlaGoReplay
func xlaGoReplay(handle C.int64_t, inputs **C.xla_go_storage, n C.int32_t, outputs **C.xla_go_storage, m C.int32_t, g *C.xla_go_generator, ran *C.int32_t, e *C.xla_go_error) (result C.int32_t) {
	defer recovered(e, &result)
	defer showCompiles()
	r, err := recordings.Get(int64(handle))
	if err != nil {
		return fail(e, err)
	}
	r.Device().WaitForRoom()
	defer r.Device().LaunchQueued() // without the core's lock
	core := space.Core
	core.Mu.Lock()
	defer core.Mu.Unlock()
	noteStack()
	taken, err := rootsOf(inputs, n)
	if err != nil {
		return fail(e, err)
	}
	made, err := rootsOf(outputs, m)
	if err != nil {
		return fail(e, err)
	}
	ok, err := r.Run(taken, made, uint64(g.seed), (*uint64)(unsafe.Pointer(&g.offset)))
	if err != nil {
		return fail(e, err)
	}
	*ran = 0
	if ok {
		*ran = 1
	}
	return 0
}

//export xlaGoSameRecording
func xlaGoSameRecording(a, b C.int64_t) C.int32_t {
	core := space.Core
	core.Mu.Lock()
	defer core.Mu.Unlock()
	first, err := recordings.Get(int64(a))
	if err != nil {
		return 0
	}
	if second, err := recordings.Get(int64(b)); err == nil && first.Same(second) {
		return 1
	}
	return 0
}

//export xlaGoForget
func xlaGoForget(handle C.int64_t) {
	r, ok := recordings.Remove(int64(handle))
	if !ok {
		return
	}
	core := space.Core
	core.Mu.Lock()
	defer core.Mu.Unlock()
	r.Close()
}
