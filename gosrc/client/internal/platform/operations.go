package platform

import (
	"sync"

	"xla_go/pjrt"
)

// Operations counts the work in flight on one device.
type Operations struct {
	mutex    sync.Mutex
	inFlight int
	idle     chan struct{} // closed when inFlight falls to 0; nil where nobody waits
}

// Start counts one more.
func (o *Operations) Start() {
	o.mutex.Lock()
	o.inFlight++
	o.mutex.Unlock()
}

// Finish counts one less.
func (o *Operations) Finish() {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if o.inFlight--; o.inFlight == 0 && o.idle != nil {
		close(o.idle)
		o.idle = nil
	}
}

// Wait blocks until nothing is in flight. Work may be added meanwhile; it is waited for as well.
func (o *Operations) Wait() {
	for {
		o.mutex.Lock()
		if o.inFlight == 0 {
			o.mutex.Unlock()
			return
		}
		if o.idle == nil {
			o.idle = make(chan struct{})
		}
		idle := o.idle
		o.mutex.Unlock()
		<-idle
	}
}

// Watch calls finished once event has happened and destroys it; nil has happened already.
func Watch(event *pjrt.Event, finished func(error)) {
	if event == nil {
		finished(nil)
		return
	}
	err := event.OnReady(func(err error) {
		event.Destroy()
		finished(err)
	})
	if err != nil { // the plugin cannot call back
		go func() {
			err := event.Await()
			event.Destroy()
			finished(err)
		}()
	}
}

// Track counts what makes a buffer, an upload or a copy, among the device's work until it is over.
func (d *Device) Track(b *pjrt.Buffer) {
	if ready, err := b.IsReady(); ready || err != nil {
		return
	}
	event, err := b.ReadyEvent()
	if err != nil {
		return // as a buffer whose state cannot be asked for
	}
	d.Work.Start()
	Watch(event, func(error) { d.Work.Finish() }) // the buffer carries the error
}

// WaitDeviceOps waits for all queued work of the devices, none named meaning all local ones and
// the virtual device. BLOCKING.
func (p *Platform) WaitDeviceOps(devices []string) error {
	if len(devices) == 0 {
		devices = append(p.GetLocalDevices(), SPMDDevice)
	}
	for _, name := range devices {
		if name == SPMDDevice {
			p.Sharded.Wait()
			continue
		}
		d, err := p.Lookup(name)
		if err != nil {
			return err
		}
		d.Work.Wait()
	}
	return nil
}
