package platform

import (
	"sync"
	"sync/atomic"
	"time"

	"xla_go/gosrc/client"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
	"xla_go/pjrt"
)

// parallelDownloads bounds how many copies from a device's own memory go on at once.
const parallelDownloads = 8

// DownloadAll fetches n values into literals, several at once where that helps. BLOCKING.
func (p *Platform) DownloadAll(n int, fetch func(i int) (client.Literal, error)) ([]client.Literal, error) {
	start := time.Now()
	result, errs := make([]client.Literal, n), make([]error, n)
	if p.OnHost || n < 2 { // a copy within host memory gains nothing from a thread
		for i := range n {
			result[i], errs[i] = fetch(i)
		}
	} else {
		var group sync.WaitGroup
		slots := make(chan struct{}, parallelDownloads)
		for i := range n {
			slots <- struct{}{}
			group.Go(func() { result[i], errs[i] = fetch(i); <-slots })
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

// DownloadInto fetches a value of shape s into destination, which must have its size. BLOCKING.
func (p *Platform) DownloadInto(s shape.Shape, destination []byte, fetch func() error) error {
	start := time.Now()
	if int64(len(destination)) != s.ByteSize() {
		return status.Errorf(status.InvalidArgument, "TransferFromDeviceInto(): expected memory of %d bytes for %s, got %d", s.ByteSize(), s, len(destination))
	}
	if err := fetch(); err != nil {
		return status.Annotate(err, "TransferFromDeviceInto()")
	}
	inboundData.Observe(float64(len(destination)))
	transferFromDeviceTime.Observe(time.Since(start))
	return nil
}

// Read copies one buffer's value to the host. BLOCKING.
func (p *Platform) Read(b *pjrt.Buffer, layout *Layout, into []byte, rank int) error {
	if p.OnHost && layout.IsRowMajor(b) {
		return b.Read(into)
	}
	if err := b.Await(); err != nil { // the plugin would hold a thread for all that time
		return err
	}
	return b.ToHost(into, rank)
}

// largeDownload is the size from which memory for a value is taken only once the value is there.
const largeDownload = 1 << 20

// AwaitLarge waits for a value that would take that many bytes of host memory, if they are many. BLOCKING.
func AwaitLarge(b *pjrt.Buffer, bytes int64) error {
	if bytes < largeDownload {
		return nil
	}
	return b.Await()
}

// Lend waits for the value and takes an external reference. BLOCKING.
func Lend(b *pjrt.Buffer) (uintptr, error) {
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

// IsHostAddressable says whether the CPU may read a buffer's memory by address.
func (p *Platform) IsHostAddressable(b *pjrt.Buffer) bool {
	if p.OnHost {
		return true
	}
	kind := b.Memory()
	return kind != nil && kind.IsHost()
}

const (
	layoutUnknown int32 = iota
	layoutRowMajor
	layoutOther
)

// Layout remembers whether a value is dense and row-major, once the plugin was asked. Values of one
// program's output share one.
type Layout struct{ known atomic.Int32 }

// IsRowMajor says whether the memory of b is dense and row-major; false where unknown.
func (l *Layout) IsRowMajor(b *pjrt.Buffer) bool {
	if known := l.known.Load(); known != layoutUnknown {
		return known == layoutRowMajor
	}
	layout := layoutOther
	if rowMajor, known := b.IsRowMajor(); known && rowMajor {
		layout = layoutRowMajor
	}
	l.known.Store(layout)
	return layout == layoutRowMajor
}
