package coordinator

import (
	"context"
	"crypto/sha256"
	"testing"
	"time"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/tap"
	pb "google.golang.org/protobuf/proto"

	"xla_go/gosrc/coordinator/proto"
)

// unserved is a server with two present ranks and no connection.
func unserved() *server {
	return &server{
		tokenHash: sha256.Sum256([]byte(testToken)), interval: time.Second, timeout: time.Minute,
		members: []member{{state: present, name: "a"}, {state: present, name: "b"}}, values: map[string][]byte{}, awaited: map[string]*awaited{},
		barriers: map[string]*barrier{}, failed: make(chan struct{}), empty: make(chan struct{}), stopped: make(chan struct{}),
	}
}

// FuzzMessages: whatever one rank sends in any message is answered or refused, with nothing of it kept that was not set.
func FuzzMessages(f *testing.F) {
	set, _ := pb.Marshal(&proto.SetRequest{Key: []byte("key"), Value: []byte("value")})
	barrier, _ := pb.Marshal(&proto.BarrierRequest{Name: []byte("barrier"), Round: 1, TimeoutMs: 1 << 62})
	for call := range byte(7) {
		f.Add(call, set)
		f.Add(call, barrier)
	}
	f.Fuzz(func(t *testing.T, call byte, message []byte) {
		s := unserved()
		ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), callerKey{}, identity{rank: 0, member: "a"}), time.Millisecond)
		defer cancel()
		var sets int
		switch call % 7 {
		case 0:
			send(ctx, s.Get, message)
		case 1:
			send(ctx, s.TryGet, message)
		case 2:
			if send(ctx, s.Set, message) {
				sets = 1
			}
		case 3:
			send(ctx, s.Delete, message)
		case 4:
			send(ctx, s.List, message)
		case 5:
			send(ctx, s.Barrier, message)
		case 6:
			send(ctx, s.Leave, message)
		}
		s.mutex.Lock()
		defer s.mutex.Unlock()
		if len(s.values) != sets || len(s.awaited) != 0 {
			t.Errorf("call %d left %d values and %d waiters", call%7, len(s.values), len(s.awaited))
		}
	})
}

// send calls with what a message is read as; true where it was read and the call has no error.
func send[Request any, Pointer interface {
	*Request
	pb.Message
}, Reply any](ctx context.Context, call func(context.Context, Pointer) (Reply, error), message []byte) bool {
	request := Pointer(new(Request))
	if pb.Unmarshal(message, request) != nil {
		return false
	}
	_, err := call(ctx, request)
	return err == nil
}

// FuzzAuthenticate: without the job's token no header makes a caller, and with it only a rank of the job does.
func FuzzAuthenticate(f *testing.F) {
	f.Add(testToken, "1", "member")
	f.Add("", "0", "")
	f.Add(testToken, "-1", "")
	f.Add(testToken, "99999999999999999999", "")
	f.Fuzz(func(t *testing.T, token, rank, name string) {
		s := unserved()
		ctx, err := s.authenticate(t.Context(), &tap.Info{Header: metadata.Pairs(tokenKey, token, rankKey, rank, memberKey, name)})
		if err != nil {
			return
		}
		if who := callerOf(ctx); token != testToken || who.rank < 0 || who.rank >= len(s.members) {
			t.Errorf("token %q, rank %q make a caller of rank %d", token, rank, who.rank)
		}
	})
}
