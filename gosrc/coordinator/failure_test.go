package coordinator

import (
	"context"
	"crypto/sha256"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"xla_go/gosrc/coordinator/proto"
	"xla_go/gosrc/status"
)

// wire stands between a rank and rank 0 and can be cut or held up.
type wire struct {
	listener net.Listener
	target   string
	mutex    sync.Mutex
	ends     []net.Conn
	down     bool
	held     atomic.Bool
	copying  sync.WaitGroup
}

func newWire(t *testing.T, target string) *wire {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{listener: listener, target: target}
	w.copying.Go(func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			w.connect(near)
		}
	})
	return w
}

func (w *wire) connect(near net.Conn) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	far, err := net.Dial("tcp", w.target)
	if err != nil || w.down {
		near.Close()
		if far != nil {
			far.Close()
		}
		return
	}
	w.ends = append(w.ends, near, far)
	for _, ends := range [][2]net.Conn{{near, far}, {far, near}} {
		w.copying.Go(func() {
			_, _ = io.Copy(holder{ends[1], w}, ends[0])
			ends[1].Close()
		})
	}
}

// holder swallows what is written while the wire is held up.
type holder struct {
	net.Conn
	wire *wire
}

func (h holder) Write(b []byte) (int, error) {
	if h.wire.held.Load() {
		return len(b), nil
	}
	return h.Conn.Write(b)
}

// cut closes all connections; with down, new ones are refused as well.
func (w *wire) cut(down bool) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.down = down
	for _, end := range w.ends {
		end.Close()
	}
	w.ends = nil
}

func (w *wire) close() {
	w.listener.Close()
	w.cut(true)
	w.copying.Wait()
}

// startWired starts rank 0 and the other ranks, rank 1 through a wire.
func startWired(t *testing.T, ranks int, timeout time.Duration) ([]*Coordinator, *wire) {
	t.Helper()
	checkGoroutines(t)
	options := Options{WorldSize: ranks, Address: "127.0.0.1", Port: "0", Token: testToken, HeartbeatTimeout: timeout, ConnectTimeout: patience, ShutdownTimeout: patience}
	job := make([]*Coordinator, ranks)
	var w *wire
	t.Cleanup(func() {
		closeAll(t, job)
		w.close()
	})
	for rank := range job {
		options.Rank = rank
		if rank > 0 {
			options.Port = job[0].options.Port
		}
		if rank == 1 {
			w = newWire(t, job[0].Address())
			_, options.Port, _ = net.SplitHostPort(w.listener.Addr().String())
		}
		c, err := Start(t.Context(), options)
		if err != nil {
			t.Fatal(err)
		}
		job[rank] = c
	}
	return job, w
}

// waitEverywhere starts a get and a barrier on each rank, and gives their errors, two for each.
func waitEverywhere(t *testing.T, s *server, job []*Coordinator) <-chan error {
	t.Helper()
	errs := make(chan error, 2*len(job))
	for _, c := range job {
		go func() {
			_, err := c.Get(t.Context(), "never", patience)
			errs <- err
		}()
		go func() { errs <- c.Barrier(t.Context(), "never", patience) }()
	}
	waitForArrivals(t, s, "never", len(job))
	return errs
}

// TestDeadRank: a rank whose connection is gone, or that is silent, fails all calls that wait, with
// its number in the message, within the heartbeat timeout.
func TestDeadRank(t *testing.T) {
	const timeout = 2 * time.Second
	for name, test := range map[string]struct {
		kill  func(*wire)
		words string
	}{
		"connection gone": {func(w *wire) { w.cut(true) }, "connection"},
		"silent":          {func(w *wire) { w.held.Store(true) }, "heartbeat"},
	} {
		t.Run(name, func(t *testing.T) {
			job, w := startWired(t, 4, timeout)
			others := []*Coordinator{job[0], job[2]} // not 3, so that the barrier is not reached
			errs := waitEverywhere(t, job[0].server, others)
			start := time.Now()
			test.kill(w)
			for range cap(errs) {
				expect(t, <-errs, status.Unavailable, "rank 1 is dead", test.words)
			}
			if took := time.Since(start); took > 2*timeout {
				t.Errorf("it took %v with a timeout of %v", took, timeout)
			}
			// Later calls that would wait fail at once; others work.
			_, err := job[3].Get(t.Context(), "never", patience)
			expect(t, err, status.Unavailable, "rank 1 is dead")
			expect(t, job[2].Barrier(t.Context(), "another", patience), status.Unavailable, "rank 1 is dead")
			if err := job[2].Set(t.Context(), "a", []byte("b")); err != nil {
				t.Error(err)
			}
			if value, err := job[3].Get(t.Context(), "a", patience); err != nil || string(value) != "b" {
				t.Errorf("Get = %q, %v", value, err)
			}
			// Those who do not wait hear of it.
			waitFor(t, func() bool { return job[3].Err() != nil })
			expect(t, job[3].Err(), status.Unavailable, "rank 1 is dead")
			// The rank itself finds that it is alone.
			waitFor(t, func() bool { return job[1].Err() != nil })
			expect(t, job[1].Set(t.Context(), "a", nil), status.Unavailable, "rank 0 is dead")
		})
	}
}

