// Package current holds the process's client: one per process, made once.
//
// The first attempt decides: a failure stays the answer for the process's life, since a plugin
// that failed half-way through its start cannot be started again.
package current

import (
	"sync"
	"sync/atomic"

	"xla_go/gosrc/client"
	"xla_go/gosrc/status"
)

type outcome struct {
	client client.Client
	err    error
}

var (
	mutex   sync.Mutex // held while a client is made, so that a second caller waits for it
	decided atomic.Pointer[outcome]
)

// Initialize makes the process's client with construct. FailedPrecondition where there is one; where
// making one has failed, the first failure again, without a call of construct. BLOCKING: construct loads a
// plugin and starts its devices.
func Initialize(construct func() (client.Client, error)) (client.Client, error) {
	mutex.Lock()
	defer mutex.Unlock()
	if o := decided.Load(); o != nil {
		if o.err != nil {
			return nil, o.err
		}
		return nil, status.Errorf(status.FailedPrecondition, "the client can be initialized once in a process, and it has been: it is a client of %s", o.client.GetDefaultDevice())
	}
	o := &outcome{}
	o.client, o.err = construct()
	if o.err == nil && o.client == nil {
		o.err = status.Errorf(status.Internal, "Initialize(): expected a client, got neither a client nor an error")
	}
	decided.Store(o)
	return o.client, o.err
}

// Get gives the process's client or the failure of making it; FailedPrecondition before
// Initialize. Not blocking.
func Get() (client.Client, error) {
	if o := decided.Load(); o != nil {
		return o.client, o.err
	}
	return nil, status.Errorf(status.FailedPrecondition, "no client yet: the runtime has not been initialized")
}

// IfInitialized gives the process's client, or nil where none was made (yet). Not blocking.
func IfInitialized() client.Client {
	if o := decided.Load(); o != nil && o.err == nil {
		return o.client
	}
	return nil
}

// Replace makes c the process's client, or none where c is nil, and gives a function that puts the
// former state back. It is for Go tests, which need a fresh client in one process.
func Replace(c client.Client) (restore func()) {
	var o *outcome
	if c != nil {
		o = &outcome{client: c}
	}
	former := decided.Swap(o)
	return func() { decided.Store(former) }
}
