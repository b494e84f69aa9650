package dispatch

/*
#include <stdint.h>
*/
import "C"

import (
	"slices"

	"xla_go/gosrc/client"
	"xla_go/gosrc/dtype"
	"xla_go/gosrc/ops"
	"xla_go/gosrc/status"
)

// LendBegin queues what the value of a storage needs, all of it, and gives a token: wait with read_wait
// until it is there, then LendFinish or read_cancel. id is a storage's that the adapter holds. Not blocking.
func LendBegin(id int64) (token int64, err error) {
	core := space.Core
	core.LockResolved()
	defer core.Mu.Unlock()
	defer core.Graph.EndCall()
	storage := space.Get(id)
	whole := ops.View{Storage: storage, Sizes: []int64{storage.ByteSize}, Strides: []int64{1}, Dtype: dtype.U8}
	if storage.Value() == nil {
		space.Read(&whole) // gives it its contents
	}
	r, err := begin(&whole)
	if err != nil {
		return 0, err
	}
	return int64(reads.add(r)), nil
}

// LendFinish lends the device memory that a storage's value lay in when LendBegin was called. What is written
// to the storage afterwards goes to other memory.
func LendFinish(token int64) (client.ExternalReference, error) {
	r := reads.take(C.int64_t(token))
	if r == nil {
		return client.ExternalReference{}, status.Errorf(status.InvalidArgument, "LendFinish(): expected the token of a read that was begun, got %d", token)
	}
	defer r.close()
	if r.wait == nil {
		return client.ExternalReference{}, status.Errorf(status.InvalidArgument, "LendFinish(): expected a storage that is not empty")
	}
	return space.Core.Client().AcquireExternalReference(r.wait.Data(0))
}

// Adopt makes data, which must fill it, the value of a storage; the handle of the data is closed. Not blocking.
func Adopt(id, handle int64) error {
	core := space.Core
	core.Mu.Lock()
	defer core.Mu.Unlock()
	defer core.Graph.EndCall()
	storage := space.Get(id)
	data, err := DataHandles.Get(handle)
	if err != nil {
		return err
	}
	s := data.Shape()
	if s.ByteSize() != storage.ByteSize || data.Device() != storage.Device().Name() {
		return status.Errorf(status.InvalidArgument, "Adopt(): expected %d bytes on %s, got %s", storage.ByteSize, storage.Device().Name(), data)
	}
	if _, open := DataHandles.Remove(handle); !open {
		return status.Errorf(status.InvalidArgument, "Adopt(): the data has been closed")
	}
	leaf, err := core.Leaf(data, s.Dtype, slices.Clone(s.Dims))
	if err != nil {
		return err
	}
	storage.Set(leaf)
	return nil
}

// ShareData gives the handle of data that share the memory of a storage's value; FailedPrecondition for one that is not queued and
// scheduled. Not blocking.
func ShareData(id int64) (handle int64, err error) {
	if space == nil {
		return 0, status.Errorf(status.FailedPrecondition, "ShareData(): expected a tensor on device xla, there is none yet")
	}
	core := space.Core
	core.Mu.Lock()
	defer core.Mu.Unlock()
	value, err := space.ValueOf(id)
	if err != nil {
		return 0, err
	}
	if !value.IsLeaf() {
		return 0, status.Errorf(status.FailedPrecondition, "ShareData(): expected a value in device memory, got one that is pending")
	}
	data, err, scheduled := value.Buffer.Scheduled()
	if err != nil {
		return 0, err
	}
	if !scheduled {
		return 0, status.Errorf(status.FailedPrecondition, "ShareData(): expected a value that was scheduled, got one that waits for its step")
	}
	shared, err := core.Client().CreateDataPlaceholder(data.Device(), data.Shape(), core.Client().GetDataSharding(data))
	if err != nil {
		return 0, err
	}
	if err := shared.Assign(data); err != nil {
		shared.Close()
		return 0, err
	}
	return DataHandles.Add(shared), nil
}
