package coordinator

import (
	"context"
	"time"
)

// Store is the part of a coordinator's key-value store whose keys begin with a prefix, for a user who
// knows nothing of the others: a plugin, in the form of pjrt.KeyValueStore.
type Store struct {
	coordinator *Coordinator
	prefix      string
}

// Store gives the part with a prefix. Not blocking.
func (c *Coordinator) Store(prefix string) Store { return Store{c, prefix} }

// Get waits until the key has a value, at most for timeout, and gives it.
func (s Store) Get(key string, timeout time.Duration) ([]byte, error) {
	return s.coordinator.Get(context.Background(), s.prefix+key, timeout)
}

// TryGet gives the value, NotFound where the key has none.
func (s Store) TryGet(key string) ([]byte, error) {
	return s.coordinator.TryGet(context.Background(), s.prefix+key)
}

// Put gives the key a value.
func (s Store) Put(key string, value []byte) error {
	return s.coordinator.Set(context.Background(), s.prefix+key, value)
}
