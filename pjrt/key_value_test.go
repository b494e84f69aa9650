package pjrt

import (
	"strings"
	"sync"
	"testing"
	"time"

	"xla_go/gosrc/status"
	"xla_go/pjrt/testplugin"
)

// memoryStore is a store for clients of one process.
type memoryStore struct {
	mutex   sync.Mutex
	changed *sync.Cond
	values  map[string][]byte
}

func newMemoryStore() *memoryStore {
	s := &memoryStore{values: map[string][]byte{}}
	s.changed = sync.NewCond(&s.mutex)
	return s
}

func (s *memoryStore) Get(key string, timeout time.Duration) ([]byte, error) {
	deadline := time.Now().Add(timeout)
	defer time.AfterFunc(timeout, s.changed.Broadcast).Stop()
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for s.values[key] == nil {
		if !time.Now().Before(deadline) {
			return nil, status.Errorf(status.DeadlineExceeded, "%s did not come within %v", key, timeout)
		}
		s.changed.Wait()
	}
	return s.values[key], nil
}

func (s *memoryStore) TryGet(key string) ([]byte, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if value, found := s.values[key]; found {
		return value, nil
	}
	return nil, status.Errorf(status.NotFound, "no %s", key)
}

func (s *memoryStore) Put(key string, value []byte) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.values[key] = value
	s.changed.Broadcast()
	return nil
}

func exchangePlugin(t *testing.T) *Plugin {
	t.Helper()
	p, err := Load(testplugin.BuildExchange(t))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestKeyValueCallbacks: two clients wait for what the other puts.
func TestKeyValueCallbacks(t *testing.T) {
	store := newMemoryStore()
	var group sync.WaitGroup
	for rank := range 2 {
		p := exchangePlugin(t) // a library of its own, as in a process of its own
		group.Go(func() {
			c, err := p.NewClient(map[string]any{"rank": rank, "ranks": 2, "devices": 3}, WithKeyValueStore(store))
			if err != nil {
				t.Error(err)
				return
			}
			if got, want := c.PlatformVersion(), "at 0|at 1|;absent=5"; got != want {
				t.Errorf("rank %d found %q, want %q", rank, got, want)
			}
			if n := len(c.Devices()); n != 3 {
				t.Errorf("%d devices", n)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	checkNoStores(t)
}

func checkNoStores(t *testing.T) {
	t.Helper()
	stores.Lock()
	defer stores.Unlock()
	if n := len(stores.open); n != 0 {
		t.Errorf("%d stores are still held", n)
	}
	if n := LiveErrors(); n != 0 {
		t.Errorf("%d errors alive", n)
	}
}

// failingStore fails in the named call.
type failingStore struct {
	*memoryStore
	put, tryGet func() error
}

func (s failingStore) Put(key string, value []byte) error {
	if s.put != nil {
		return s.put()
	}
	return s.memoryStore.Put(key, value)
}

func (s failingStore) TryGet(key string) ([]byte, error) { return nil, s.tryGet() }

func TestKeyValueFailures(t *testing.T) {
	p := exchangePlugin(t)
	tests := []struct {
		name  string
		more  []ClientOption
		code  status.Code
		words string
	}{
		{"no store", nil, status.FailedPrecondition, "no key-value callbacks"},
		{"a nil store", []ClientOption{WithKeyValueStore(nil)}, status.FailedPrecondition, "no key-value callbacks"},
		{"nobody else", []ClientOption{WithKeyValueStore(newMemoryStore())}, status.DeadlineExceeded, "node/1 did not come within 30ms"},
		{"a failing put", []ClientOption{WithKeyValueStore(failingStore{newMemoryStore(), func() error {
			return status.Errorf(status.Unavailable, "rank 7 is dead")
		}, nil})}, status.Unavailable, "rank 7 is dead"},
		{"a panic", []ClientOption{WithKeyValueStore(failingStore{newMemoryStore(), func() error { panic("lost my head") }, nil})}, status.Internal, "lost my head"},
	}
	for _, test := range tests {
		_, err := p.NewClient(map[string]any{"rank": 0, "ranks": 2, "timeout_ms": 30}, test.more...)
		if status.CodeOf(err) != test.code || err == nil || !strings.Contains(err.Error(), test.words) {
			t.Errorf("%s: %v, want %v with %q", test.name, err, test.code, test.words)
		}
		checkNoStores(t)
	}

	store := failingStore{newMemoryStore(), nil, func() error { return status.Errorf(status.PermissionDenied, "not for you") }}
	c, err := p.NewClient(map[string]any{"rank": 0, "ranks": 1}, WithKeyValueStore(store))
	if err != nil {
		t.Fatal(err)
	}
	if got := c.PlatformVersion(); !strings.HasSuffix(got, ";absent=7") {
		t.Errorf("a failing try-get arrives as %q", got)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	checkNoStores(t)
}
