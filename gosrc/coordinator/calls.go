package coordinator

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"

	"xla_go/gosrc/coordinator/proto"
	"xla_go/gosrc/status"
)

// answerLimit is how long rank 0 may take to answer, beyond the time that a call waits there.
const answerLimit = 5 * time.Second

// call makes one call, again where its connection broke: all calls may be repeated. answered says that
// the outcome is rank 0's own.
func call[Q, A any](ctx context.Context, c *Coordinator, waits time.Duration, method func(context.Context, Q, ...grpc.CallOption) (A, error), request Q) (reply A, answered bool, err error) {
	var none A
	limited, cancel := context.WithTimeout(ctx, waits+answerLimit)
	defer cancel()
	defer context.AfterFunc(c.life, cancel)()
	for {
		var trailer metadata.MD
		reply, err := method(limited, request, grpc.WaitForReady(true), grpc.Trailer(&trailer))
		if err == nil {
			return reply, true, nil
		}
		if len(trailer.Get(answeredKey)) > 0 {
			return none, true, fromWire(err)
		}
		code := grpcstatus.Code(err)
		if code == codes.Canceled || code == codes.DeadlineExceeded {
			<-limited.Done() // which rank 0 may have noticed earlier
		}
		// In this order: the end of the membership, the caller, the time.
		switch {
		case c.life.Err() != nil:
			return none, false, context.Cause(c.life)
		case ctx.Err() != nil:
			return none, false, status.Errorf(status.Cancelled, "the call was given up: %v", context.Cause(ctx))
		case limited.Err() != nil:
			return none, false, status.Errorf(status.DeadlineExceeded, "rank 0 did not answer within %v", waits+answerLimit)
		case code != codes.Unavailable:
			return none, false, fromWire(err)
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-limited.Done():
		}
	}
}

func checkKey(key string) error {
	if key == "" {
		return status.Errorf(status.InvalidArgument, "expected a key, got an empty text")
	}
	return nil
}

// longestWait keeps a timeout's milliseconds and deadlines far from overflow.
const longestWait = 100 * 365 * 24 * time.Hour

func checkTimeout(timeout time.Duration) (time.Duration, error) {
	if timeout < 0 {
		return 0, status.Errorf(status.InvalidArgument, "expected a timeout of at least 0, got %v", timeout)
	}
	return min(timeout, longestWait), nil
}

// Get gives a key's value, once some rank has set it. BLOCKING, at most for timeout.
//
// Errors: DeadlineExceeded, Unavailable with the rank that is dead, Cancelled with ctx.
func (c *Coordinator) Get(ctx context.Context, key string, timeout time.Duration) ([]byte, error) {
	timeout, err := checkTimeout(timeout)
	if err == nil {
		err = checkKey(key)
	}
	if err != nil {
		return nil, status.Annotate(err, "get()")
	}
	reply, _, err := call(ctx, c, timeout, c.stub.Get, &proto.GetRequest{Key: []byte(key), TimeoutMs: milliseconds(timeout)})
	return reply.GetValue(), status.Annotate(err, "get()")
}

// milliseconds rounds up, so that a short wait is one.
func milliseconds(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}

// TryGet gives a key's value, NotFound where it has none. Waits for rank 0's answer only.
func (c *Coordinator) TryGet(ctx context.Context, key string) ([]byte, error) {
	if err := checkKey(key); err != nil {
		return nil, status.Annotate(err, "try_get()")
	}
	reply, _, err := call(ctx, c, 0, c.stub.TryGet, &proto.TryGetRequest{Key: []byte(key)})
	return reply.GetValue(), status.Annotate(err, "try_get()")
}

// Set gives a key a value, which replaces an older one. Key and value may hold any bytes, together less
// than 64 MiB. When it returns, all ranks see the value.
func (c *Coordinator) Set(ctx context.Context, key string, value []byte) error {
	if err := checkKey(key); err != nil {
		return status.Annotate(err, "set()")
	}
	_, _, err := call(ctx, c, 0, c.stub.Set, &proto.SetRequest{Key: []byte(key), Value: value})
	return status.Annotate(err, "set()")
}

// Delete takes a key's value away; a key without one is no error.
func (c *Coordinator) Delete(ctx context.Context, key string) error {
	if err := checkKey(key); err != nil {
		return status.Annotate(err, "delete()")
	}
	_, _, err := call(ctx, c, 0, c.stub.Delete, &proto.DeleteRequest{Key: []byte(key)})
	return status.Annotate(err, "delete()")
}

// Item is a key with its value.
type Item struct {
	Key   string
	Value []byte
}

// List gives the keys that begin with prefix and have a value, sorted; all for an empty prefix.
func (c *Coordinator) List(ctx context.Context, prefix string) ([]Item, error) {
	reply, _, err := call(ctx, c, 0, c.stub.List, &proto.ListRequest{Prefix: []byte(prefix)})
	if err != nil {
		return nil, status.Annotate(err, "list()")
	}
	items := make([]Item, len(reply.GetItems()))
	for i, item := range reply.GetItems() {
		items[i] = Item{Key: string(item.GetKey()), Value: item.GetValue()}
	}
	return items, nil
}

// Barrier waits until all ranks have called it with the same name. A name may be used again. The first
// rank whose timeout runs out ends it for all of them: the others, and those who come late, fail too,
// and the next use is a new barrier. BLOCKING, at most for timeout.
//
// Errors: DeadlineExceeded with the ranks that had not come, Unavailable where a rank is dead or has
// closed its coordinator, FailedPrecondition where this rank is waiting at it already, Cancelled with ctx
// (this rank then has not been there).
func (c *Coordinator) Barrier(ctx context.Context, name string, timeout time.Duration) error {
	timeout, err := checkTimeout(timeout)
	if err != nil {
		return status.Annotate(err, "barrier()")
	}
	if name == "" {
		return status.Errorf(status.InvalidArgument, "barrier(): expected a name, got an empty text")
	}
	c.mutex.Lock()
	u := c.uses[name]
	if u == nil {
		u = &use{}
		c.uses[name] = u
	}
	if u.waiting {
		c.mutex.Unlock()
		return status.Errorf(status.FailedPrecondition, "barrier(): rank %d is waiting at %q already: use another name", c.options.Rank, name)
	}
	u.waiting = true
	c.mutex.Unlock()
	_, answered, err := call(ctx, c, timeout, c.stub.Barrier, &proto.BarrierRequest{Name: []byte(name), Round: u.round, TimeoutMs: milliseconds(timeout)})
	c.mutex.Lock()
	defer c.mutex.Unlock()
	u.waiting = false
	switch status.CodeOf(err) {
	case status.OK, status.DeadlineExceeded, status.Unavailable:
		if answered {
			u.round++ // over for all ranks
		}
	}
	return status.Annotate(err, "barrier()")
}
