package coordinator

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"

	"xla_go/gosrc/coordinator/proto"
	"xla_go/gosrc/status"
)

// maxMessageBytes is the largest key with its value, and the largest listing.
const maxMessageBytes = 64 << 20

// What a stranger may take, before the token is looked at: time to say what it is, and bytes of headers.
const (
	longestGreeting = 20 * time.Second
	maxHeaderBytes  = 16 << 10
)

type memberState int

const (
	absent memberState = iota // never connected
	present
	left
	dead
)

// member is what the server knows about a rank.
type member struct {
	state      memberState
	name       string // random, of the process that has the rank
	seen       time.Time
	connection *connection // nil while there is none
	broken     time.Time   // since when there is none
}

// connection is an open Attend call.
type connection struct{ replaced chan struct{} }

// server is the coordinator of a job, in the process of rank 0.
type server struct {
	proto.UnimplementedCoordinatorServer
	tokenHash         [sha256.Size]byte
	interval, timeout time.Duration
	rpc               *grpc.Server
	listener          *listener
	background        sync.WaitGroup

	mutex    sync.Mutex
	members  []member
	values   map[string][]byte
	awaited  map[string]*awaited
	barriers map[string]*barrier
	failure  *status.Error // why waiting calls fail; set before failed is closed
	failed   chan struct{}
	closing  bool
	empty    chan struct{} // closed when nobody is present any more, once closing
	stopped  chan struct{}
}

// serve listens on the address of the options and on no other.
func serve(o Options) (*server, error) {
	tcp, err := net.Listen("tcp", o.target())
	if err != nil {
		return nil, status.Errorf(status.Unavailable, "rank 0 cannot listen on %s: %v", o.target(), err)
	}
	s := &server{
		tokenHash: sha256.Sum256([]byte(o.Token)), interval: o.HeartbeatTimeout / heartbeatsPerTimeout, timeout: o.HeartbeatTimeout,
		listener: &listener{Listener: tcp}, members: make([]member, o.WorldSize), values: map[string][]byte{}, awaited: map[string]*awaited{},
		barriers: map[string]*barrier{}, failed: make(chan struct{}), empty: make(chan struct{}), stopped: make(chan struct{}),
	}
	s.rpc = grpc.NewServer(
		grpc.InTapHandle(s.authenticate), grpc.UnaryInterceptor(s.interceptUnary), grpc.StreamInterceptor(interceptStream),
		grpc.MaxRecvMsgSize(maxMessageBytes), grpc.MaxSendMsgSize(maxMessageBytes), grpc.WaitForHandlers(true),
		grpc.ConnectionTimeout(longestGreeting), grpc.MaxHeaderListSize(maxHeaderBytes),
	)
	proto.RegisterCoordinatorServer(s.rpc, s)
	s.background.Go(func() { _ = s.rpc.Serve(s.listener) })
	s.background.Go(s.watch)
	return s, nil
}

// close waits until the others have left, at most for limit (once a rank is dead, for the heartbeat
// timeout), and stops. The error says who was still there.
func (s *server) close(limit time.Duration) error {
	s.mutex.Lock()
	s.closing = true
	s.checkEmptyLocked()
	s.mutex.Unlock()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	failed := s.failed
	var err error
	for waiting := true; waiting; {
		select {
		case <-s.empty:
			waiting = false
		case <-failed:
			failed = nil
			timer.Reset(min(limit, s.timeout))
		case <-timer.C:
			waiting = false
			s.mutex.Lock()
			err = status.Errorf(status.DeadlineExceeded, "rank 0 closed the coordinator while %s still used it", s.describeLocked(s.ranksLocked(present)))
			s.mutex.Unlock()
		}
	}
	s.mutex.Lock()
	s.failLocked(status.Errorf(status.Unavailable, "rank 0 has closed the coordinator"))
	s.mutex.Unlock()
	close(s.stopped)
	// Gracefully, so that the others are told; not for long, since one may have stopped reading.
	force := time.AfterFunc(time.Second, func() {
		s.listener.closeAll()
		s.rpc.Stop()
	})
	s.rpc.GracefulStop()
	force.Stop()
	s.background.Wait()
	return err
}

func (s *server) checkEmptyLocked() {
	if !s.closing || len(s.ranksLocked(present)) > 0 {
		return
	}
	select {
	case <-s.empty:
	default:
		close(s.empty)
	}
}

// failLocked ends all waiting calls, now and later. The first reason stays.
func (s *server) failLocked(err *status.Error) {
	if s.failure == nil {
		s.failure = err
		close(s.failed)
	}
}

func (s *server) ranksLocked(state memberState) []int {
	var ranks []int
	for rank := range s.members {
		if s.members[rank].state == state {
			ranks = append(ranks, rank)
		}
	}
	return ranks
}

// describeLocked names ranks, with what is unusual about each.
func (s *server) describeLocked(ranks []int) string {
	const most = 16
	names := make([]string, 0, most)
	for i, rank := range ranks {
		if i == most {
			names = append(names, fmt.Sprintf("%d more", len(ranks)-most))
			break
		}
		note := map[memberState]string{absent: " (never connected)", left: " (has closed its coordinator)"}[s.members[rank].state]
		names = append(names, fmt.Sprintf("%d%s", rank, note))
	}
	noun := "ranks "
	if len(ranks) == 1 {
		noun = "rank "
	}
	return noun + strings.Join(names, ", ")
}

