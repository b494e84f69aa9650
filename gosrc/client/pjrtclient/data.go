package pjrtclient

import (
	"slices"
	"sync/atomic"

	"xla_go/gosrc/client"
	"xla_go/gosrc/client/internal/platform"
	"xla_go/gosrc/client/internal/value"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
	"xla_go/pjrt"
)

// memory is device memory shared by its holders: every Data of it, and every call that uses it.
// It is one buffer, or the memories of all shards.
type memory struct {
	holders   value.Holders
	buffer    *pjrt.Buffer // nil where shards are set
	footprint platform.Footprint
	device    *platform.Device
	shards    []*memory
	devices   []*platform.Device // of the sharding: position is the number in it; nil where buffer is set
	suspect   atomic.Bool        // was an argument of a run that may consume it
	layout    platform.Layout
	learned   *platform.Layout // the same for all values of one program's output; nil where not of a program
}

// Retain takes a hold; false where the last holder has gone.
func (m *memory) Retain() bool { return m.holders.Retain() }

// Release gives a hold up; the last one frees the memory.
func (m *memory) Release() {
	if !m.holders.Last() {
		return
	}
	if m.buffer != nil {
		m.footprint.Drop(m.device)
		m.buffer.Destroy()
	}
	for _, s := range m.shards {
		s.Release()
	}
}

// forget stops counting memory that is gone or never came.
func (m *memory) forget() {
	if m.buffer != nil {
		m.footprint.Drop(m.device)
	}
	for _, s := range m.shards {
		s.footprint.Drop(s.device)
	}
}

// on gives the devices that it lies on.
func (m *memory) on() []*platform.Device {
	if m.buffer != nil {
		return []*platform.Device{m.device}
	}
	devices := make([]*platform.Device, len(m.shards))
	for i, s := range m.shards {
		devices[i] = s.device
	}
	return devices
}

// first is the buffer that stands for the whole.
func (m *memory) first() *pjrt.Buffer {
	if m.buffer != nil {
		return m.buffer
	}
	return m.shards[0].buffer
}

// alive says whether every buffer still has its memory (a donated one has not).
func (m *memory) alive() bool {
	if m.buffer != nil {
		return !m.buffer.IsDeleted()
	}
	for _, s := range m.shards {
		if s.buffer.IsDeleted() {
			return false
		}
	}
	return true
}

// data is client.Data of this client.
type data struct {
	value.Value[memory, *memory]
	client   *Client
	sharding atomic.Pointer[client.Sharding] // of a placeholder the one that was asked for, until Assign
}

var _ client.Data = (*data)(nil)

func (d *data) Sharding() *client.Sharding { return d.sharding.Load() }
func (d *data) String() string             { return d.Describe(d.Sharding() != nil) }

func (d *data) Handle() (uintptr, error) {
	m, err := d.Hold()
	if err != nil {
		return 0, err
	}
	defer m.Release()
	if !m.alive() {
		return 0, d.Gone()
	}
	return m.first().Identity(), nil
}

func (d *data) HasValue() bool {
	m, err := d.Hold()
	if err != nil {
		return false
	}
	defer m.Release()
	return m.alive()
}

// usable is Hold for a use of the value: it fails also where a run has consumed the memory.
func (d *data) usable() (*memory, error) {
	m, err := d.Hold()
	if err == nil && m.suspect.Load() && !m.alive() {
		m.Release()
		return nil, d.Gone()
	}
	return m, err
}

// Assign makes this placeholder share source's memory, and have its sharding.
func (d *data) Assign(source client.Data) error {
	s, err := d.client.own(source)
	if err != nil {
		return status.Annotate(err, "Assign()")
	}
	m, err := s.usable()
	if err != nil {
		return status.Annotate(err, "Assign()")
	}
	defer m.Release()
	former := d.sharding.Swap(s.Sharding()) // before the value, which others may wait for
	if err := d.Share(&s.Value); err != nil {
		d.sharding.Store(former)
		return err
	}
	return nil
}

// placeholder makes data that holds nothing yet.
func (c *Client) placeholder(name string, s shape.Shape, sharding *client.Sharding) *data {
	d := &data{client: c}
	d.sharding.Store(sharding)
	d.DeviceName, d.Global = name, s
	return d
}

// newData makes the only holder of a buffer.
func (c *Client) newData(b *pjrt.Buffer, on *platform.Device, s shape.Shape) *data {
	pair := &struct {
		data   data
		memory memory
	}{}
	pair.memory.buffer, pair.memory.device = b, on
	pair.memory.footprint.Take(on, s.ByteSize())
	pair.memory.holders.First()
	pair.data.client, pair.data.DeviceName, pair.data.Global = c, on.Name, s
	pair.data.Held.Store(&pair.memory)
	return &pair.data
}

// own checks that data came from this client.
func (c *Client) own(d client.Data) (*data, error) {
	mine, ok := d.(*data)
	if !ok || mine == nil || mine.client != c {
		return nil, status.Errorf(status.InvalidArgument, "expected data of this client, got %T", d)
	}
	return mine, nil
}

