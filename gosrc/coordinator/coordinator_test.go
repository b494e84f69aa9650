package coordinator

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"xla_go/gosrc/env"
	"xla_go/gosrc/status"
)

const testToken = "token-of-the-tests-0123"

// patience is for what must happen soon; a slow machine may need a part of it.
const patience = 20 * time.Second

// checkGoroutines fails the test if goroutines are left when it is over.
func checkGoroutines(t *testing.T) {
	t.Helper()
	before := runtime.NumGoroutine()
	t.Cleanup(func() {
		deadline := time.Now().Add(patience)
		for runtime.NumGoroutine() > before && time.Now().Before(deadline) {
			time.Sleep(5 * time.Millisecond)
		}
		if n := runtime.NumGoroutine(); n > before {
			stacks := make([]byte, 1<<16)
			t.Errorf("%d goroutines before, %d after:\n%s", before, n, stacks[:runtime.Stack(stacks, true)])
		}
	})
}

// startJob starts ranks of one job in this process; they are closed when the test is over.
func startJob(t *testing.T, ranks int, change func(*Options)) []*Coordinator {
	t.Helper()
	checkGoroutines(t)
	options := Options{WorldSize: ranks, Address: "127.0.0.1", Port: "0", Token: testToken, HeartbeatTimeout: patience, ConnectTimeout: patience, ShutdownTimeout: patience}
	if change != nil {
		change(&options)
	}
	job := make([]*Coordinator, ranks)
	t.Cleanup(func() { closeAll(t, job) })
	for rank := range job {
		options.Rank = rank
		c, err := Start(t.Context(), options)
		if err != nil {
			t.Fatal(err)
		}
		job[rank] = c
		options.Port = job[0].options.Port
	}
	return job
}

func closeAll(t *testing.T, job []*Coordinator) {
	var group sync.WaitGroup
	for rank, c := range job {
		if c != nil {
			group.Go(func() {
				if err := c.Close(); err != nil {
					t.Errorf("rank %d: Close: %v", rank, err)
				}
			})
		}
	}
	group.Wait()
}

// expect checks a code and that the message holds all texts.
func expect(t *testing.T, err error, code status.Code, texts ...string) {
	t.Helper()
	if status.CodeOf(err) != code {
		t.Errorf("expected %v, got %v", code, err)
		return
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("expected %q in the message %q", text, err)
		}
	}
}

func TestValues(t *testing.T) {
	job := startJob(t, 2, nil)
	ctx := t.Context()
	_, err := job[1].TryGet(ctx, "a")
	expect(t, err, status.NotFound, `"a"`)
	value := []byte("\x00one\xff")
	if err := job[0].Set(ctx, "a", value); err != nil {
		t.Fatal(err)
	}
	for _, c := range job {
		if got, err := c.TryGet(ctx, "a"); err != nil || string(got) != string(value) {
			t.Errorf("rank %d: TryGet = %q, %v", c.Rank(), got, err)
		}
		if got, err := c.Get(ctx, "a", 0); err != nil || string(got) != string(value) {
			t.Errorf("rank %d: Get = %q, %v", c.Rank(), got, err)
		}
	}
	for i, key := range []string{"dir/b", "dir/a", "dirt"} {
		if err := job[1].Set(ctx, key, []byte{byte(i)}); err != nil {
			t.Fatal(err)
		}
	}
	items, err := job[0].List(ctx, "dir/")
	if err != nil || len(items) != 2 || items[0].Key != "dir/a" || items[1].Key != "dir/b" || items[0].Value[0] != 1 {
		t.Errorf("List = %v, %v", items, err)
	}
	if err := job[1].Set(ctx, "a", []byte("two")); err != nil {
		t.Fatal(err)
	}
	if got, err := job[0].TryGet(ctx, "a"); err != nil || string(got) != "two" {
		t.Errorf("TryGet after the second Set = %q, %v", got, err)
	}
	for range 2 { // the second time there is nothing to delete
		if err := job[0].Delete(ctx, "a"); err != nil {
			t.Fatal(err)
		}
	}
	_, err = job[1].TryGet(ctx, "a")
	expect(t, err, status.NotFound)
	_, err = job[1].Get(ctx, "", time.Second)
	expect(t, err, status.InvalidArgument)
	_, err = job[1].Get(ctx, "a", -1)
	expect(t, err, status.InvalidArgument)
}

