package pjrtclient

import (
	"fmt"
	"sync/atomic"

	"xla_go/gosrc/client"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
	"xla_go/pjrt"
)

// memory is device memory shared by its holders: every Data of it, and every call that uses it.
// It is one buffer, or the memories of all shards.
type memory struct {
	holders    atomic.Int32
	buffer     *pjrt.Buffer // nil where shards are set
	device     *device
	shards     []*memory
	partitions []int         // of each shard: its number in the sharding
	suspect    atomic.Bool   // was an argument of a run that may consume it
	rowMajor   atomic.Int32  // unknown, row-major, other
	learned    *atomic.Int32 // the same for all values of one program's output; nil where not of a program
}

const (
	layoutUnknown int32 = iota
	layoutRowMajor
	layoutOther
)

// retain takes a hold; false where the last holder has gone.
func (m *memory) retain() bool {
	for {
		n := m.holders.Load()
		if n <= 0 {
			return false
		}
		if m.holders.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (m *memory) release() {
	if m.holders.Add(-1) != 0 {
		return
	}
	if m.buffer != nil {
		m.buffer.Destroy()
	}
	for _, s := range m.shards {
		s.release()
	}
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
	client   *Client
	name     string // of the device
	shape    shape.Shape
	sharding *client.Sharding
	memory   atomic.Pointer[memory]
	donate   atomic.Bool
	closed   atomic.Bool
}

var _ client.Data = (*data)(nil)

func (d *data) Device() string             { return d.name }
func (d *data) Shape() shape.Shape         { return d.shape }
func (d *data) Sharding() *client.Sharding { return d.sharding }
func (d *data) ShouldDonate() bool         { return d.donate.Load() }
func (d *data) SetShouldDonate(yes bool)   { d.donate.Store(yes) }

// hold gives the memory with a hold on it, which the caller releases.
func (d *data) hold() (*memory, error) {
	for {
		m := d.memory.Load()
		if m == nil {
			if d.closed.Load() {
				return nil, status.Errorf(status.FailedPrecondition, "the data (%s on %s) has been closed", d.shape, d.name)
			}
			return nil, client.ErrNoValue
		}
		if m.retain() {
			return m, nil
		}
		if d.memory.Load() == m {
			return nil, status.Errorf(status.FailedPrecondition, "the data (%s on %s) has been closed", d.shape, d.name)
		}
	}
}

func (d *data) Handle() (uintptr, error) {
	m, err := d.hold()
	if err != nil {
		return 0, err
	}
	defer m.release()
	if !m.alive() {
		return 0, d.gone()
	}
	return m.first().Identity(), nil
}

// gone is the error of a donated value.
func (d *data) gone() error {
	return status.Errorf(status.FailedPrecondition, "the device memory of %s on %s is gone: it was donated to an execution", d.shape, d.name)
}

func (d *data) HasValue() bool {
	m, err := d.hold()
	if err != nil {
		return false
	}
	defer m.release()
	return m.alive()
}

func (d *data) Assign(source client.Data) error {
	s, err := d.client.own(source)
	if err != nil {
		return status.Annotate(err, "Assign()")
	}
	if s == d {
		return nil
	}
	if !s.shape.Equal(d.shape) {
		return status.Errorf(status.InvalidArgument, "Assign(): expected a value of shape %s, got %s", d.shape, s.shape)
	}
	if s.name != d.name {
		return status.Errorf(status.InvalidArgument, "Assign(): expected a value on %s, got one on %s", d.name, s.name)
	}
	m, err := s.hold()
	if err != nil {
		return status.Annotate(err, "Assign()")
	}
	former := d.memory.Swap(m)
	if former != nil {
		former.release()
	}
	if d.closed.Load() { // closed meanwhile: nobody would drop this hold
		d.drop()
		return status.Errorf(status.FailedPrecondition, "Assign(): the data (%s on %s) has been closed", d.shape, d.name)
	}
	return nil
}

func (d *data) drop() {
	if m := d.memory.Swap(nil); m != nil {
		m.release()
	}
}

func (d *data) Close() {
	d.closed.Store(true)
	d.drop()
}

func (d *data) String() string {
	state := "value"
	if d.closed.Load() {
		state = "closed"
	} else if d.memory.Load() == nil {
		state = "placeholder"
	}
	if d.sharding != nil {
		state = "sharded " + state
	}
	return fmt.Sprintf("Data(%s on %s, %s)", d.shape, d.name, state)
}

// newData makes the only holder of a buffer.
func (c *Client) newData(b *pjrt.Buffer, on *device, s shape.Shape) *data {
	pair := &struct {
		data   data
		memory memory
	}{}
	pair.memory.buffer, pair.memory.device = b, on
	pair.memory.holders.Store(1)
	pair.data.client, pair.data.name, pair.data.shape = c, on.name, s
	pair.data.memory.Store(&pair.memory)
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
		d, err := c.lookup(name)
		if err != nil {
			return nil, status.Annotate(err, "CreateDataPlaceholder()")
		}
		name = d.name
	}
	return &data{client: c, name: name, shape: s, sharding: sharding}, nil
}

// GetDataShards gives the shards of sharded data, or the data itself as the only one. The caller
// closes what it gets, except the data itself.
func (c *Client) GetDataShards(d client.Data) ([]client.Data, error) {
	mine, err := c.own(d)
	if err != nil {
		return nil, status.Annotate(err, "GetDataShards()")
	}
	if mine.sharding == nil {
		return []client.Data{d}, nil
	}
	m, err := mine.hold()
	if err != nil {
		return nil, status.Annotate(err, "GetDataShards()")
	}
	defer m.release()
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
	if !m.retain() {
		return nil, status.Errorf(status.FailedPrecondition, "the data has been closed")
	}
	d := &data{client: c, name: m.device.name, shape: s}
	d.memory.Store(m)
	return d, nil
}

// GetDataShard gives shard index; OutOfRange where there is none.
func (c *Client) GetDataShard(d client.Data, index int) (client.Data, error) {
	mine, err := c.own(d)
	if err != nil {
		return nil, status.Annotate(err, "GetDataShard()")
	}
	if mine.sharding == nil {
		if index != 0 {
			return nil, status.Errorf(status.OutOfRange, "GetDataShard(): expected index 0 for data that is not sharded, got %d", index)
		}
		return d, nil
	}
	m, err := mine.hold()
	if err != nil {
		return nil, status.Annotate(err, "GetDataShard()")
	}
	defer m.release()
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
	if len(shards) != len(c.local) {
		return nil, status.Errorf(status.InvalidArgument, "WrapDataShards(): expected one shard for each of the %d local devices, got %d", len(c.local), len(shards))
	}
	whole := &memory{shards: make([]*memory, 0, len(shards))}
	whole.holders.Store(1)
	for i, d := range shards {
		m, err := c.holdOn(d, c.local[i])
		if err != nil {
			whole.release()
			return nil, status.Annotate(err, "WrapDataShards(): shard %d", i)
		}
		whole.shards, whole.partitions = append(whole.shards, m), append(whole.partitions, m.device.ordinal)
	}
	return c.newSharded(whole, s, sharding), nil
}

func (c *Client) newSharded(whole *memory, s shape.Shape, sharding *client.Sharding) *data {
	d := &data{client: c, name: SPMDDevice, shape: s, sharding: sharding}
	d.memory.Store(whole)
	return d
}

// holdOn takes a hold on data that must lie on one device.
func (c *Client) holdOn(d client.Data, on *device) (*memory, error) {
	mine, err := c.own(d)
	if err != nil {
		return nil, err
	}
	m, err := mine.hold()
	if err != nil {
		return nil, err
	}
	if m.device != on {
		m.release()
		return nil, status.Errorf(status.InvalidArgument, "expected data on %s, got %s", on.name, mine)
	}
	return m, nil
}

// GetDataSharding gives the annotation, nil where there is none.
func (c *Client) GetDataSharding(d client.Data) *client.Sharding { return d.Sharding() }
