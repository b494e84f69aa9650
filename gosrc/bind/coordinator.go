package bind

import (
	"context"
	"encoding/json"
	"strconv"
	"sync"
	"time"

	"xla_go/gosrc/client/current"
	"xla_go/gosrc/coordinator"
	"xla_go/gosrc/dispatch"
	"xla_go/gosrc/status"
)

// membership is this process's place in its job.
type membership struct {
	mutex    sync.Mutex
	starting bool
	member   *coordinator.Coordinator
}

var job membership

// get gives the coordinator, nil where there is none.
func (m *membership) get() *coordinator.Coordinator {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.member
}

func (m *membership) require() (*coordinator.Coordinator, error) {
	if c := m.get(); c != nil {
		return c, nil
	}
	return nil, status.Errorf(status.FailedPrecondition, "the coordinator has not been initialized: call xla_go.coordinator.initialize() first")
}

// coordinatorRequest is a call of the coordinator as Python writes it. Values travel in base64, which is
// what encoding/json makes of bytes.
type coordinatorRequest struct {
	Call    string  `json:"call"`
	Key     string  `json:"key"`
	Value   []byte  `json:"value"`
	Timeout float64 `json:"timeout"` // seconds

	// Of initialize; what is nil comes from the variables.
	Variables map[string]string `json:"variables"`
	Rank      *int              `json:"rank"`
	WorldSize *int              `json:"world_size"`
	Address   *string           `json:"address"`
	Port      *int              `json:"port"`
}

// coordinatorReply is its result.
type coordinatorReply struct {
	Value     []byte   `json:"value"`
	Keys      [][]byte `json:"keys"`
	Values    [][]byte `json:"values"`
	Rank      int      `json:"rank"`
	WorldSize int      `json:"world_size"`
	Address   string   `json:"address"`
	Token     string   `json:"token"`
}

// coordinatorCall is a call under way.
type coordinatorCall struct {
	*pendingWait
	cancel context.CancelFunc
	reply  coordinatorReply // valid once the wait is over
}

var coordinatorCalls = dispatch.NewHandles[*coordinatorCall]("coordinator call")