func TestGetWaits(t *testing.T) {
	job := startJob(t, 2, nil)
	got := make(chan string, 8)
	for range cap(got) {
		go func() {
			value, err := job[1].Get(t.Context(), "late", patience)
			got <- fmt.Sprint(string(value), err)
		}()
	}
	waitFor(t, func() bool {
		s := job[0].server
		s.mutex.Lock()
		defer s.mutex.Unlock()
		w := s.awaited["late"]
		return w != nil && w.waiting == cap(got)
	})
	if err := job[0].Set(t.Context(), "late", []byte("now")); err != nil {
		t.Fatal(err)
	}
	for range cap(got) {
		if text := <-got; text != "now<nil>" {
			t.Errorf("Get = %s", text)
		}
	}

	start := time.Now()
	_, err := job[1].Get(t.Context(), "never", 50*time.Millisecond)
	expect(t, err, status.DeadlineExceeded, `"never"`, "50ms")
	if took := time.Since(start); took < 50*time.Millisecond {
		t.Errorf("Get gave up after %v", took)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	_, err = job[1].Get(ctx, "never", patience)
	expect(t, err, status.Cancelled)
	waitFor(t, func() bool {
		s := job[0].server
		s.mutex.Lock()
		defer s.mutex.Unlock()
		return len(s.awaited) == 0
	})
}

func waitFor(t *testing.T, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("what had to happen did not")
		}
	}
}

func TestLargeValue(t *testing.T) {
	job := startJob(t, 2, nil)
	value := strings.Repeat("0123456789abcdef", 5<<16)
	if err := job[0].Set(t.Context(), "large", []byte(value)); err != nil {
		t.Fatal(err)
	}
	if got, err := job[1].Get(t.Context(), "large", patience); err != nil || string(got) != value {
		t.Errorf("Get = %d bytes, %v; want %d", len(got), err, len(value))
	}
	expect(t, job[0].Set(t.Context(), "large", make([]byte, maxMessageBytes)), status.ResourceExhausted)
}

// TestBarrier: nobody passes before the last has come, over and over under one name.
func TestBarrier(t *testing.T) {
	job := startJob(t, 4, nil)
	var mutex sync.Mutex
	arrived := 0
	var group sync.WaitGroup
	for _, c := range job {
		group.Go(func() {
			for i := range 10 {
				mutex.Lock()
				arrived++
				mutex.Unlock()
				if err := c.Barrier(t.Context(), "step", patience); err != nil {
					t.Errorf("rank %d: %v", c.Rank(), err)
					return
				}
				mutex.Lock()
				if arrived < (i+1)*len(job) {
					t.Errorf("rank %d passed barrier %d with %d arrivals", c.Rank(), i, arrived)
				}
				mutex.Unlock()
			}
		})
	}
	group.Wait()
}

func TestBarrierTimeout(t *testing.T) {
	job := startJob(t, 3, nil)
	ctx := t.Context()
	patient := make(chan error, 1)
	go func() { patient <- job[1].Barrier(ctx, "b", patience) }()
	waitForArrivals(t, job[0].server, "b", 1)
	expect(t, job[0].Barrier(ctx, "b", 30*time.Millisecond), status.DeadlineExceeded, `"b"`, "rank 2")
	expect(t, <-patient, status.DeadlineExceeded, "rank 2")
	expect(t, job[2].Barrier(ctx, "b", patience), status.DeadlineExceeded, "rank 2")

	results := make(chan error, len(job))
	for _, c := range job {
		go func() { results <- c.Barrier(ctx, "b", patience) }()
	}
	for range job {
		if err := <-results; err != nil {
			t.Errorf("the barrier after the one that failed: %v", err)
		}
	}
	expect(t, job[0].Barrier(ctx, "", time.Second), status.InvalidArgument)
}

func waitForArrivals(t *testing.T, s *server, name string, n int) {
	t.Helper()
	waitFor(t, func() bool {
		s.mutex.Lock()
		defer s.mutex.Unlock()
		b := s.barriers[name]
		return b != nil && b.current != nil && len(b.current.arrived) == n
	})
}

// TestBarrierGivenUp: who gives up has not been there, and may come again.
func TestBarrierGivenUp(t *testing.T) {
	job := startJob(t, 2, nil)
	ctx, cancel := context.WithCancel(t.Context())
	gaveUp := make(chan error, 1)
	go func() { gaveUp <- job[1].Barrier(ctx, "b", patience) }()
	waitForArrivals(t, job[0].server, "b", 1)
	expect(t, job[1].Barrier(t.Context(), "b", patience), status.FailedPrecondition, "already")
	cancel()
	expect(t, <-gaveUp, status.Cancelled)
	waitForArrivals(t, job[0].server, "b", 0)
	again := make(chan error, 1)
	go func() { again <- job[0].Barrier(t.Context(), "b", patience) }()
	waitForArrivals(t, job[0].server, "b", 1)
	if err := job[1].Barrier(t.Context(), "b", patience); err != nil {
		t.Error(err)
	}
	if err := <-again; err != nil {
		t.Error(err)
	}
}

