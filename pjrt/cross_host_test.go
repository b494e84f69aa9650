package pjrt

import (
	"context"
	"strings"
	"testing"
	"time"

	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
)

// brokenStore refuses what it is given, or never has what it is asked for.
type brokenStore struct {
	*memoryStore
	put, get error
}

func (s brokenStore) Put(key string, value []byte) error {
	if s.put != nil {
		return s.put
	}
	return s.memoryStore.Put(key, value)
}

func (s brokenStore) Get(key string, timeout time.Duration) ([]byte, error) {
	if s.get != nil {
		return nil, s.get
	}
	return s.memoryStore.Get(key, timeout)
}

// Where a plugin has only the older functions, Send and Receive find each other through the store.
func TestSendByDescriptor(t *testing.T) {
	lost := status.Errorf(status.Unavailable, "the store is gone")
	for _, test := range []struct {
		name           string
		store          KeyValueStore
		sent, received status.Code
	}{
		{"a store", newMemoryStore(), status.OK, status.OK},
		{"a store that takes nothing", brokenStore{newMemoryStore(), lost, lost}, status.Unavailable, status.Unavailable},
	} {
		p := loadTestPlugin(t)
		c, err := p.NewClient(map[string]any{"devices": 2, "delay_ms": 2, "extensions": "-12"}, WithKeyValueStore(test.store))
		if err != nil {
			t.Fatal(err)
		}
		b := vectorOf(t, c, 0, 1, 2, 3, 4)
		// The sender comes first and waits.
		events, err := c.Send([]*Buffer{b, b}, []int64{1, 1}, []int64{7, 8})
		if err != nil {
			t.Fatal(err)
		}
		received, err := c.Receive([]shape.Shape{vector, vector}, c.AddressableDevices()[1], []int64{0, 0}, []int64{7, 8})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		for i := range events {
			if err := events[i].AwaitContext(ctx); status.CodeOf(err) != test.sent {
				t.Errorf("%s: the sender is told %v", test.name, err)
			}
			if err := received[i].AwaitContext(ctx); status.CodeOf(err) != test.received {
				t.Errorf("%s: the receiver is told %v", test.name, err)
			} else if err == nil {
				wantVector(t, received[i], 1, 2, 3, 4)
			}
			if d, err := received[i].Device(); err != nil || d != c.AddressableDevices()[1] {
				t.Errorf("received on %v, %v", d, err)
			}
			events[i].Destroy()
			received[i].Destroy()
		}
		cancel()
		b.Destroy()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		nothingAlive(t, test.name)
	}

	c := testPluginClient(t, map[string]any{"extensions": "-12"})
	b := vectorOf(t, c, 0, 1, 2, 3, 4)
	_, err := c.Send([]*Buffer{b}, []int64{0}, []int64{7})
	_, again := c.Receive([]shape.Shape{vector}, c.Devices()[0], []int64{0}, []int64{7})
	for _, err := range []error{err, again} {
		if status.CodeOf(err) != status.FailedPrecondition || !strings.Contains(err.Error(), "WithKeyValueStore") {
			t.Errorf("without a store: %v", err)
		}
	}
}
