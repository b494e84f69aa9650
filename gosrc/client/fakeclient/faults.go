package fakeclient

import (
	"sync"
	"time"

	"xla_go/gosrc/status"
)

// Operation is something that a client does and that can be made to fail or to take its time.
type Operation int

// The operations. Execute fails in the call of a run, Result after it: its results carry the error.
const (
	Compile Operation = iota
	Execute
	Result
	Upload
	Download
	operations
)

// faults are what a test has asked for.
type faults struct {
	mutex  sync.Mutex
	counts [operations]int64
	errors [operations]map[int64]error
	delays [operations]time.Duration
	held   chan struct{} // closed when results may come; nil where they may
}

// FailAt makes the k-th operation from now on fail with err; 1 is the next one. A compile counts per program, a
// transfer per array.
func (c *Client) FailAt(o Operation, k int, err error) {
	f := &c.faults
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.errors[o] == nil {
		f.errors[o] = map[int64]error{}
	}
	f.errors[o][f.counts[o]+int64(k)] = err
}

// Delay makes every operation take that long from now on: the call of it, but for Result what comes after.
func (c *Client) Delay(o Operation, d time.Duration) {
	c.faults.mutex.Lock()
	defer c.faults.mutex.Unlock()
	c.faults.delays[o] = d
}

// Hold keeps all runs that are queued from now on from ending until release is called, once.
func (c *Client) Hold() (release func()) {
	held := make(chan struct{})
	c.faults.mutex.Lock()
	defer c.faults.mutex.Unlock()
	c.faults.held = held
	return func() {
		c.faults.mutex.Lock()
		c.faults.held = nil
		c.faults.mutex.Unlock()
		close(held)
	}
}

// Count says how often an operation was asked for.
func (c *Client) Count(o Operation) int64 {
	c.faults.mutex.Lock()
	defer c.faults.mutex.Unlock()
	return c.faults.counts[o]
}

// next counts an operation and gives what becomes of it.
func (f *faults) next(o Operation) (delay time.Duration, held chan struct{}, err error) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.counts[o]++
	if err = f.errors[o][f.counts[o]]; err != nil {
		delete(f.errors[o], f.counts[o])
		err = status.Annotate(err, "the test asked for a failure")
	}
	return f.delays[o], f.held, err
}

// begin is next with the delay over. BLOCKING for the delay.
func (f *faults) begin(o Operation) error {
	delay, _, err := f.next(o)
	time.Sleep(delay)
	return err
}
