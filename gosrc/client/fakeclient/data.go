package fakeclient

import (
	"reflect"
	"slices"
	"sync/atomic"

	"xla_go/gosrc/client"
	"xla_go/gosrc/client/internal/value"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
)

// memory is a value's bytes, which may be yet to come. bytes and err do not change once ready is closed.
type memory struct {
	holders value.Holders
	client  *Client
	ready   chan struct{}
	bytes   []byte
	err     error
	donated atomic.Bool
}

func (c *Client) newMemory() *memory {
	m := &memory{client: c, ready: make(chan struct{})}
	m.holders.First()
	c.live.Add(1)
	return m
}

// Retain takes a hold; false where the last holder has gone.
func (m *memory) Retain() bool { return m.holders.Retain() }

// Release gives a hold up.
func (m *memory) Release() {
	if m.holders.Last() {
		m.client.live.Add(-1)
	}
}

func (m *memory) settle(bytes []byte, err error) {
	m.bytes, m.err = bytes, err
	close(m.ready)
}

// wait gives the value. BLOCKING.
func (m *memory) wait() ([]byte, error) {
	<-m.ready
	return m.bytes, m.err
}

func (m *memory) address() uintptr { return reflect.ValueOf(m).Pointer() }

// data is client.Data of this client.
type data struct {
	value.Value[memory, *memory]
	client *Client
}

var _ client.Data = (*data)(nil)

func (c *Client) newData(device string, s shape.Shape, m *memory) *data {
	d := &data{client: c}
	d.DeviceName, d.Global = device, s
	if m != nil {
		d.Held.Store(m)
	}
	return d
}

// usable takes a hold on a value that was not donated.
func (d *data) usable() (*memory, error) {
	m, err := d.Hold()
	if err == nil && m.donated.Load() {
		m.Release()
		return nil, d.Gone()
	}
	return m, err
}

func (d *data) Handle() (uintptr, error) {
	m, err := d.usable()
	if err != nil {
		return 0, err
	}
	defer m.Release()
	return m.address(), nil
}

func (d *data) HasValue() bool {
	_, err := d.Handle()
	return err == nil
}

func (d *data) Assign(source client.Data) error {
	s, err := d.client.own(source)
	if err != nil {
		return status.Annotate(err, "Assign()")
	}
	return d.Share(&s.Value)
}

func (d *data) Sharding() *client.Sharding { return nil }
func (d *data) String() string             { return d.Describe(false) }

// own checks that data came from this client.
func (c *Client) own(d client.Data) (*data, error) {
	mine, ok := d.(*data)
	if !ok || mine == nil || mine.client != c {
		return nil, status.Errorf(status.InvalidArgument, "expected data of this client, got %T", d)
	}
	return mine, nil
}

// usable is own and a hold.
func (c *Client) usable(d client.Data) (*memory, error) {
	mine, err := c.own(d)
	if err != nil {
		return nil, err
	}
	return mine.usable()
}

// computation is client.Computation.
type computation struct {
	Program
	client *Client
	name   string
	device string
	closed atomic.Bool
}

func (k *computation) Name() string                        { return k.name }
func (k *computation) Devices() []string                   { return []string{k.device} }
func (k *computation) ParameterShapes() []shape.Shape      { return slices.Clone(k.Parameters) }
func (k *computation) ResultShapes() []shape.Shape         { return slices.Clone(k.Results) }
func (k *computation) OutputShardings() []*client.Sharding { return nil }
func (k *computation) OptimizedHLO() ([]byte, error)       { return nil, unsupported("OptimizedHLO") }
func (k *computation) MemoryInfo() (string, error)         { return "", unsupported("MemoryInfo") }
func (k *computation) Close() {
	if !k.closed.Swap(true) {
		k.client.programs.Add(-1)
	}
}
