package platform

import (
	"math/bits"
	"os"
	"slices"
	"sync"
	"time"

	"xla_go/gosrc/metrics"
	"xla_go/pjrt"
)

const (
	// idleLimit bounds the memory that lies ready for the next upload; what comes back beyond it takes the place of
	// what has lain longest.
	idleLimit = 1 << 30
	// idleTime is how long memory lies ready before it goes back to the system.
	idleTime = 10 * time.Second
)

var (
	hostPoolReused = metrics.Counter("HostPoolReused")
	hostPoolMapped = metrics.Counter("HostPoolMapped")
	hostPoolFreed  = metrics.Counter("HostPoolFreed")
)

// hostPool lends host memory for uploads and keeps what comes back for the next one: writing to memory that the
// system has just mapped costs several times the copy. Its memory may outlive every client, because only the
// plugin knows when it no longer needs what it was given.
type hostPool struct {
	idleLimit int64
	idleTime  time.Duration

	mutex   sync.Mutex
	idle    map[int64][]idleMemory // by size, what came back last at the end
	bytes   int64                  // of idle
	lent    int64                  // bytes
	watched bool                   // tick is to come
}

type idleMemory struct {
	memory *pjrt.HostMemory
	since  time.Time
}

var uploads = newHostPool(idleLimit, idleTime)

func newHostPool(limit int64, idle time.Duration) *hostPool {
	return &hostPool{idleLimit: limit, idleTime: idle, idle: map[int64][]idleMemory{}}
}

// HostPoolBytes gives the bytes of host memory that devices hold for uploaded values, and those that lie ready.
func HostPoolBytes() (lent, idle int64) {
	uploads.mutex.Lock()
	defer uploads.mutex.Unlock()
	return uploads.lent, uploads.bytes
}

// roundedSize gives the size that memory for size bytes is made with: one of 8 steps between powers of two, so
// that values of nearly equal size share memory. What is left over at the end is never touched.
func roundedSize(size int64) int64 {
	step := max(int64(1)<<max(bits.Len64(uint64(size-1))-4, 0), int64(os.Getpagesize()))
	return (size + step - 1) / step * step
}

// take lends at least size bytes, warm ones where there are some. ResourceExhausted where there is no memory.
func (p *hostPool) take(size int64) (*pjrt.HostMemory, error) {
	class := roundedSize(size)
	p.mutex.Lock()
	if list := p.idle[class]; len(list) > 0 {
		last := len(list) - 1
		m := list[last].memory
		list[last] = idleMemory{}
		p.idle[class] = list[:last]
		p.bytes -= int64(len(m.Bytes))
		p.lent += int64(len(m.Bytes))
		p.mutex.Unlock()
		hostPoolReused.Add(1)
		return m, nil
	}
	p.mutex.Unlock()
	m, err := pjrt.NewHostMemory(class)
	if err != nil {
		p.trim(0) // what lies idle may be what is lacking
		if m, err = pjrt.NewHostMemory(class); err != nil {
			return nil, err
		}
	}
	hostPoolMapped.Add(1)
	p.mutex.Lock()
	p.lent += int64(len(m.Bytes))
	p.mutex.Unlock()
	return m, nil
}

// give takes memory of take back. Not blocking: it is called on threads of the plugin.
func (p *hostPool) give(m *pjrt.HostMemory) {
	size := int64(len(m.Bytes))
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.lent -= size
	p.bytes += size
	p.idle[size] = append(p.idle[size], idleMemory{m, time.Now()})
	if p.bytes > p.idleLimit {
		go p.trim(p.idleTime)
	}
	if !p.watched {
		p.watched = true
		time.AfterFunc(p.idleTime, p.tick)
	}
}

// tick gives back what has lain long enough, and comes again while anything lies.
func (p *hostPool) tick() {
	p.trim(p.idleTime)
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.watched = p.bytes > 0; p.watched {
		time.AfterFunc(p.idleTime/2, p.tick)
	}
}

// trim gives back to the system what has lain for an age, and what is beyond the limit. It may take as long as
// memory takes to unmap.
func (p *hostPool) trim(age time.Duration) {
	for _, m := range p.old(time.Now().Add(-age)) {
		m.Free()
		hostPoolFreed.Add(1)
	}
}

// old takes out what has lain since before a time, and what is beyond the limit.
func (p *hostPool) old(before time.Time) []*pjrt.HostMemory {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	var all []idleMemory
	for _, list := range p.idle {
		all = append(all, list...)
	}
	slices.SortStableFunc(all, func(a, b idleMemory) int { return a.since.Compare(b.since) })
	var found []*pjrt.HostMemory
	for _, oldest := range all {
		if oldest.since.After(before) && p.bytes <= p.idleLimit {
			break
		}
		size := int64(len(oldest.memory.Bytes))
		p.bytes -= size
		if p.idle[size] = p.idle[size][1:]; len(p.idle[size]) == 0 {
			delete(p.idle, size)
		}
		found = append(found, oldest.memory)
	}
	return found
}