// CoordinatorBegin starts a call of the coordinator, a JSON object (see coordinatorRequest), and gives a
// token: CoordinatorWait until it says true, CoordinatorResult, CoordinatorEnd. Not blocking.
func CoordinatorBegin(request string) (token int64, err error) {
	defer guard(&err)
	var r coordinatorRequest
	if err := json.Unmarshal([]byte(request), &r); err != nil {
		return 0, status.Errorf(status.InvalidArgument, "CoordinatorBegin(): expected a JSON object, got %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := &coordinatorCall{pendingWait: newWait(), cancel: cancel}
	go func() {
		var failure error
		defer func() { c.finish(failure) }()
		defer guard(&failure)
		c.reply, failure = job.perform(ctx, r)
	}()
	return coordinatorCalls.Add(c), nil
}

// CoordinatorWait waits at most that many milliseconds and says whether the call is over; the error is the
// call's. BLOCKING for one slice.
func CoordinatorWait(token, milliseconds int64) (over bool, err error) {
	defer guard(&err)
	c, err := coordinatorCalls.Get(token)
	if err != nil {
		return false, err
	}
	return c.wait(milliseconds)
}

// CoordinatorResult gives a call's result as JSON (see coordinatorReply), once its wait is over.
func CoordinatorResult(token int64) (reply string, err error) {
	defer guard(&err)
	c, err := coordinatorCalls.Get(token)
	if err != nil {
		return "", err
	}
	select {
	case <-c.done:
	default:
		return "", status.Errorf(status.FailedPrecondition, "CoordinatorResult(): expected a call whose wait is over")
	}
	text, err := json.Marshal(c.reply)
	return string(text), err
}

// CoordinatorEnd gives a token back; a call that is not over is given up. Idempotent.
func CoordinatorEnd(token int64) (ended bool, err error) {
	defer guard(&err)
	c, ended := coordinatorCalls.Remove(token)
	if ended {
		c.cancel()
	}
	return ended, nil
}

// CoordinatorCheck says whether there is a coordinator; the error is why its calls would fail. Not blocking.
func CoordinatorCheck() (initialized bool, err error) {
	defer guard(&err)
	if c := job.get(); c != nil {
		return true, c.Err()
	}
	return false, nil
}

// CoordinatorNewToken makes a token for a new job.
func CoordinatorNewToken() string { return coordinator.NewToken() }

func (m *membership) perform(ctx context.Context, r coordinatorRequest) (reply coordinatorReply, err error) {
	if r.Call == "initialize" {
		return m.initialize(ctx, r)
	}
	if r.Call == "close" {
		return reply, m.close()
	}
	c, err := m.require()
	if err != nil {
		return reply, err
	}
	timeout := time.Duration(min(r.Timeout, 1e9) * float64(time.Second))
	switch r.Call {
	case "describe":
		reply.Rank, reply.WorldSize, reply.Address, reply.Token = c.Rank(), c.WorldSize(), c.Address(), c.Token()
	case "get":
		reply.Value, err = c.Get(ctx, r.Key, timeout)
	case "try_get":
		reply.Value, err = c.TryGet(ctx, r.Key)
	case "set":
		err = c.Set(ctx, r.Key, r.Value)
	case "delete":
		err = c.Delete(ctx, r.Key)
	case "list":
		var items []coordinator.Item
		items, err = c.List(ctx, r.Key)
		for _, item := range items {
			reply.Keys, reply.Values = append(reply.Keys, []byte(item.Key)), append(reply.Values, item.Value)
		}
	case "barrier":
		err = c.Barrier(ctx, r.Key, timeout)
	default:
		err = status.Errorf(status.InvalidArgument, "CoordinatorBegin(): expected the name of a call, got %q", r.Call)
	}
	return reply, err
}

func (m *membership) initialize(ctx context.Context, r coordinatorRequest) (reply coordinatorReply, err error) {
	options, err := coordinator.FromVariables(func(name string) (string, bool) {
		value, found := r.Variables[name]
		return value, found
	})
	if err != nil {
		return reply, err
	}
	if r.Rank != nil {
		options.Rank = *r.Rank
	}
	if r.WorldSize != nil {
		options.WorldSize = *r.WorldSize
	}
	if r.Address != nil {
		options.Address = *r.Address
	}
	if r.Port != nil {
		options.Port = strconv.Itoa(*r.Port)
	}
	if r.Timeout > 0 {
		options.ConnectTimeout = time.Duration(min(r.Timeout, 1e9) * float64(time.Second))
	}
	m.mutex.Lock()
	if m.starting || m.member != nil {
		m.mutex.Unlock()
		return reply, status.Errorf(status.FailedPrecondition, "the coordinator can be initialized once: close() comes before another initialize()")
	}
	m.starting = true
	m.mutex.Unlock()
	c, err := coordinator.Start(ctx, options)
	m.mutex.Lock()
	m.starting, m.member = false, c
	m.mutex.Unlock()
	if err != nil {
		return reply, err
	}
	if err := tellClient(c); err != nil {
		_ = m.close() // the failure to report is the other one
		return reply, err
	}
	reply.Rank, reply.WorldSize, reply.Address, reply.Token = c.Rank(), c.WorldSize(), c.Address(), c.Token()
	return reply, nil
}

func (m *membership) close() error {
	c := m.get()
	if c == nil {
		return nil
	}
	_ = tellClient(nil) // a client with a coordinator of its own keeps it
	err := c.Close()
	m.mutex.Lock()
	if m.member == c {
		m.member = nil
	}
	m.mutex.Unlock()
	return err
}

// tellClient gives the process's client, where there is one, the process's coordinator, or takes it away.
func tellClient(c *coordinator.Coordinator) error {
	known, ok := current.IfInitialized().(interface {
		SetCoordinator(*coordinator.Coordinator) error
	})
	if !ok {
		return nil
	}
	return known.SetCoordinator(c)
}