// CreateDataPlaceholder makes Data without device memory, to be filled by Assign.
func (c *Client) CreateDataPlaceholder(name string, s shape.Shape, sharding *client.Sharding) (client.Data, error) {
	if name != SPMDDevice {
		d, err := c.Lookup(name)
		if err != nil {
			return nil, status.Annotate(err, "CreateDataPlaceholder()")
		}
		name = d.Name
	}
	return c.placeholder(name, s, sharding), nil
}

// GetDataShards gives the shards of sharded data, or the data itself as the only one. The caller
// closes what it gets, except the data itself.
func (c *Client) GetDataShards(d client.Data) ([]client.Data, error) {
	mine, err := c.own(d)
	if err != nil {
		return nil, status.Annotate(err, "GetDataShards()")
	}
	if mine.Sharding() == nil {
		return []client.Data{d}, nil
	}
	m, err := mine.Hold()
	if err != nil {
		return nil, status.Annotate(err, "GetDataShards()")
	}
	defer m.Release()
	result := make([]client.Data, len(m.shards))
	for i, s := range m.shards {
		if result[i], err = c.shard(s); err != nil {
			for _, r := range result[:i] {
				r.Close()
			}
			return nil, status.Annotate(err, "GetDataShards(): shard %d", i)
		}
	}
	return result, nil
}

// shard makes another holder of one shard's memory.
func (c *Client) shard(m *memory) (*data, error) {
	s, err := m.buffer.Shape()
	if err != nil {
		return nil, err
	}
	if !m.Retain() {
		return nil, status.Errorf(status.FailedPrecondition, "the data has been closed")
	}
	d := c.placeholder(m.device.Name, s, nil)
	d.Held.Store(m)
	return d, nil
}

// GetDataShard gives shard index; OutOfRange where there is none.
func (c *Client) GetDataShard(d client.Data, index int) (client.Data, error) {
	mine, err := c.own(d)
	if err != nil {
		return nil, status.Annotate(err, "GetDataShard()")
	}
	if mine.Sharding() == nil {
		if index != 0 {
			return nil, status.Errorf(status.OutOfRange, "GetDataShard(): expected index 0 for data that is not sharded, got %d", index)
		}
		return d, nil
	}
	m, err := mine.Hold()
	if err != nil {
		return nil, status.Annotate(err, "GetDataShard()")
	}
	defer m.Release()
	if index < 0 || index >= len(m.shards) {
		return nil, status.Errorf(status.OutOfRange, "GetDataShard(): expected an index below %d, got %d", len(m.shards), index)
	}
	return c.shard(m.shards[index])
}

// WrapDataShards joins one shard per local device, in their order, into one sharded Data. The
// shards stay the caller's; memory is shared.
func (c *Client) WrapDataShards(shards []client.Data, name string, s shape.Shape, sharding *client.Sharding) (client.Data, error) {
	if sharding == nil {
		return nil, status.Errorf(status.InvalidArgument, "WrapDataShards(): expected a sharding, got none")
	}
	if n := len(shards); n != len(c.Local) && (n == 0 || n > len(c.Local) || sharding.OpSharding != nil) {
		return nil, status.Errorf(status.InvalidArgument, "WrapDataShards(): expected one shard for each of the %d local devices, got %d", len(c.Local), len(shards))
	}
	whole := newWhole(c.Devices, len(shards))
	for i, d := range shards {
		m, err := c.holdOn(d, c.Local[i])
		if err != nil {
			whole.Release()
			return nil, status.Annotate(err, "WrapDataShards(): shard %d", i)
		}
		whole.shards = append(whole.shards, m)
	}
	return c.newSharded(whole, s, sharding), nil
}

// newWhole makes memory of shards over devices, which are yet to come.
func newWhole(devices []*platform.Device, shards int) *memory {
	whole := &memory{shards: make([]*memory, 0, shards), devices: devices}
	whole.holders.First()
	return whole
}

// partitions gives each shard's number in the sharding.
func (m *memory) partitions() []int {
	result := make([]int, len(m.shards))
	for i, s := range m.shards {
		result[i] = slices.Index(m.devices, s.device)
	}
	return result
}

func (c *Client) newSharded(whole *memory, s shape.Shape, sharding *client.Sharding) *data {
	d := c.placeholder(SPMDDevice, s, sharding)
	d.Held.Store(whole)
	return d
}

// holdOn takes a hold on data that must lie on one device.
func (c *Client) holdOn(d client.Data, on *platform.Device) (*memory, error) {
	mine, err := c.own(d)
	if err != nil {
		return nil, err
	}
	m, err := mine.Hold()
	if err != nil {
		return nil, err
	}
	if m.device != on {
		m.Release()
		return nil, status.Errorf(status.InvalidArgument, "expected data on %s, got %s", on.Name, mine)
	}
	return m, nil
}

// GetDataSharding gives the annotation, nil where there is none.
func (c *Client) GetDataSharding(d client.Data) *client.Sharding { return d.Sharding() }
