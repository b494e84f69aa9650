package platform

import "sync/atomic"

// Footprint is the device memory of one buffer as its device's count of bytes in data has it: taken when the
// buffer is made, dropped when it is freed, consumed by a run, or turns out to have failed.
type Footprint struct{ bytes atomic.Int64 }

// Take counts bytes on a device. Once, before anyone else can see the footprint.
func (f *Footprint) Take(on *Device, bytes int64) {
	f.bytes.Store(bytes)
	now := on.dataBytes.Add(bytes)
	for peak := on.dataPeak.Load(); now > peak && !on.dataPeak.CompareAndSwap(peak, now); {
		peak = on.dataPeak.Load()
	}
}

// Drop takes the bytes off the count. Idempotent.
func (f *Footprint) Drop(on *Device) {
	if n := f.bytes.Swap(0); n != 0 {
		on.dataBytes.Add(-n)
	}
}

// Bytes are what is counted now.
func (f *Footprint) Bytes() int64 { return f.bytes.Load() }

// DataBytes are the bytes that open data of this client take on the device, runs under way included. Views of
// foreign memory do not count.
func (d *Device) DataBytes() int64 { return d.dataBytes.Load() }
