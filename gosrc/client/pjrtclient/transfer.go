package pjrtclient

import (
	"sync"
	"time"

	"xla_go/gosrc/client"
	"xla_go/gosrc/metrics"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
	"xla_go/pjrt"
)

var (
	transferToDeviceTime   = metrics.Time("TransferToDeviceTime")
	transferFromDeviceTime = metrics.Time("TransferFromDeviceTime")
	outboundData           = metrics.Bytes("OutboundData")
	inboundData            = metrics.Bytes("InboundData")
	createDataHandles      = metrics.Counter("CreateDataHandles")
)

// asyncUpload is the size from which an upload goes on after the call where the source allows it.
// Below it a copy is cheaper than the callback.
const asyncUpload = 64 << 10

// TransferToDevice copies host arrays to their devices, in order. Each source's Release is called
// exactly once, also where the transfer fails.
func (c *Client) TransferToDevice(sources []client.TensorSource) ([]client.Data, error) {
	start := time.Now()
	if err := c.open(); err != nil {
		releaseFrom(sources)
		return nil, status.Annotate(err, "TransferToDevice()")
	}
	result := make([]client.Data, 0, len(sources))
	var bytes int64
	for i := range sources {
		d, err := c.upload(&sources[i])
		if err != nil {
			releaseFrom(sources[i+1:])
			for _, r := range result {
				r.Close()
			}
			return nil, status.Annotate(err, "TransferToDevice(): array %d (%s)", i, sources[i].Shape)
		}
		result = append(result, d)
		bytes += sources[i].Shape.ByteSize()
	}
	createDataHandles.Add(int64(len(result)))
	outboundData.Observe(float64(bytes))
	transferToDeviceTime.Observe(time.Since(start))
	return result, nil
}

func releaseFrom(sources []client.TensorSource) {
	for i := range sources {
		if sources[i].Release != nil {
			sources[i].Release()
		}
	}
}

// upload queues one source; its Release is called once in every case.
func (c *Client) upload(source *client.TensorSource) (d *data, err error) {
	release := source.Release
	handedOver := false
	defer func() {
		if release != nil && !handedOver {
			release()
		}
	}()
	on, err := c.addressable(source.Device)
	if err != nil {
		return nil, err
	}
	host, dense, err := hostArray(source)
	if err != nil {
		return nil, err
	}
	if !dense {
		packed, err := pjrt.Pack(host)
		if err != nil {
			return nil, err
		}
		host = pjrt.Host{Bytes: packed, Dtype: host.Dtype, Dims: host.Dims}
	}
	var done func()
	if dense && release != nil && source.Address != 0 && source.Shape.ByteSize() >= asyncUpload {
		done, handedOver = release, true
	}
	b, err := c.pjrt.FromHost(host, on.pjrt, done)
	if err != nil {
		handedOver = false // FromHost has not called done
		return nil, err
	}
	return c.newData(b, on, source.Shape), nil
}

// hostArray checks a source. dense is true where the bytes lie as the device wants them.
func hostArray(source *client.TensorSource) (host pjrt.Host, dense bool, err error) {
	s := source.Shape
	host = pjrt.Host{Bytes: source.Bytes, Address: source.Address, Dtype: s.Dtype, Dims: s.Dims, ByteStrides: source.ByteStrides}
	if s.Dtype.PJRT() == 0 || s.Dtype.Size() == 0 {
		return host, false, status.Errorf(status.InvalidArgument, "expected an array, got shape %s", s)
	}
	for _, d := range s.Dims {
		if d < 0 {
			return host, false, status.Errorf(status.InvalidArgument, "expected dimensions of 0 and more, got shape %s", s)
		}
	}
	if (source.Bytes != nil) == (source.Address != 0) && s.NumElements() != 0 {
		return host, false, status.Errorf(status.InvalidArgument, "expected either Bytes or Address, got %d bytes and address %#x", len(source.Bytes), source.Address)
	}
	if len(source.ByteStrides) == 0 || isDense(s, source.ByteStrides) {
		host.ByteStrides = nil
		if source.Address == 0 && int64(len(source.Bytes)) < s.ByteSize() {
			return host, false, status.Errorf(status.InvalidArgument, "expected %d bytes for shape %s, got %d", s.ByteSize(), s, len(source.Bytes))
		}
		return host, true, nil
	}
	return host, false, nil
}

// isDense says whether strides are those of a dense row-major array; strides of dimensions of
// size 1 do not matter.
func isDense(s shape.Shape, strides []int64) bool {
	if len(strides) != len(s.Dims) {
		return false
	}
	expected := s.Dtype.Size()
	for i := len(strides) - 1; i >= 0; i-- {
		if s.Dims[i] != 1 && strides[i] != expected {
			return s.NumElements() == 0
		}
		expected *= s.Dims[i]
	}
	return true
}

// TransferShardsToDevice uploads shard i to the device named by source i, which must be the local
// devices in their order.
func (c *Client) TransferShardsToDevice(sources []client.TensorSource, name string, s shape.Shape, sharding *client.Sharding) (client.Data, error) {
	shards, err := c.TransferToDevice(sources)
	if err != nil {
		return nil, err
	}
	d, err := c.WrapDataShards(shards, name, s, sharding)
	for _, shard := range shards {
		shard.Close()
	}
	if err != nil {
		return nil, status.Annotate(err, "TransferShardsToDevice()")
	}
	return d, nil
}

