package coordinator

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc"
	grpcstatus "google.golang.org/grpc/status"

	"xla_go/gosrc/coordinator/proto"
	"xla_go/gosrc/status"
)

// attend keeps this rank's membership until life ends, and ends life where rank 0 refuses it or is
// gone. joined is called with each answer.
func (c *Coordinator) attend(joined func()) {
	limit := c.options.ConnectTimeout
	until := time.Now().Add(limit)
	for ever := false; ; {
		answered, err := c.attendOnce(until, joined)
		var final *verdict
		switch {
		case c.life.Err() != nil:
			return
		case errors.As(err, &final):
			c.end(final.err)
			return
		case answered: // rank 0 was there, so it has one interval to be there again
			ever, until = true, time.Now().Add(time.Duration(c.interval.Load()))
		case time.Now().Before(until):
		case ever:
			c.end(status.Errorf(status.Unavailable, "rank 0 is dead: its connection is gone (%s)", status.MessageOf(err)))
			return
		default:
			c.end(status.Errorf(status.DeadlineExceeded, "rank 0 did not answer at %s within %v (%s)", c.options.target(), limit, status.MessageOf(err)))
			return
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-c.life.Done():
			return
		}
	}
}

// verdict is an error after which there is no membership any more.
type verdict struct{ err *status.Error }

func (v *verdict) Error() string { return v.err.Error() }

type answer struct {
	attendance *proto.Attendance
	err        error
}

// attendOnce attends over one connection until it breaks, and says whether rank 0 has answered over it.
// Where no answer comes before the deadline it gives up.
func (c *Coordinator) attendOnce(deadline time.Time, joined func()) (answered bool, err error) {
	ctx, cancel := context.WithCancel(c.life)
	defer cancel()
	late := time.AfterFunc(time.Until(deadline), cancel)
	defer late.Stop()
	stream, err := c.stub.Attend(ctx, grpc.WaitForReady(true))
	if err != nil {
		return false, c.connectionError(err)
	}
	beat := &proto.Heartbeat{WorldSize: int32(c.options.WorldSize)}
	if err := stream.Send(beat); err != nil {
		_, err = stream.Recv() // which has the reason
		return false, c.judge(stream, err)
	}
	answers := make(chan answer)
	go func() {
		for {
			attendance, err := stream.Recv()
			select {
			case answers <- answer{attendance, err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	ticker := time.NewTicker(time.Hour)
	defer ticker.Stop()
	heard, ticked := time.Now(), time.Now()
	for {
		select {
		case a := <-answers:
			if a.err != nil {
				return answered, c.judge(stream, a.err)
			}
			heard = time.Now()
			if !answered {
				answered, ticked = true, heard
				late.Stop()
				c.learn(a.attendance)
				ticker.Reset(time.Duration(c.interval.Load()))
			}
			if text := a.attendance.GetFailure(); text != "" {
				c.peers.CompareAndSwap(nil, status.Errorf(status.Unavailable, "%s", text))
			}
			joined()
		case now := <-ticker.C:
			timeout := time.Duration(c.timeout.Load())
			if now.Sub(ticked) > timeout/2 {
				heard = now // this process itself was paused
			}
			ticked = now
			if now.Sub(heard) > timeout {
				return answered, &verdict{status.Errorf(status.Unavailable, "rank 0 is dead: no answer to a heartbeat came for %v", timeout)}
			}
			if err := stream.Send(beat); err != nil {
				continue // the receiver has the reason
			}
		case <-ctx.Done():
			return answered, ctx.Err()
		}
	}
}

func (c *Coordinator) learn(a *proto.Attendance) {
	c.interval.Store(int64(max(time.Duration(a.GetHeartbeatIntervalMs())*time.Millisecond, time.Millisecond)))
	c.timeout.Store(int64(time.Duration(a.GetHeartbeatTimeoutMs()) * time.Millisecond))
}

// judge tells rank 0's refusal from a broken connection.
func (c *Coordinator) judge(stream grpc.ClientStream, err error) error {
	if len(stream.Trailer().Get(answeredKey)) > 0 || refusedAtOnce(grpcstatus.Code(err)) {
		return &verdict{fromWire(err)}
	}
	return c.connectionError(err)
}

func (c *Coordinator) connectionError(err error) error {
	e := fromWire(err)
	if e.Code == status.Unimplemented {
		return &verdict{status.Errorf(status.Unavailable, "expected this job's coordinator at %s, got another service: choose another port by XLA_COORDINATOR_PORT", c.options.target())}
	}
	return e
}
