package pjrt

// #include <stdlib.h>
// #include "host_transfer.h"
import "C"

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"xla_go/gosrc/status"
)

// Send takes what a program sends to the host on a channel.
type Send struct {
	Channel int64
	// Take gets the next bytes of total; last says that nothing comes after them. The bytes are the
	// plugin's and gone when it returns. An error fails the run. It is called on a thread of the plugin,
	// on which the run waits.
	Take func(chunk []byte, total int64, last bool) error
}

// Receive gives a program what it receives from the host on a channel.
type Receive struct {
	Channel int64
	// Give gets the stream to fill, which it owns and destroys, then or later. It is called on a thread of
	// the plugin or in Execute, and must not block.
	Give func(stream *CopyToDeviceStream)
}

// hostTransfers are the sends and receives of runs that are not over, by the number that the plugin
// holds. Numbers are not used again, so that a plugin that calls too late finds nothing.
var hostTransfers struct {
	sync.Mutex
	last uintptr
	open map[uintptr]hostTransfer
}

type hostTransfer struct {
	plugin *Plugin
	take   func(chunk []byte, total int64, last bool) error
	give   func(stream *CopyToDeviceStream)
}

// openTransfers gives the sends and receives of a run on n devices numbers and lays them out for C.
func (p *Plugin) openTransfers(n int, toHost []Send, fromHost []Receive, pinner *runtime.Pinner) (*C.xg_host_transfers, []uintptr, error) {
	if len(toHost)%n != 0 || len(fromHost)%n != 0 {
		return nil, nil, status.Errorf(status.InvalidArgument, "Execute(): expected sends and receives for each of %d devices, got %d and %d", n, len(toHost), len(fromHost))
	}
	sends, receives := len(toHost)/n, len(fromHost)/n
	channels, ids := make([]int64, 0, n*(sends+receives)), make([]uintptr, 0, n*(sends+receives))
	hostTransfers.Lock()
	defer hostTransfers.Unlock()
	if hostTransfers.open == nil {
		hostTransfers.open = map[uintptr]hostTransfer{}
	}
	add := func(channel int64, t hostTransfer) {
		hostTransfers.last++
		hostTransfers.open[hostTransfers.last] = t
		channels, ids = append(channels, channel), append(ids, hostTransfers.last)
	}
	for d := range n {
		for _, s := range toHost[d*sends : (d+1)*sends] {
			add(s.Channel, hostTransfer{plugin: p, take: s.Take})
		}
		for _, r := range fromHost[d*receives : (d+1)*receives] {
			add(r.Channel, hostTransfer{plugin: p, give: r.Give})
		}
	}
	liveCallbacks.Add(int64(len(ids)))
	pinner.Pin(&channels[0])
	pinner.Pin(&ids[0])
	return &C.xg_host_transfers{num_sends: C.size_t(sends), num_receives: C.size_t(receives), channels: (*C.int64_t)(&channels[0]), ids: (*C.uintptr_t)(unsafe.Pointer(&ids[0]))}, ids, nil
}

func closeTransfers(ids []uintptr) {
	hostTransfers.Lock()
	defer hostTransfers.Unlock()
	for _, id := range ids {
		delete(hostTransfers.open, id)
	}
	liveCallbacks.Add(-int64(len(ids)))
}

// closeTransfersAfter closes them when all devices have finished.
func closeTransfersAfter(events []*Event, ids []uintptr) {
	left := new(atomic.Int64)
	left.Store(1)
	one := func() {
		if left.Add(-1) == 0 {
			closeTransfers(ids)
		}
	}
	for _, e := range events {
		if e == nil {
			continue
		}
		left.Add(1)
		if err := e.OnReady(func(error) { one() }); err != nil {
			e.whenDestroyed(one) // it cannot be watched: as long as it is there, the run may go on
		}
	}
	one()
}

func findTransfer(id C.uintptr_t) (hostTransfer, bool) {
	hostTransfers.Lock()
	defer hostTransfers.Unlock()
	t, found := hostTransfers.open[uintptr(id)]
	return t, found
}

