package ifrtclient

import (
	"sync/atomic"

	"xla_go/gosrc/client"
	"xla_go/gosrc/client/internal/platform"
	"xla_go/gosrc/client/internal/value"
	"xla_go/gosrc/shape"
	"xla_go/pjrt"
)

// deviceList is where an array lies.
type deviceList struct {
	all        []*platform.Device // position is the number in the sharding
	local      []*platform.Device // those of this process, in the order of the array's shards
	partitions []int              // of each local device: its position in all
}

// layoutOn is how an array lies on its devices.
type layoutOn struct {
	devices    *deviceList
	annotation *client.Sharding // nil where the only device has the whole
}

// shard is what one device has of an array. Arrays share shards, and each of them holds it.
type shard struct {
	holders   value.Holders
	buffer    *pjrt.Buffer
	device    *platform.Device
	footprint platform.Footprint
	suspect   atomic.Bool // was an argument of a run that may consume it
	layout    platform.Layout
	learned   *platform.Layout // the same for all values of one program's output; nil where not of a program
}

func (s *shard) release() {
	if s.holders.Last() {
		s.footprint.Drop(s.device)
		s.buffer.Destroy()
	}
}

// gone says whether the memory has been consumed, with a question to the plugin.
func (s *shard) gone() bool { return s.buffer.IsDeleted() }

// format is where the layout in memory is remembered.
func (s *shard) format() *platform.Layout {
	if s.learned != nil {
		return s.learned
	}
	return &s.layout
}

// array is one value over a list of devices. It does not change; data point to it.
type array struct {
	holders  value.Holders
	sharding layoutOn
	shards   []*shard // one for each local device
	moved    bool     // stands for a value that was given away: no shards
}

// moved takes the place of a value that was given away.
var moved = func() *array {
	a := &array{moved: true}
	a.holders.First() // for ever
	return a
}()

// Retain takes a hold; false where the last holder has gone.
func (a *array) Retain() bool { return a.holders.Retain() }

// Release gives a hold up; the last one releases the shards.
func (a *array) Release() {
	if !a.holders.Last() {
		return
	}
	for _, s := range a.shards {
		s.release()
	}
}

// alive says whether every shard still has its memory.
func (a *array) alive() bool {
	for _, s := range a.shards {
		if s.gone() {
			return false
		}
	}
	return !a.moved
}

// forget stops counting memory that is gone or never came.
func (a *array) forget() {
	for _, s := range a.shards {
		s.footprint.Drop(s.device)
	}
}

// on gives the devices that it lies on.
func (a *array) on() []*platform.Device {
	devices := make([]*platform.Device, len(a.shards))
	for i, s := range a.shards {
		devices[i] = s.device
	}
	return devices
}

// suspicious says whether a run may have consumed a shard, so that the plugin must be asked: it may log,
// or do worse, when it is given a buffer that is gone.
func (a *array) suspicious() bool {
	for _, s := range a.shards {
		if s.suspect.Load() {
			return true
		}
	}
	return false
}

// single says whether one device has the whole.
func (a *array) single() bool { return a.sharding.annotation == nil }

// buffers gives the buffers of all shards.
func (a *array) buffers() []*pjrt.Buffer {
	result := make([]*pjrt.Buffer, len(a.shards))
	for i, s := range a.shards {
		result[i] = s.buffer
	}
	return result
}

// alone is everything of a value on one device, made at once.
type alone struct {
	data  data
	array array
	shard shard
	list  [1]*shard
}

// set makes the only holder of a buffer.
func (o *alone) set(c *Client, b *pjrt.Buffer, on *platform.Device, s shape.Shape, bytes int64) *data {
	o.shard.buffer, o.shard.device = b, on
	o.shard.footprint.Take(on, bytes)
	o.shard.holders.First()
	o.list[0] = &o.shard
	o.array.shards, o.array.sharding.devices = o.list[:], c.alone[on]
	o.array.holders.First()
	o.data.client, o.data.DeviceName, o.data.Global = c, on.Name, s
	o.data.Held.Store(&o.array)
	return &o.data
}

func (c *Client) newData(b *pjrt.Buffer, on *platform.Device, s shape.Shape) *data {
	return new(alone).set(c, b, on, s, s.ByteSize())
}

// newArray makes data of an array of shards, whose holds go to it.
func (c *Client) newArray(shards []*shard, how layoutOn, s shape.Shape) *data {
	a := &array{shards: shards, sharding: how}
	a.holders.First()
	name := SPMDDevice
	if a.single() {
		name = shards[0].device.Name
	}
	d := &data{client: c, asked: how.annotation}
	d.DeviceName, d.Global = name, s
	d.Held.Store(a)
	return d
}
