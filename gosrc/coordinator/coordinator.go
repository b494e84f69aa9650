// Package coordinator lets the processes of a job find and wait for each other: a key-value store,
// barriers, and word of a process that has died. Rank 0 serves it over gRPC, every rank is a client of it.
//
// Nothing that runs on a device goes through here: collectives are part of the compiled programs. The
// coordinator serves what comes before, such as the topology that PJRT plugins exchange.
//
// A rank whose connection breaks for longer than a tenth of the heartbeat timeout, or that is silent for
// the whole timeout, is dead. The job cannot go on then: all calls that wait fail with Unavailable and
// the rank in the message. Calls that do not wait still work. Where rank 0 dies, all calls fail.
//
// Errors are *status.Error. A Coordinator may be used by several goroutines.
package coordinator

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"

	"xla_go/gosrc/coordinator/proto"
	"xla_go/gosrc/status"
)

// Coordinator is a rank's membership in its job. Whoever starts one closes it.
type Coordinator struct {
	options Options
	member  string  // random
	server  *server // of rank 0
	conn    *grpc.ClientConn
	stub    proto.CoordinatorClient

	// life ends with a *status.Error as its cause: by Close, or when rank 0 is gone.
	life context.Context
	end  context.CancelCauseFunc
	// attending runs until life ends.
	attending sync.WaitGroup
	peers     atomic.Pointer[status.Error] // which rank is dead
	interval  atomic.Int64                 // of heartbeats, as rank 0 has set it
	timeout   atomic.Int64

	mutex sync.Mutex
	uses  map[string]*use

	closed func() error
}

// use is how often this rank has been through a barrier.
type use struct {
	round   uint64
	waiting bool
}

var errClosed = status.Errorf(status.FailedPrecondition, "this rank has closed its coordinator")

// Start joins a job; rank 0 serves it from then on. BLOCKING until rank 0 answers; it does not wait for the
// other ranks. ctx is only for the start.
//
// Errors: InvalidArgument for options that cannot be, FailedPrecondition where a rank other than 0 has
// no token, Unauthenticated where it has another one than rank 0, AlreadyExists where the rank is taken,
// DeadlineExceeded where rank 0 does not answer, Unavailable where rank 0 cannot listen on the address.
func Start(ctx context.Context, options Options) (*Coordinator, error) {
	options, err := options.complete()
	if err != nil {
		return nil, status.Annotate(err, "coordinator")
	}
	c := &Coordinator{options: options, member: NewToken(), uses: map[string]*use{}}
	c.life, c.end = context.WithCancelCause(context.Background())
	if options.Rank == 0 {
		if c.server, err = serve(options); err != nil {
			return nil, status.Annotate(err, "coordinator")
		}
		if _, c.options.Port, err = net.SplitHostPort(c.server.listener.Addr().String()); err != nil {
			return nil, status.Errorf(status.Internal, "coordinator: %v", err)
		}
	}
	c.closed = sync.OnceValue(c.close)
	if err := c.connect(ctx); err != nil {
		c.abandon()
		return nil, status.Annotate(err, "coordinator: rank %d", options.Rank)
	}
	return c, nil
}

func (c *Coordinator) connect(ctx context.Context) error {
	dialer := &net.Dialer{}
	conn, err := grpc.NewClient(
		"passthrough:///"+c.options.target(),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithPerRPCCredentials(identity{token: c.options.Token, member: c.member, rank: c.options.Rank}),
		// A dialer of our own: no proxy stands between the processes of a job.
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return dialer.DialContext(ctx, "tcp", address)
		}),
		grpc.WithDisableServiceConfig(),
		grpc.WithIdleTimeout(0),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
			MinConnectTimeout: 5 * time.Second,
		}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessageBytes), grpc.MaxCallSendMsgSize(maxMessageBytes)),
	)
	if err != nil {
		return status.Errorf(status.InvalidArgument, "expected an address to connect to, got %q: %v", c.options.target(), err)
	}
	c.conn, c.stub = conn, proto.NewCoordinatorClient(conn)
	joined := make(chan struct{})
	c.attending.Go(func() { c.attend(sync.OnceFunc(func() { close(joined) })) })
	select {
	case <-joined:
		return nil
	case <-c.life.Done():
		return context.Cause(c.life)
	case <-ctx.Done():
		return status.Errorf(status.Cancelled, "connecting to %s was given up: %v", c.options.target(), context.Cause(ctx))
	}
}

// abandon takes back what a start that failed has begun.
func (c *Coordinator) abandon() {
	c.end(errClosed)
	c.attending.Wait()
	if c.conn != nil {
		c.conn.Close()
	}
	if c.server != nil {
		_ = c.server.close(0) // nobody can be left behind: the start is the failure to report
	}
}

// Close leaves the job: calls that wait fail, the rank is not taken for dead, and barriers that
// it has not reached fail for the others. Rank 0 waits for the others to close theirs, for as long as
// its shutdown timeout, and stops serving; DeadlineExceeded names those that had not. Idempotent;
// BLOCKING.
func (c *Coordinator) Close() error { return c.closed() }

func (c *Coordinator) close() error {
	gone := c.life.Err() != nil
	c.end(errClosed)
	c.attending.Wait()
	if !gone {
		ctx, cancel := context.WithTimeout(context.Background(), answerLimit)
		_, _ = c.stub.Leave(ctx, &proto.LeaveRequest{}) // rank 0 notices a member that cannot say goodbye by itself
		cancel()
	}
	var err error
	if c.server != nil {
		err = c.server.close(c.options.ShutdownTimeout)
	}
	c.conn.Close()
	return err
}

// Rank is this process's number in the job.
func (c *Coordinator) Rank() int { return c.options.Rank }

// WorldSize is the number of processes in the job.
func (c *Coordinator) WorldSize() int { return c.options.WorldSize }

// Address is where rank 0 listens, as "host:port".
func (c *Coordinator) Address() string { return c.options.target() }

// Token is the job's secret, for processes that this one starts.
func (c *Coordinator) Token() string { return c.options.Token }

// Err says why calls that wait would fail: a rank is dead, or this coordinator is closed; nil while all
// is well. Not blocking: the news comes with rank 0's answers to heartbeats.
func (c *Coordinator) Err() error {
	if c.life.Err() != nil {
		return context.Cause(c.life)
	}
	if err := c.peers.Load(); err != nil {
		return err
	}
	return nil
}