// ReshardData gives the data laid out by other shardings; equal ones are returned as they are.
func (c *Client) ReshardData(list []client.Data, shardings []*client.Sharding) ([]client.Data, error) {
	if len(list) != len(shardings) {
		return nil, status.Errorf(status.InvalidArgument, "ReshardData(): expected a sharding for each of %d data, got %d", len(list), len(shardings))
	}
	for i, d := range list {
		if !equalShardings(d.Sharding(), shardings[i]) {
			return nil, status.Errorf(status.Unimplemented, "ReshardData(): changing the sharding of %s is not supported yet", d)
		}
	}
	return list, nil
}

// CopyToDevice copies to another device, without going through the host. On the same device the
// memory is shared.
func (c *Client) CopyToDevice(d client.Data, name string) (client.Data, error) {
	to, err := c.addressable(name)
	if err != nil {
		return nil, status.Annotate(err, "CopyToDevice()")
	}
	mine, m, err := c.single(d)
	if err != nil {
		return nil, status.Annotate(err, "CopyToDevice()")
	}
	if m.device == to {
		copied := &data{client: c, name: to.name, shape: mine.shape}
		copied.memory.Store(m) // the hold goes to the copy
		return copied, nil
	}
	defer m.release()
	b, err := m.buffer.CopyTo(to.pjrt)
	if err != nil {
		return nil, status.Annotate(mine.explain(m, err), "CopyToDevice()")
	}
	createDataHandles.Add(1)
	return c.newData(b, to, mine.shape), nil
}

// single takes a hold on data that is not sharded.
func (c *Client) single(d client.Data) (*data, *memory, error) {
	mine, err := c.own(d)
	if err != nil {
		return nil, nil, err
	}
	m, err := mine.hold()
	if err != nil {
		return nil, nil, err
	}
	if m.buffer == nil {
		m.release()
		return nil, nil, status.Errorf(status.InvalidArgument, "expected data on one device, got %s: take its shards", mine)
	}
	return mine, m, nil
}

// explain replaces a plugin's error about a donated buffer by ours, and leaves others.
func (d *data) explain(m *memory, err error) error {
	if err != nil && !m.alive() {
		return d.gone()
	}
	return err
}

// parallelDownloads bounds how many copies from a device's own memory go on at once.
const parallelDownloads = 8

// TransferFromDevice waits for the values and copies them to the host. BLOCKING.
func (c *Client) TransferFromDevice(list []client.Data) ([]client.Literal, error) {
	start := time.Now()
	result, errs := make([]client.Literal, len(list)), make([]error, len(list))
	fetch := func(i int) {
		mine, err := c.own(list[i])
		if err == nil {
			result[i], err = c.download(mine)
		}
		errs[i] = err
	}
	if c.onHost || len(list) < 2 { // a copy within host memory gains nothing from a thread
		for i := range list {
			fetch(i)
		}
	} else {
		var group sync.WaitGroup
		slots := make(chan struct{}, parallelDownloads)
		for i := range list {
			slots <- struct{}{}
			group.Go(func() { fetch(i); <-slots })
		}
		group.Wait()
	}
	var bytes int64
	for i, err := range errs {
		if err != nil {
			return nil, status.Annotate(err, "TransferFromDevice(): array %d", i)
		}
		bytes += int64(len(result[i].Bytes))
	}
	inboundData.Observe(float64(bytes))
	transferFromDeviceTime.Observe(time.Since(start))
	return result, nil
}

func (c *Client) download(d *data) (client.Literal, error) {
	m, err := d.hold()
	if err != nil {
		return client.Literal{}, err
	}
	defer m.release()
	if m.buffer == nil {
		bytes, err := c.assemble(d, m)
		return client.Literal{Shape: d.shape, Bytes: bytes}, d.explain(m, err)
	}
	bytes := make([]byte, d.shape.ByteSize())
	if err := c.readBuffer(m, bytes, d.shape.Rank()); err != nil {
		return client.Literal{}, d.explain(m, err)
	}
	return client.Literal{Shape: d.shape, Bytes: bytes}, nil
}

// readBuffer copies one buffer's value to the host. BLOCKING.
func (c *Client) readBuffer(m *memory, into []byte, rank int) error {
	if !c.onHost || !c.isRowMajor(m) {
		return m.buffer.ToHost(into, rank)
	}
	return m.buffer.Read(into)
}

// lend waits for the value and takes an external reference. BLOCKING.
func lend(b *pjrt.Buffer) (uintptr, error) {
	address, ready, err := b.Lend()
	if ready || err != nil {
		return address, err
	}
	if err := b.Await(); err != nil {
		return 0, err
	}
	address, _, err = b.Lend()
	return address, err
}

// isRowMajor says whether the memory of one buffer is dense and row-major; false where unknown.
func (c *Client) isRowMajor(m *memory) bool {
	learned := &m.rowMajor
	if m.learned != nil {
		learned = m.learned
	}
	if known := learned.Load(); known != layoutUnknown {
		return known == layoutRowMajor
	}
	layout := layoutOther
	if rowMajor, known := m.buffer.IsRowMajor(); known && rowMajor {
		layout = layoutRowMajor
	}
	learned.Store(layout)
	return layout == layoutRowMajor
}