// TestBrokenConnection: a connection that comes back in time is none that is gone, and calls that wait
// go on waiting.
func TestBrokenConnection(t *testing.T) {
	job, w := startWired(t, 2, 10*patience)
	errs := waitEverywhere(t, job[0].server, job[1:])
	for range 3 {
		w.cut(false)
		waitFor(t, func() bool { // the waiting calls are there again
			w.mutex.Lock()
			defer w.mutex.Unlock()
			return len(w.ends) > 0
		})
		waitForArrivals(t, job[0].server, "never", 1)
	}
	if err := job[0].Set(t.Context(), "never", nil); err != nil {
		t.Error(err)
	}
	if err := job[0].Barrier(t.Context(), "never", patience); err != nil {
		t.Error(err)
	}
	for range cap(errs) {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if err := job[0].Err(); err != nil {
		t.Error(err)
	}
}

// TestDeadCannotComeBack: a rank that was taken for dead is told so when it is heard again.
func TestDeadCannotComeBack(t *testing.T) {
	job, _ := startWired(t, 2, patience/4)
	s := job[0].server
	s.mutex.Lock()
	s.buryLocked(1, "the test says so")
	s.mutex.Unlock()
	waitFor(t, func() bool { return job[1].Err() != nil && job[1].life.Err() != nil })
	expect(t, job[1].Err(), status.FailedPrecondition, "rank 1", "taken for dead", "restart")
	options := job[1].options
	_, err := Start(t.Context(), options)
	expect(t, err, status.FailedPrecondition, "taken for dead")
}

// TestOwnPause: after a pause of the coordinator's process nobody else is to blame.
func TestOwnPause(t *testing.T) {
	job, _ := startWired(t, 2, patience)
	s := job[0].server
	late := time.Now().Add(2 * patience)
	s.inspect(late, true)
	expect(t, job[0].Err(), status.OK)
	s.mutex.Lock()
	dead := len(s.ranksLocked(dead))
	s.mutex.Unlock()
	if dead != 0 {
		t.Errorf("%d ranks taken for dead after a pause", dead)
	}
}

func TestWrongToken(t *testing.T) {
	job := startJob(t, 1, func(o *Options) { o.WorldSize = 2 })
	options := job[0].options
	options.Rank, options.Token = 1, "another-token-0123456789"
	_, err := Start(t.Context(), options)
	expect(t, err, status.Unauthenticated, TokenVariable)
	if strings.Contains(err.Error(), options.Token) || strings.Contains(err.Error(), testToken) {
		t.Errorf("a token is in the message %q", err)
	}

	// Every call of the service is guarded, not only the first.
	conn, err := grpc.NewClient("passthrough:///"+job[0].Address(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	stub := proto.NewCoordinatorClient(conn)
	calls := map[string]func(context.Context) error{
		"Get": func(ctx context.Context) error {
			_, err := stub.Get(ctx, &proto.GetRequest{Key: []byte("a")})
			return err
		},
		"TryGet":  func(ctx context.Context) error { _, err := stub.TryGet(ctx, &proto.TryGetRequest{}); return err },
		"Set":     func(ctx context.Context) error { _, err := stub.Set(ctx, &proto.SetRequest{}); return err },
		"Delete":  func(ctx context.Context) error { _, err := stub.Delete(ctx, &proto.DeleteRequest{}); return err },
		"List":    func(ctx context.Context) error { _, err := stub.List(ctx, &proto.ListRequest{}); return err },
		"Barrier": func(ctx context.Context) error { _, err := stub.Barrier(ctx, &proto.BarrierRequest{}); return err },
		"Leave":   func(ctx context.Context) error { _, err := stub.Leave(ctx, &proto.LeaveRequest{}); return err },
		"Attend": func(ctx context.Context) error {
			stream, err := stub.Attend(ctx)
			if err != nil {
				return err
			}
			_, err = stream.Recv()
			return err
		},
	}
	if n := len(proto.Coordinator_ServiceDesc.Methods) + len(proto.Coordinator_ServiceDesc.Streams); n != len(calls) {
		t.Errorf("%d calls are tested, the service has %d", len(calls), n)
	}
	for name, call := range calls {
		for token, code := range map[string]status.Code{
			"": status.Unauthenticated, testToken[1:]: status.Unauthenticated, testToken + "x": status.Unauthenticated, strings.ToUpper(testToken): status.Unauthenticated,
		} {
			ctx := metadata.AppendToOutgoingContext(t.Context(), tokenKey, token, rankKey, "0", memberKey, job[0].member)
			if err := call(ctx); err == nil || fromWire(err).Code != code {
				t.Errorf("%s with the token %q: %v", name, token, err)
			}
		}
		if err := call(t.Context()); err == nil || fromWire(err).Code != status.Unauthenticated {
			t.Errorf("%s without a token: %v", name, err)
		}
		for _, rank := range []string{"", "2", "-1", "first"} {
			ctx := metadata.AppendToOutgoingContext(t.Context(), tokenKey, testToken, rankKey, rank)
			if err := call(ctx); err == nil || fromWire(err).Code != status.PermissionDenied {
				t.Errorf("%s of rank %q: %v", name, rank, err)
			}
		}
		if name == "Attend" { // which makes a member
			continue
		}
		ctx := metadata.AppendToOutgoingContext(t.Context(), tokenKey, testToken, rankKey, "1")
		if err := call(ctx); err == nil || fromWire(err).Code != status.FailedPrecondition {
			t.Errorf("%s of a rank that has not connected: %v", name, err)
		}
	}
	if got := sha256.Sum256([]byte(testToken)); got != job[0].server.tokenHash {
		t.Error("the server compares with another token")
	}
}

func TestRefusals(t *testing.T) {
	job := startJob(t, 2, nil)
	options := job[1].options
	_, err := Start(t.Context(), options)
	expect(t, err, status.AlreadyExists, "rank 1", "another process")

	options.WorldSize = 3
	_, err = Start(t.Context(), options)
	expect(t, err, status.InvalidArgument, "world size 2", "3")

	if err := job[1].Close(); err != nil {
		t.Fatal(err)
	}
	_, err = Start(t.Context(), job[1].options)
	expect(t, err, status.FailedPrecondition, "rank 1 has closed")

	zero := job[0].options
	_, err = Start(t.Context(), zero)
	expect(t, err, status.Unavailable, "cannot listen", zero.Port)
}

// TestNobodyThere: the start ends with its timeout or its context, and says what was tried.
func TestNobodyThere(t *testing.T) {
	checkGoroutines(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	listener.Close()
	options := Options{Rank: 1, WorldSize: 2, Address: "127.0.0.1", Port: port, Token: testToken, ConnectTimeout: 200 * time.Millisecond}
	start := time.Now()
	_, err = Start(t.Context(), options)
	expect(t, err, status.DeadlineExceeded, "rank 0 did not answer", port, "200ms", "refused")
	if took := time.Since(start); took < 200*time.Millisecond || took > patience {
		t.Errorf("it took %v", took)
	}
	options.ConnectTimeout = patience
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = Start(ctx, options)
	expect(t, err, status.Cancelled)
}

// TestLateRank0: the others may be started first.
func TestLateRank0(t *testing.T) {
	checkGoroutines(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	listener.Close()
	options := Options{WorldSize: 2, Address: "127.0.0.1", Port: port, Token: testToken, ConnectTimeout: patience, ShutdownTimeout: patience}
	job := make([]*Coordinator, 2)
	var group sync.WaitGroup
	group.Go(func() {
		one := options
		one.Rank = 1
		c, err := Start(t.Context(), one)
		if err != nil {
			t.Error(err)
			return
		}
		job[1] = c
	})
	time.Sleep(100 * time.Millisecond)
	if job[0], err = Start(t.Context(), options); err != nil {
		t.Error(err)
	}
	group.Wait()
	closeAll(t, job)
}

// TestAnotherService: a port on which something else listens is said to be that.
func TestAnotherService(t *testing.T) {
	checkGoroutines(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	other := grpc.NewServer()
	var serving sync.WaitGroup
	serving.Go(func() { _ = other.Serve(listener) })
	defer serving.Wait()
	defer other.Stop()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	_, err = Start(t.Context(), Options{Rank: 1, WorldSize: 2, Address: "127.0.0.1", Port: port, Token: testToken, ConnectTimeout: patience})
	expect(t, err, status.Unavailable, "another service", port)
}
