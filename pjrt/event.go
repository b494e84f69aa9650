package pjrt

// #include "calls.h"
import "C"

import (
	"context"
	"runtime"
	"runtime/cgo"
	"sync"
	"sync/atomic"
	"unsafe"

	"xla_go/gosrc/status"
)

// Event is something that will have happened: a value made, a copy done, a run finished.
type Event struct {
	plugin *Plugin
	cell   *eventCell
}

// eventCell lies apart from the event, so that the net can reach it.
type eventCell struct {
	handle unsafe.Pointer // the plugin's event, nil once destroyed
	more   *eventExtra    // nil for most
}

// eventExtra is what few events need.
type eventExtra struct {
	destroyed func()      // called when it is destroyed; nil for nothing
	guard     *sync.Mutex // where it may be set while it is destroyed; else nil
}

func (p *Plugin) newEvent(handle *C.PJRT_Event) *Event {
	liveEvents.Add(1)
	cell := &eventCell{handle: unsafe.Pointer(handle)}
	e := &Event{plugin: p, cell: cell}
	runtime.AddCleanup(e, func(cell *eventCell) { destroyEvent(p, cell) }, cell)
	return e
}

func destroyEvent(p *Plugin, cell *eventCell) error {
	if more := cell.more; more != nil && more.guard != nil {
		more.guard.Lock()
		defer more.guard.Unlock()
	}
	h := atomic.SwapPointer(&cell.handle, nil)
	if h == nil {
		return nil
	}
	liveEvents.Add(-1)
	err := p.check(C.xg_event_destroy(p.api, (*C.PJRT_Event)(h)))
	if cell.more != nil && cell.more.destroyed != nil {
		cell.more.destroyed()
	}
	return err
}

// whenDestroyed calls fn when the event, which nobody else has yet, is destroyed.
func (e *Event) whenDestroyed(fn func()) { e.cell.more = &eventExtra{destroyed: fn} }

func (e *Event) handle() (*C.PJRT_Event, error) {
	h := atomic.LoadPointer(&e.cell.handle)
	if h == nil {
		return nil, status.Errorf(status.FailedPrecondition, "the event has been destroyed")
	}
	return (*C.PJRT_Event)(h), nil
}

// IsReady says whether it has happened, well or with an error. Not blocking.
func (e *Event) IsReady() (bool, error) {
	h, err := e.handle()
	if err != nil {
		return false, err
	}
	args := C.PJRT_Event_IsReady_Args{struct_size: C.S_PJRT_Event_IsReady_Args, event: h}
	err = e.plugin.call(C.FN_Event_IsReady, unsafe.Pointer(&args))
	runtime.KeepAlive(e)
	return bool(args.is_ready), err
}

// Await waits and gives the error that it ended with. BLOCKING: it holds an OS thread.
func (e *Event) Await() error {
	h, err := e.handle()
	if err != nil {
		return err
	}
	err = e.plugin.check(C.xg_event_await(e.plugin.api, h))
	runtime.KeepAlive(e)
	return err
}

// AwaitContext is Await that holds no OS thread and gives up when ctx does: DeadlineExceeded or
// Cancelled then, and what the event stands for goes on. BLOCKING.
func (e *Event) AwaitContext(ctx context.Context) error {
	outcome := make(chan error, 1)
	if err := e.OnReady(func(err error) { outcome <- err }); err != nil {
		return err
	}
	return awaitOutcome(ctx, outcome)
}

func awaitOutcome(ctx context.Context, outcome <-chan error) error {
	select {
	case err := <-outcome:
		return err
	case <-ctx.Done():
	}
	select { // what came in time counts
	case err := <-outcome:
		return err
	default:
	}
	if ctx.Err() == context.Canceled {
		return status.Errorf(status.Cancelled, "the wait for the device was cancelled")
	}
	return status.Errorf(status.DeadlineExceeded, "the device did not finish in time")
}

// CreateEvent makes an event that the caller sets; Unimplemented before API 0.89.
func (p *Plugin) CreateEvent() (*Event, error) {
	args := C.PJRT_Event_Create_Args{struct_size: C.S_PJRT_Event_Create_Args}
	if err := p.call(C.FN_Event_Create, unsafe.Pointer(&args)); err != nil {
		return nil, err
	}
	return p.newEvent(args.event), nil
}

// Set ends an event of CreateEvent, with nil for success. Once only.
func (e *Event) Set(outcome error) error {
	if more := e.cell.more; more != nil && more.guard != nil {
		more.guard.Lock()
		defer more.guard.Unlock()
	}
	h, err := e.handle()
	if err != nil {
		return err
	}
	var pinner runtime.Pinner
	defer pinner.Unpin()
	message := status.MessageOf(outcome)
	args := C.PJRT_Event_Set_Args{struct_size: C.S_PJRT_Event_Set_Args, event: h, error_code: C.int(status.CodeOf(outcome))}
	args.error_message, args.error_message_size = pinString(message, &pinner), C.size_t(len(message))
	err = e.plugin.call(C.FN_Event_Set, unsafe.Pointer(&args))
	runtime.KeepAlive(e)
	return err
}

// whenDone calls done once with the outcome of event, which it destroys; NULL means that all is done.
func (p *Plugin) whenDone(event *C.PJRT_Event, done func(error)) {
	if event == nil {
		done(nil)
		return
	}
	e := p.newEvent(event)
	if err := e.OnReady(func(err error) { e.Destroy(); done(err) }); err != nil {
		// It cannot be watched, so it is waited for: what it stands for may still use memory. Not
		// here, because it may be the caller who has to make it happen.
		go func() {
			if failure := e.Await(); failure != nil {
				err = failure
			}
			e.Destroy()
			done(err)
		}()
	}
}

// Error gives the error that it ended with. Only to be called once IsReady is true.
func (e *Event) Error() error {
	h, err := e.handle()
	if err != nil {
		return err
	}
	args := C.PJRT_Event_Error_Args{struct_size: C.S_PJRT_Event_Error_Args, event: h}
	err = e.plugin.call(C.FN_Event_Error, unsafe.Pointer(&args))
	runtime.KeepAlive(e)
	return err
}

// OnReady calls fn once with the error that it ended with. Not blocking. fn runs on a thread of
// the plugin, or at once on the caller's where it has already happened: it must not block and must
// not call the plugin for more than destroying this event, which it may.
func (e *Event) OnReady(fn func(err error)) error {
	h, err := e.handle()
	if err != nil {
		return err
	}
	callback := cgo.NewHandle(&readyCallback{e.plugin, fn})
	liveCallbacks.Add(1)
	if err := e.plugin.check(C.xg_event_on_ready(e.plugin.api, h, C.uintptr_t(callback))); err != nil {
		callback.Delete()
		liveCallbacks.Add(-1)
		return err
	}
	runtime.KeepAlive(e)
	return nil
}

// Destroy frees the event. Idempotent. Callbacks that were registered still come.
func (e *Event) Destroy() error { return destroyEvent(e.plugin, e.cell) }

type readyCallback struct {
	plugin *Plugin
	fn     func(error)
}