// admit lets a call pass whose caller is a member.
func (s *server) admit(who identity) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	m := &s.members[who.rank]
	if m.state != present || m.name != who.member {
		return s.refusalLocked(who.rank)
	}
	return nil
}

// refusalLocked says why a process may not act as a rank.
func (s *server) refusalLocked(rank int) error {
	switch s.members[rank].state {
	case absent:
		return status.Errorf(status.FailedPrecondition, "rank %d has not connected yet", rank)
	case left:
		return status.Errorf(status.FailedPrecondition, "rank %d has closed its coordinator", rank)
	case dead:
		return status.Errorf(status.FailedPrecondition, "rank %d has been taken for dead and cannot come back: restart the job", rank)
	}
	return status.Errorf(status.AlreadyExists, "rank %d is another process: give each process a rank of its own", rank)
}

// Attend keeps a member alive.
func (s *server) Attend(stream grpc.BidiStreamingServer[proto.Heartbeat, proto.Attendance]) error {
	who := callerOf(stream.Context())
	beat, err := stream.Recv()
	if err != nil {
		return fromWire(err)
	}
	own, err := s.enter(who, int(beat.GetWorldSize()))
	if err != nil {
		return err
	}
	defer s.disconnect(who, own)
	beats := make(chan error)
	go func() {
		for {
			_, err := stream.Recv()
			select {
			case beats <- err:
			case <-stream.Context().Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	failed := s.failed
	for {
		if err := stream.Send(s.attendance()); err != nil {
			return fromWire(err)
		}
		select {
		case err := <-beats:
			if err != nil {
				return fromWire(err)
			}
			if err := s.beat(who); err != nil {
				return err
			}
		case <-failed:
			failed = nil // told at once, and again with each heartbeat
		case <-own.replaced:
			return status.Errorf(status.Aborted, "rank %d has another connection", who.rank)
		case <-s.stopped:
			return status.Errorf(status.Unavailable, "rank 0 has closed the coordinator")
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}

func (s *server) attendance() *proto.Attendance {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	a := &proto.Attendance{HeartbeatIntervalMs: s.interval.Milliseconds(), HeartbeatTimeoutMs: s.timeout.Milliseconds()}
	if s.failure != nil {
		a.Failure = s.failure.Message
	}
	return a
}

// enter makes the caller a member, or gives the member its new connection.
func (s *server) enter(who identity, worldSize int) (*connection, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if worldSize != len(s.members) {
		return nil, status.Errorf(status.InvalidArgument, "expected the world size %d of rank 0, got %d from rank %d", len(s.members), worldSize, who.rank)
	}
	m := &s.members[who.rank]
	switch {
	case m.state == absent && s.closing:
		return nil, status.Errorf(status.Unavailable, "rank 0 is closing the coordinator")
	case m.state == absent && who.member != "":
		m.state, m.name = present, who.member
	case m.state != present || m.name != who.member:
		return nil, s.refusalLocked(who.rank)
	}
	if m.connection != nil {
		close(m.connection.replaced)
	}
	m.connection, m.seen = &connection{replaced: make(chan struct{})}, time.Now()
	return m.connection, nil
}

func (s *server) disconnect(who identity, own *connection) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if m := &s.members[who.rank]; m.connection == own {
		m.connection, m.broken = nil, time.Now()
	}
}

func (s *server) beat(who identity) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	m := &s.members[who.rank]
	if m.state != present {
		return s.refusalLocked(who.rank)
	}
	m.seen = time.Now()
	return nil
}

// Leave ends a membership.
func (s *server) Leave(ctx context.Context, _ *proto.LeaveRequest) (*proto.LeaveReply, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.members[callerOf(ctx).rank].state = left
	for name, b := range s.barriers {
		s.checkBarrierLocked(name, b)
	}
	s.checkEmptyLocked()
	return &proto.LeaveReply{}, nil
}

// watch takes silent members for dead.
func (s *server) watch() {
	ticker := time.NewTicker(max(s.interval/4, time.Millisecond))
	defer ticker.Stop()
	last := time.Now()
	for {
		select {
		case <-s.stopped:
			return
		case <-ticker.C:
			now := time.Now()
			s.inspect(now, now.Sub(last) > s.timeout/2)
			last = now
		}
	}
}

// inspect looks at all members. After a pause of this process itself nobody else is to blame.
func (s *server) inspect(now time.Time, paused bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for rank := range s.members {
		m := &s.members[rank]
		if m.state != present {
			continue
		}
		if paused {
			m.seen, m.broken = now, now
		}
		switch {
		case now.Sub(m.seen) > s.timeout:
			s.buryLocked(rank, fmt.Sprintf("no heartbeat came for %v", s.timeout))
		case m.connection == nil && now.Sub(m.broken) > s.interval:
			s.buryLocked(rank, "its connection is gone")
		}
	}
	s.checkEmptyLocked()
}

func (s *server) buryLocked(rank int, why string) {
	s.members[rank].state = dead
	s.failLocked(status.Errorf(status.Unavailable, "rank %d is dead: %s", rank, why))
}
