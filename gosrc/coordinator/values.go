package coordinator

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"time"

	"xla_go/gosrc/coordinator/proto"
	"xla_go/gosrc/status"
)

// awaited is a key without a value that calls wait for.
type awaited struct {
	waiting int
	set     chan struct{}
	value   []byte // valid once set is closed
}

// Get waits for a value.
func (s *server) Get(ctx context.Context, r *proto.GetRequest) (*proto.GetReply, error) {
	key, timeout := string(r.GetKey()), time.Duration(r.GetTimeoutMs())*time.Millisecond
	s.mutex.Lock()
	if value, found := s.values[key]; found {
		s.mutex.Unlock()
		return &proto.GetReply{Value: value}, nil
	}
	w := s.awaited[key]
	if w == nil {
		w = &awaited{set: make(chan struct{})}
		s.awaited[key] = w
	}
	w.waiting++
	s.mutex.Unlock()
	defer s.stopWaiting(key, w)

	timer := time.NewTimer(timeout)
	defer timer.Stop()
	var err error
	select {
	case <-w.set:
	case <-s.failed:
		err = status.Annotate(s.failure, "while waiting for the key %q", key)
	case <-timer.C:
		err = status.Errorf(status.DeadlineExceeded, "the key %q was not set within %v", key, timeout)
	case <-ctx.Done():
		err = ctx.Err()
	}
	select {
	case <-w.set: // a value that came counts more than a failure at the same time
		return &proto.GetReply{Value: w.value}, nil
	default:
		return nil, err
	}
}

func (s *server) stopWaiting(key string, w *awaited) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if w.waiting--; w.waiting == 0 && s.awaited[key] == w {
		delete(s.awaited, key)
	}
}

// TryGet gives a value that is there.
func (s *server) TryGet(_ context.Context, r *proto.TryGetRequest) (*proto.GetReply, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	value, found := s.values[string(r.GetKey())]
	if !found {
		return nil, status.Errorf(status.NotFound, "the key %q has no value", r.GetKey())
	}
	return &proto.GetReply{Value: value}, nil
}

// Set gives a key a value and wakes those who wait for it.
func (s *server) Set(_ context.Context, r *proto.SetRequest) (*proto.SetReply, error) {
	key := string(r.GetKey())
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.values[key] = r.GetValue()
	if w := s.awaited[key]; w != nil {
		delete(s.awaited, key)
		w.value = r.GetValue()
		close(w.set)
	}
	return &proto.SetReply{}, nil
}

// Delete takes a key's value away.
func (s *server) Delete(_ context.Context, r *proto.DeleteRequest) (*proto.DeleteReply, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	delete(s.values, string(r.GetKey()))
	return &proto.DeleteReply{}, nil
}

// List gives all keys with a prefix.
func (s *server) List(_ context.Context, r *proto.ListRequest) (*proto.ListReply, error) {
	prefix := string(r.GetPrefix())
	reply := &proto.ListReply{}
	s.mutex.Lock()
	for key, value := range s.values {
		if strings.HasPrefix(key, prefix) {
			reply.Items = append(reply.Items, &proto.KeyValue{Key: []byte(key), Value: value})
		}
	}
	s.mutex.Unlock()
	slices.SortFunc(reply.Items, func(a, b *proto.KeyValue) int { return bytes.Compare(a.GetKey(), b.GetKey()) })
	return reply, nil
}