// xgSent is called by host_transfer.c on a thread of the plugin.
//
//export xgSent
func xgSent(id C.uintptr_t, data unsafe.Pointer, size, total C.size_t, last C.bool, outcome *C.xg_outcome) {
	err := func() (err error) {
		defer func() { // nothing may be thrown through the plugin
			if cause := recover(); cause != nil {
				err = status.Errorf(status.Internal, "panic in what takes a transfer from the device: %s", fmt.Sprint(cause))
			}
		}()
		t, found := findTransfer(id)
		if !found {
			return status.Errorf(status.FailedPrecondition, "the run that this transfer belongs to is over")
		}
		return t.take(unsafe.Slice((*byte)(data), int(size)), int64(total), bool(last))
	}()
	if err != nil {
		outcome.code = C.int(status.CodeOf(err))
		outcome.message, outcome.message_size = copyToC([]byte(status.MessageOf(err)))
	}
}

// xgReceiving is called by host_transfer.c on a thread of the plugin, or while Execute is called.
//
//export xgReceiving
func xgReceiving(id C.uintptr_t, stream *C.PJRT_CopyToDeviceStream) {
	t, found := findTransfer(id)
	if !found || stream == nil {
		return
	}
	s := t.plugin.newCopyToDeviceStream(stream)
	defer func() {
		if recover() != nil {
			_ = s.Destroy() // an end before all is there fails the run
		}
	}()
	t.give(s)
}

// CopyToDeviceStream is a value that a running program receives from the host, in chunks.
type CopyToDeviceStream struct{ object }

func (p *Plugin) newCopyToDeviceStream(handle *C.PJRT_CopyToDeviceStream) *CopyToDeviceStream {
	s := new(CopyToDeviceStream)
	hold(s, &s.object, p, unsafe.Pointer(handle), func(h unsafe.Pointer) error {
		args := C.PJRT_CopyToDeviceStream_Destroy_Args{struct_size: C.S_PJRT_CopyToDeviceStream_Destroy_Args, stream: (*C.PJRT_CopyToDeviceStream)(h)}
		return p.call(C.FN_CopyToDeviceStream_Destroy, unsafe.Pointer(&args))
	})
	return s
}

func (s *CopyToDeviceStream) stream() (*C.PJRT_CopyToDeviceStream, error) {
	h, err := s.get()
	return (*C.PJRT_CopyToDeviceStream)(h), err
}

// AddChunk queues the next bytes of the value, a multiple of GranuleSize, copying them. done is called
// once, from any thread, when the device has them, with the error that it ended with: OutOfRange or
// another where they are more than is missing. If AddChunk itself fails done is not called. Not blocking.
func (s *CopyToDeviceStream) AddChunk(data []byte, done func(error)) error {
	h, err := s.stream()
	if err != nil {
		return err
	}
	var event *C.PJRT_Event
	err = s.plugin.check(C.xg_add_chunk(s.plugin.api, h, unsafe.Pointer(unsafe.SliceData(data)), C.size_t(len(data)), &event))
	runtime.KeepAlive(s)
	if err != nil {
		return err
	}
	s.plugin.whenDone(event, done)
	return nil
}

// TotalBytes is the size of the value.
func (s *CopyToDeviceStream) TotalBytes() (int64, error) {
	h, err := s.stream()
	if err != nil {
		return 0, err
	}
	args := C.PJRT_CopyToDeviceStream_TotalBytes_Args{struct_size: C.S_PJRT_CopyToDeviceStream_TotalBytes_Args, stream: h}
	err = s.plugin.call(C.FN_CopyToDeviceStream_TotalBytes, unsafe.Pointer(&args))
	runtime.KeepAlive(s)
	return int64(args.total_bytes), err
}

// GranuleSize is what the size of each chunk must be a multiple of, in bytes.
func (s *CopyToDeviceStream) GranuleSize() (int64, error) {
	h, err := s.stream()
	if err != nil {
		return 0, err
	}
	args := C.PJRT_CopyToDeviceStream_GranuleSize_Args{struct_size: C.S_PJRT_CopyToDeviceStream_GranuleSize_Args, stream: h}
	err = s.plugin.call(C.FN_CopyToDeviceStream_GranuleSize, unsafe.Pointer(&args))
	runtime.KeepAlive(s)
	return int64(args.granule_size_in_bytes), err
}

// CurrentBytes is how much of the value has been added so far.
func (s *CopyToDeviceStream) CurrentBytes() (int64, error) {
	h, err := s.stream()
	if err != nil {
		return 0, err
	}
	args := C.PJRT_CopyToDeviceStream_CurrentBytes_Args{struct_size: C.S_PJRT_CopyToDeviceStream_CurrentBytes_Args, stream: h}
	err = s.plugin.call(C.FN_CopyToDeviceStream_CurrentBytes, unsafe.Pointer(&args))
	runtime.KeepAlive(s)
	return int64(args.current_bytes), err
}
