package pjrt

import (
	"bytes"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
)

func upload(t testing.TB, c *Client, host Host) *Buffer {
	t.Helper()
	b, err := c.FromHost(host, c.AddressableDevices()[0], nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func bytesTo(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i)
	}
	return b
}

func TestBufferTellsWhatItIs(t *testing.T) {
	c := testClient(t)
	b := upload(t, c, Host{Bytes: bytesTo(48), Dtype: dtype.F32, Dims: []int64{3, 4}})
	if err := b.Await(); err != nil {
		t.Fatal(err)
	}
	if ready, err := b.IsReady(); !ready || err != nil {
		t.Errorf("after Await: ready %v, %v", ready, err)
	}
	if s, err := b.Shape(); err != nil || !s.Equal(shape.Make(dtype.F32, 3, 4)) {
		t.Errorf("shape %v, %v", s, err)
	}
	if n, err := b.OnDeviceSize(); err != nil || n < 48 {
		t.Errorf("%d bytes on the device, %v", n, err)
	}
	if d, err := b.Device(); err != nil || d != c.AddressableDevices()[0] {
		t.Errorf("device %v, %v", d, err)
	}
	if b.Memory() == nil || b.Memory() != c.AddressableDevices()[0].DefaultMemory() {
		t.Errorf("memory %v", b.Memory())
	}
	if rowMajor, known := b.IsRowMajor(); known && !rowMajor {
		t.Error("an upload without a layout is not row-major on a CPU")
	}
	got := make([]byte, 48)
	if err := b.ToHost(got, 2); err != nil || !bytes.Equal(got, bytesTo(48)) {
		t.Errorf("read back % x, %v", got, err)
	}
	address, err := b.UnsafePointer()
	if err != nil || address == 0 {
		t.Fatalf("address %#x, %v", address, err)
	}
	ReadAddress(address, got)
	if !bytes.Equal(got, bytesTo(48)) {
		t.Errorf("read by address % x", got)
	}
	if b.IsDeleted() {
		t.Error("deleted before Delete")
	}
	if err := b.Delete(); err != nil || !b.IsDeleted() {
		t.Errorf("not deleted: %v", err)
	}
	for range 2 {
		if err := b.Destroy(); err != nil {
			t.Error(err)
		}
	}
	if _, err := b.Shape(); status.CodeOf(err) != status.FailedPrecondition {
		t.Errorf("Shape of a destroyed buffer: %v", err)
	}
}

// Strides of a permutation are the plugin's work, others ours.
func TestStridesOfUploads(t *testing.T) {
	c := testClient(t)
	for _, test := range []struct {
		name    string
		dims    []int64
		strides []int64
		want    []byte
	}{
		{"transposed", []int64{4, 3}, []int64{1, 4}, []byte{0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11}},
		{"three dimensions", []int64{2, 3, 2}, []int64{1, 4, 2}, []byte{0, 2, 4, 6, 8, 10, 1, 3, 5, 7, 9, 11}},
	} {
		host := Host{Bytes: bytesTo(12), Dtype: dtype.U8, Dims: test.dims, ByteStrides: test.strides}
		b := upload(t, c, host)
		got := make([]byte, 12)
		if err := b.ToHost(got, len(test.dims)); err != nil || !bytes.Equal(got, test.want) {
			t.Errorf("%s by the plugin: %v, %v, want %v", test.name, got, err, test.want)
		}
		b.Destroy()
		if got, err := Pack(host); err != nil || !bytes.Equal(got, test.want) {
			t.Errorf("%s packed: %v, %v, want %v", test.name, got, err, test.want)
		}
	}
}

func TestLendKeepsFromDonation(t *testing.T) {
	c := testClient(t)
	b := upload(t, c, Host{Bytes: bytesTo(4), Dtype: dtype.F32})
	defer b.Destroy()
	b.Await()
	for range 2 {
		if _, ready, err := b.Lend(); !ready || err != nil {
			t.Fatalf("Lend: %v, %v", ready, err)
		}
	}
	for range 2 {
		if err := b.Return(); err != nil {
			t.Error(err)
		}
	}
}

func TestEvents(t *testing.T) {
	c := testClient(t)
	b := upload(t, c, Host{Bytes: bytesTo(4), Dtype: dtype.F32})
	defer b.Destroy()
	e, err := b.ReadyEvent()
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Await(); err != nil {
		t.Error(err)
	}
	if ready, err := e.IsReady(); !ready || err != nil {
		t.Errorf("ready %v, %v", ready, err)
	}
	if err := e.Error(); err != nil {
		t.Error(err)
	}
	var calls atomic.Int32
	done := make(chan error, 1)
	if err := e.OnReady(func(err error) { calls.Add(1); e.Destroy(); done <- err }); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil || calls.Load() != 1 {
		t.Errorf("called %d times, %v", calls.Load(), err)
	}
	if _, err := e.IsReady(); status.CodeOf(err) != status.FailedPrecondition {
		t.Errorf("IsReady of a destroyed event: %v", err)
	}
}

func TestForgottenBuffersAreSwept(t *testing.T) {
	c := testClient(t)
	func() {
		for range 40 {
			upload(t, c, Host{Bytes: bytesTo(4), Dtype: dtype.F32})
		}
	}()
	for deadline := time.Now().Add(20 * time.Second); LiveBuffers() != 0 && time.Now().Before(deadline); {
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
	if n := LiveBuffers(); n != 0 {
		t.Errorf("%d forgotten buffers are alive", n)
	}
}

func TestDestroyAll(t *testing.T) {
	c := testClient(t)
	list := make([]*Buffer, 50)
	for i := range list {
		list[i] = upload(t, c, Host{Bytes: bytesTo(4), Dtype: dtype.F32})
	}
	if err := c.Close(); status.CodeOf(err) != status.FailedPrecondition {
		t.Errorf("Close with buffers alive: %v", err)
	}
	list[7].Destroy()
	if err := DestroyAll(list); err != nil {
		t.Error(err)
	}
	if err := DestroyAll(list); err != nil {
		t.Error(err)
	}
}

func TestPack(t *testing.T) {
	source := bytesTo(12)
	for _, test := range []struct {
		name          string
		dims, strides []int64
		want          []byte
	}{
		{"scalar", nil, nil, []byte{0, 1}},
		{"broadcast", []int64{2, 2}, []int64{0, 2}, []byte{0, 1, 2, 3, 0, 1, 2, 3}},
		{"gaps", []int64{3}, []int64{4}, []byte{0, 1, 4, 5, 8, 9}},
		{"empty", []int64{0, 5}, []int64{1000, 1}, nil},
	} {
		got, err := Pack(Host{Bytes: source, Dtype: dtype.S16, Dims: test.dims, ByteStrides: test.strides})
		if err != nil || !bytes.Equal(got, test.want) {
			t.Errorf("%s: %v, %v, want %v", test.name, got, err, test.want)
		}
	}
	for _, strides := range [][]int64{{6}, {-2}} {
		if _, err := Pack(Host{Bytes: source, Dtype: dtype.S16, Dims: []int64{3}, ByteStrides: strides}); status.CodeOf(err) != status.InvalidArgument {
			t.Errorf("strides %v that leave the source: %v", strides, err)
		}
	}
}
