package pjrt

import (
	"runtime"
	"sync/atomic"
	"unsafe"

	"xla_go/gosrc/status"
)

// object is a handle of the plugin with an idempotent end.
type object struct {
	plugin *Plugin
	core   *objectCore
}

// objectCore lies apart from the object that embeds it, so that the net can reach it.
type objectCore struct {
	handle unsafe.Pointer // nil once destroyed
	end    func(unsafe.Pointer) error
}

// hold gives o the handle and, as a net, frees it when owner is forgotten. end must not refer to
// owner; nil for what somebody else owns.
func hold[Owner any](owner *Owner, o *object, p *Plugin, handle unsafe.Pointer, end func(unsafe.Pointer) error) {
	o.plugin, o.core = p, &objectCore{handle: handle, end: end}
	if end == nil {
		return
	}
	liveOthers.Add(1)
	runtime.AddCleanup(owner, func(core *objectCore) { _ = core.close() }, o.core)
}

func (c *objectCore) close() error {
	h := atomic.SwapPointer(&c.handle, nil)
	if h == nil || c.end == nil {
		return nil
	}
	liveOthers.Add(-1)
	return c.end(h)
}

// get gives the handle, an error once destroyed.
func (o *object) get() (unsafe.Pointer, error) {
	h := atomic.LoadPointer(&o.core.handle)
	if h == nil {
		return nil, status.Errorf(status.FailedPrecondition, "the object has been destroyed")
	}
	return h, nil
}

// Destroy frees it. Idempotent.
func (o *object) Destroy() error { return o.core.close() }
