package bind

import (
	"sync"
	"time"

	"xla_go/gosrc/status"
)

// becameReady is a value that a callback waits for.
type becameReady struct {
	number int64
	err    error
}

// readyQueue holds, in the order in which they became ready, the values whose callbacks Python has
// yet to run.
type readyQueue struct {
	mutex sync.Mutex
	last  int64
	items []becameReady
	some  chan struct{} // holds a token where items may have changed
}

var ready = readyQueue{some: make(chan struct{}, 1)}

func (q *readyQueue) next() int64 {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	q.last++
	return q.last
}

func (q *readyQueue) put(item becameReady) {
	q.mutex.Lock()
	q.items = append(q.items, item)
	q.mutex.Unlock()
	q.wake()
}

func (q *readyQueue) wake() {
	select {
	case q.some <- struct{}{}:
	default:
	}
}

func (q *readyQueue) take() (item becameReady, ok bool) {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	if len(q.items) == 0 {
		return item, false
	}
	item = q.items[0]
	q.items = q.items[1:]
	if len(q.items) > 0 {
		q.wake()
	}
	return item, true
}

// OnReadyBegin asks for data's number to come out of NextReady once it is ready or has failed. Not blocking.
func OnReadyBegin(handle int64) (number int64, err error) {
	defer guard(&err)
	c, data, err := clientAndData(handle)
	if err != nil {
		return 0, err
	}
	number = ready.next()
	if err := c.OnReadyCallback(data, func(err error) { ready.put(becameReady{number, err}) }); err != nil {
		return 0, err
	}
	return number, nil
}

// NextReady gives what became ready next as a JSON object (number, error: "" or the error's text), or ""
// where nothing does within that many milliseconds. BLOCKING for as long.
func NextReady(milliseconds int64) (text string, err error) {
	defer guard(&err)
	timer := time.NewTimer(time.Duration(milliseconds) * time.Millisecond)
	defer timer.Stop()
	for {
		if item, ok := ready.take(); ok {
			var failure string
			if item.err != nil {
				failure = status.CodeOf(item.err).String() + ": " + status.MessageOf(item.err)
			}
			return encode(map[string]any{"number": item.number, "error": failure})
		}
		select {
		case <-ready.some:
		case <-timer.C:
			return "", nil
		}
	}
}
