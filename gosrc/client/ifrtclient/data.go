package ifrtclient

import (
	"xla_go/gosrc/client"
	"xla_go/gosrc/client/internal/platform"
	"xla_go/gosrc/client/internal/value"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
)

// data is client.Data: a holder of an array, or a placeholder for one.
type data struct {
	value.Value[array, *array]
	client *Client
	asked  *client.Sharding // of a placeholder or closed data; an array carries its own
}

var _ client.Data = (*data)(nil)

// hold gives the array with a hold on it, which the caller releases. It fails for a placeholder, a closed
// value and one that was given away; it does not ask whether a run has consumed the memory.
func (d *data) hold() (*array, error) {
	a, err := d.Hold()
	if err != nil {
		return nil, err
	}
	if a.moved {
		a.Release()
		return nil, d.Gone()
	}
	return a, nil
}

// usable is hold for a run: it fails also where a run has consumed the memory.
func (d *data) usable() (*array, error) {
	a, err := d.hold()
	if err == nil && a.suspicious() && !a.alive() {
		a.Release()
		return nil, d.Gone()
	}
	return a, err
}

func (d *data) Handle() (uintptr, error) {
	a, err := d.hold()
	if err != nil {
		return 0, err
	}
	defer a.Release()
	if !a.alive() {
		return 0, d.Gone()
	}
	return a.shards[0].buffer.Identity(), nil
}

func (d *data) HasValue() bool {
	a, err := d.hold()
	if err != nil {
		return false
	}
	defer a.Release()
	return a.alive()
}

// Sharding gives the array's own annotation, of a placeholder the one that was asked for.
func (d *data) Sharding() *client.Sharding {
	a, err := d.hold()
	if err != nil {
		return d.asked
	}
	defer a.Release()
	return a.sharding.annotation
}

func (d *data) String() string { return d.Describe(d.DeviceName == SPMDDevice) }

// Assign makes this placeholder share source's array, its sharding included.
func (d *data) Assign(source client.Data) error {
	s, err := d.client.own(source)
	if err != nil {
		return status.Annotate(err, "Assign()")
	}
	a, err := s.usable()
	if err != nil {
		return status.Annotate(err, "Assign()")
	}
	defer a.Release()
	return d.Share(&s.Value)
}

// explain replaces a plugin's error about a donated buffer by ours, and leaves others.
func (d *data) explain(a *array, err error) error {
	if err != nil && !a.alive() {
		return d.Gone()
	}
	return err
}

// explainValue is explain for the error that a value failed with, which has no memory then.
func (d *data) explainValue(a *array, err error) error {
	if err = d.explain(a, err); platform.LacksMemory(err) {
		a.forget()
		return platform.Exhausted(err, a.on()...)
	}
	return err
}

// own checks that data came from this client.
func (c *Client) own(d client.Data) (*data, error) {
	mine, ok := d.(*data)
	if !ok || mine == nil || mine.client != c {
		return nil, status.Errorf(status.InvalidArgument, "expected data of this client, got %T", d)
	}
	return mine, nil
}

// holdOf is own and hold.
func (c *Client) holdOf(d client.Data) (*data, *array, error) {
	mine, err := c.own(d)
	if err != nil {
		return nil, nil, err
	}
	a, err := mine.hold()
	return mine, a, err
}

// single takes a hold on an array on one device.
func (c *Client) single(d client.Data) (*data, *array, error) {
	mine, a, err := c.holdOf(d)
	if err != nil {
		return nil, nil, err
	}
	if !a.single() {
		a.Release()
		return nil, nil, status.Errorf(status.InvalidArgument, "expected data on one device, got %s: take its shards", mine)
	}
	return mine, a, nil
}

// CreateDataPlaceholder makes Data without an array, to be filled by Assign.
func (c *Client) CreateDataPlaceholder(name string, s shape.Shape, annotation *client.Sharding) (client.Data, error) {
	if name != SPMDDevice {
		if _, err := c.Lookup(name); err != nil {
			return nil, status.Annotate(err, "CreateDataPlaceholder()")
		}
	}
	d := &data{client: c, asked: annotation}
	d.DeviceName, d.Global = name, s
	return d, nil
}

// GetDataSharding gives the annotation, nil where there is none.
func (c *Client) GetDataSharding(d client.Data) *client.Sharding { return d.Sharding() }

// MemoryKind names the sort of device memory that the array lies in, such as "device" or "pinned_host"; ""
// where the plugin tells none. All shards have the same.
func (c *Client) MemoryKind(d client.Data) (string, error) {
	_, a, err := c.holdOf(d)
	if err != nil {
		return "", status.Annotate(err, "MemoryKind()")
	}
	defer a.Release()
	return a.shards[0].memoryKind(), nil
}

func (s *shard) memoryKind() string {
	if m := s.buffer.Memory(); m != nil {
		return m.Kind()
	}
	return ""
}
