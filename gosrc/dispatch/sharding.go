package dispatch

/*
#include <stdint.h>
*/
import "C"

import (
	"xla_go/gosrc/client"
	"xla_go/gosrc/executor"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ops"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
	"xla_go/gosrc/tensor"
)

// UsePartitions makes xla:0 stand for all devices from now on: programs are partitioned over them. FailedPrecondition where
// tensors lie on another device. Idempotent. BLOCKING until queued steps have ended.
func UsePartitions() error {
	core := space.Core
	core.Mu.Lock()
	elsewhere := 0
	for _, held := range space.HeldValues() {
		if held.Device > 0 {
			elsewhere++
		}
	}
	core.Mu.Unlock()
	if elsewhere > 0 {
		return status.Errorf(status.FailedPrecondition, "use_spmd(): expected all tensors on xla:0, got %d on other devices: move them first", elsewhere)
	}
	core.Partition()
	return nil
}

// ViewOf gives the view of a storage that the adapter holds; FailedPrecondition for an id of none.
func ViewOf(id int64, element string, sizes, strides []int64, offset int64) (ops.View, error) {
	d, ok := ElementTypes[element]
	if !ok {
		return ops.View{}, status.Errorf(status.InvalidArgument, "expected an element type as HLO spells it, got %q", element)
	}
	if id <= 0 {
		return ops.View{}, status.Errorf(status.FailedPrecondition, "expected a storage that the runtime has seen")
	}
	return ops.View{Storage: space.Get(id), Sizes: sizes, Strides: strides, Offset: offset, Dtype: d}, nil
}

// Annotate calls change, a method of the Space that annotates a view of a storage, as it needs to be called. BLOCKING where a
// program is being compiled.
func Annotate(change func(s *tensor.Space) error) error {
	core := space.Core
	core.LockResolved()
	defer core.Mu.Unlock()
	defer core.Graph.EndCall()
	return change(space)
}

// ShardingOf gives how a view of a storage lies over the devices, nil where that is not known. BLOCKING where a program is
// being compiled.
func ShardingOf(v *ops.View) *hlo.Sharding {
	core := space.Core
	core.LockResolved()
	defer core.Mu.Unlock()
	return space.ShardingOf(v)
}

// ValueShardingOf gives how the value that a view has now lies; see tensor.Space. BLOCKING where a program is being compiled.
func ValueShardingOf(v *ops.View) *hlo.Sharding {
	core := space.Core
	core.LockResolved()
	defer core.Mu.Unlock()
	return space.ValueSharding(v)
}

// WaitForValue gives a wait for the value that a view's storage has now, which is the caller's to close; nil where a program has
// yet to make it, and where nothing was written. A transfer that was put off begins here.
func WaitForValue(v *ops.View) *executor.Wait {
	core := space.Core
	core.Mu.Lock()
	defer core.Mu.Unlock()
	value := v.Storage.(*tensor.Storage).Value()
	if value == nil || !value.IsLeaf() {
		return nil
	}
	value.Buffer.Retain()
	return core.NewWait(value.Buffer)
}

// LayoutOf gives how a view lies over the devices, as far as it is known. BLOCKING where a program is being compiled.
func LayoutOf(v *ops.View) tensor.Layout {
	core := space.Core
	core.LockResolved()
	defer core.Mu.Unlock()
	return space.LayoutOf(v)
}

// ShardsBegin queues what a view's value needs and gives a token: wait with read_wait until it is there, then ShardsFinish or
// read_cancel. BLOCKING where a program is being compiled.
func ShardsBegin(v *ops.View) (token int64, err error) {
	core := space.Core
	core.LockResolved()
	defer core.Mu.Unlock()
	defer core.Graph.EndCall()
	if v.Storage.(*tensor.Storage).Value() == nil {
		space.Read(v) // gives it its contents
	}
	r, err := begin(v)
	if err != nil {
		return 0, err
	}
	return int64(reads.add(r)), nil
}

// ShardsFinish gives the value's shards, one for each local device, as the caller's to close, how the value lies, and its
// dimensions. InvalidArgument where the view is not the whole value.
func ShardsFinish(token int64) ([]client.Data, *hlo.Sharding, []int64, error) {
	r := reads.take(C.int64_t(token))
	if r == nil {
		return nil, nil, nil, status.Errorf(status.InvalidArgument, "ShardsFinish(): expected the token of a read that was begun, got %d", token)
	}
	defer r.close()
	if r.wait == nil {
		return nil, nil, nil, status.Errorf(status.InvalidArgument, "local_shards: expected a tensor with elements")
	}
	data := r.wait.Data(0)
	s := data.Shape()
	if r.offset != 0 || s.ByteSize() != r.bytes || !shape.Make(s.Dtype, r.sizes...).Equal(s) {
		return nil, nil, nil, status.Errorf(status.InvalidArgument, "local_shards: expected a tensor that is all of its storage, in its order: take the shards of a contiguous() copy")
	}
	c := space.Core.Client()
	sharding := &hlo.Sharding{Kind: hlo.Replicated}
	if annotation := c.GetDataSharding(data); annotation != nil {
		var err error
		if sharding, err = hlo.ParseSharding(annotation.OpSharding); err != nil {
			return nil, nil, nil, err
		}
	}
	// A shard of its own even where the data is whole: GetDataShards would give the data itself.
	if c.GetDataSharding(data) == nil {
		same, err := c.CopyToDevice(data, data.Device())
		return []client.Data{same}, sharding, s.Dims, err
	}
	shards, err := c.GetDataShards(data)
	return shards, sharding, s.Dims, err
}
