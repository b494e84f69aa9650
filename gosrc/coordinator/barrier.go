package coordinator

import (
	"context"
	"time"

	"xla_go/gosrc/coordinator/proto"
	"xla_go/gosrc/status"
)

// barrier is a name's barrier. Its rounds follow each other: one that was passed or has failed is over,
// and a rank that repeats its call (its connection broke) or comes late is told how it ended.
type barrier struct {
	over    uint64           // rounds that are over
	failed  map[uint64]error // of those, the ones that nobody passed
	current *round
}

// round is one use of a barrier.
type round struct {
	arrived map[int]int // calls that wait, by rank; more than one only after a broken connection
	done    chan struct{}
	err     error // valid once done is closed
}

// Barrier waits for all ranks. The first call whose time runs out ends the round for everybody, since
// it can no longer be passed by all.
func (s *server) Barrier(ctx context.Context, r *proto.BarrierRequest) (*proto.BarrierReply, error) {
	name, rank, timeout := string(r.GetName()), callerOf(ctx).rank, time.Duration(r.GetTimeoutMs())*time.Millisecond
	s.mutex.Lock()
	b := s.barriers[name]
	if b == nil {
		b = &barrier{failed: map[uint64]error{}}
		s.barriers[name] = b
	}
	if r.GetRound() < b.over {
		defer s.mutex.Unlock()
		return &proto.BarrierReply{}, b.failed[r.GetRound()]
	}
	if r.GetRound() > b.over {
		defer s.mutex.Unlock()
		return nil, status.Errorf(status.Internal, "barrier %q is in round %d, rank %d came for round %d", name, b.over, rank, r.GetRound())
	}
	if b.current == nil {
		b.current = &round{arrived: map[int]int{}, done: make(chan struct{})}
	}
	current := b.current
	current.arrived[rank]++
	s.checkBarrierLocked(name, b)
	s.mutex.Unlock()

	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-current.done:
	case <-s.failed:
		s.endRound(b, current, status.Annotate(s.failure, "while waiting at the barrier %q", name))
	case <-timer.C:
		s.mutex.Lock()
		err := status.Errorf(status.DeadlineExceeded, "the barrier %q was not reached by %s within %v", name, s.describeLocked(s.missingLocked(current)), timeout)
		s.mutex.Unlock()
		s.endRound(b, current, err)
	case <-ctx.Done():
		s.withdraw(current, rank)
		return nil, ctx.Err()
	}
	<-current.done
	return &proto.BarrierReply{}, current.err
}

func (s *server) missingLocked(current *round) []int {
	var missing []int
	for rank := range s.members {
		if current.arrived[rank] == 0 {
			missing = append(missing, rank)
		}
	}
	return missing
}

// checkBarrierLocked ends the current round where all have come or one never will.
func (s *server) checkBarrierLocked(name string, b *barrier) {
	if b.current == nil {
		return
	}
	missing := s.missingLocked(b.current)
	if len(missing) == 0 {
		b.endLocked(b.current, nil)
		return
	}
	for _, rank := range missing {
		if s.members[rank].state == left {
			b.endLocked(b.current, status.Errorf(status.Unavailable, "the barrier %q cannot be reached by %s", name, s.describeLocked([]int{rank})))
			return
		}
	}
}

func (s *server) endRound(b *barrier, current *round, err error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	b.endLocked(current, err)
}

// endLocked ends a round, unless it is over already.
func (b *barrier) endLocked(current *round, err error) {
	if b.current != current {
		return
	}
	b.current = nil
	if err != nil {
		b.failed[b.over] = err
	}
	b.over++
	current.err = err
	close(current.done)
}

func (s *server) withdraw(current *round, rank int) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if current.arrived[rank]--; current.arrived[rank] == 0 {
		delete(current.arrived, rank)
	}
}
