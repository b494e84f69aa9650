package pjrtclient

import (
	"sync"

	"xla_go/pjrt"
)

// operations counts the work in flight on one device.
type operations struct {
	mutex    sync.Mutex
	inFlight int
	idle     chan struct{} // closed when inFlight falls to 0; nil where nobody waits
}

func (o *operations) start() {
	o.mutex.Lock()
	o.inFlight++
	o.mutex.Unlock()
}

func (o *operations) finish() {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if o.inFlight--; o.inFlight == 0 && o.idle != nil {
		close(o.idle)
		o.idle = nil
	}
}

// wait blocks until nothing is in flight. Work may be added meanwhile; it is waited for as well.
func (o *operations) wait() {
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

// watch calls finished once event has happened and destroys it; nil has happened already.
func watch(event *pjrt.Event, finished func(error)) {
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

// WaitDeviceOps waits for all queued work of the devices, none named meaning all local ones and
// the virtual device. BLOCKING.
func (c *Client) WaitDeviceOps(devices []string) error {
	if len(devices) == 0 {
		devices = append(c.GetLocalDevices(), SPMDDevice)
	}
	for _, name := range devices {
		if name == SPMDDevice {
			c.sharded.wait()
			continue
		}
		d, err := c.lookup(name)
		if err != nil {
			return err
		}
		d.work.wait()
	}
	return nil
}