func TestClose(t *testing.T) {
	job := startJob(t, 2, nil)
	waiting := make(chan error, 1)
	go func() {
		_, err := job[1].Get(t.Context(), "never", patience)
		waiting <- err
	}()
	waitFor(t, func() bool {
		s := job[0].server
		s.mutex.Lock()
		defer s.mutex.Unlock()
		return s.awaited["never"] != nil
	})
	for range 2 {
		if err := job[1].Close(); err != nil {
			t.Fatal(err)
		}
	}
	expect(t, <-waiting, status.FailedPrecondition, "closed")
	expect(t, job[1].Set(t.Context(), "a", nil), status.FailedPrecondition, "closed")
	expect(t, job[1].Err(), status.FailedPrecondition, "closed")
	expect(t, job[0].Barrier(t.Context(), "b", patience), status.Unavailable, "rank 1", "closed")
	if err := job[0].Err(); err != nil {
		t.Errorf("a rank that left counts as a failure: %v", err)
	}
}

// TestCloseOfRank0 waits for the others, and tells those that it no longer waits for.
func TestCloseOfRank0(t *testing.T) {
	checkGoroutines(t)
	options := Options{WorldSize: 2, Address: "127.0.0.1", Port: "0", Token: testToken, HeartbeatTimeout: patience, ConnectTimeout: patience, ShutdownTimeout: 50 * time.Millisecond}
	zero, err := Start(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	options.Rank, options.Port = 1, zero.options.Port
	one, err := Start(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	waiting := make(chan error, 1)
	go func() {
		_, err := one.Get(t.Context(), "never", patience)
		waiting <- err
	}()
	expect(t, zero.Close(), status.DeadlineExceeded, "rank 1")
	expect(t, zero.Close(), status.DeadlineExceeded, "rank 1")
	expect(t, <-waiting, status.Unavailable, "rank 0 has closed the coordinator")
	if err := one.Close(); err != nil {
		t.Error(err)
	}
}

func TestListensOnTheAddressOnly(t *testing.T) {
	job := startJob(t, 1, nil)
	_, port, err := net.SplitHostPort(job[0].Address())
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.DialTimeout("tcp", net.JoinHostPort("127.0.0.2", port), time.Second)
	if err == nil {
		conn.Close()
		t.Error("it listens on 127.0.0.2 too")
	}
}

func TestOptions(t *testing.T) {
	good := Options{Rank: 1, WorldSize: 2, Address: "127.0.0.1", Token: testToken}
	for name, change := range map[string]func(*Options){
		"world size":        func(o *Options) { o.WorldSize = 0 },
		"rank":              func(o *Options) { o.Rank = 2 },
		"address":           func(o *Options) { o.Address = "" },
		"port":              func(o *Options) { o.Port = "many" },
		"16 characters":     func(o *Options) { o.Token = "short" },
		"printable":         func(o *Options) { o.Token = "a token with spaces in it" },
		"heartbeat timeout": func(o *Options) { o.HeartbeatTimeout = -1 },
	} {
		bad := good
		change(&bad)
		_, err := Start(t.Context(), bad)
		expect(t, err, status.InvalidArgument, name)
		if strings.Contains(err.Error(), bad.Token) {
			t.Errorf("the token is in the message %q", err)
		}
	}
	bad := good
	bad.Token = ""
	_, err := Start(t.Context(), bad)
	expect(t, err, status.FailedPrecondition, TokenVariable)
}

func TestFromEnvironment(t *testing.T) {
	defer env.Replace(nil)
	for _, c := range []struct {
		variables map[string]string
		want      Options
	}{
		{nil, Options{WorldSize: 1, Address: "localhost", Port: "8547"}},
		{map[string]string{"MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500"}, Options{WorldSize: 1, Address: "10.0.0.1", Port: "8547"}}, // torch listens on its own port
		{
			map[string]string{"RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500", "XLA_COORDINATOR_PORT": "99", TokenVariable: "secret"},
			Options{Rank: 3, WorldSize: 4, Address: "10.0.0.1", Port: "99", Token: "secret"},
		},
		{
			map[string]string{"LOCAL_RANK": "1", "PJRT_LOCAL_PROCESS_COUNT": "2", "DIST_SERVICE_HEARTBEAT_INTERVAL_IN_SEC": "7", "DIST_SERVICE_SHUTDOWN_TIMEOUT_IN_MIN": "3"},
			Options{Rank: 1, WorldSize: 2, Address: "localhost", Port: "8547", HeartbeatTimeout: 7 * time.Second, ShutdownTimeout: 3 * time.Minute},
		},
	} {
		if c.variables == nil {
			c.variables = map[string]string{}
		}
		env.Replace(c.variables)
		if got, err := FromEnvironment(); err != nil || got != c.want {
			t.Errorf("%v: %+v, %v", c.variables, got, err)
		}
	}
	env.Replace(map[string]string{"RANK": "first"})
	_, err := FromEnvironment()
	expect(t, err, status.InvalidArgument, "RANK", "first")
}
