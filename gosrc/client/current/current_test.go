package current

import (
	"sync"
	"sync/atomic"
	"testing"

	"xla_go/gosrc/client"
	"xla_go/gosrc/status"
)

// named is a client that only has an identity; no test here calls it.
type named struct {
	client.Client
	name string
}

func TestGetBeforeInitialize(t *testing.T) {
	defer Replace(nil)()
	if c, err := Get(); c != nil || status.CodeOf(err) != status.FailedPrecondition {
		t.Errorf("Get = %v, %v; want FailedPrecondition", c, err)
	}
	if IfInitialized() != nil {
		t.Error("IfInitialized gives a client before there is one")
	}
}

func TestInitializedOnce(t *testing.T) {
	defer Replace(nil)()
	var constructed atomic.Int32
	results := make([]client.Client, 8)
	var group sync.WaitGroup
	for i := range results {
		group.Go(func() {
			c, err := Initialize(func() (client.Client, error) {
				constructed.Add(1)
				return &named{name: "first"}, nil
			})
			if err != nil {
				t.Error(err)
			}
			results[i] = c
		})
	}
	group.Wait()
	if n := constructed.Load(); n != 1 {
		t.Errorf("constructed %d times, want once", n)
	}
	for _, c := range results {
		if c != results[0] || c != IfInitialized() {
			t.Error("callers got different clients")
		}
	}
}

func TestFirstFailureStays(t *testing.T) {
	defer Replace(nil)()
	_, first := Initialize(func() (client.Client, error) {
		return nil, status.Errorf(status.NotFound, "no plugin")
	})
	c, second := Initialize(func() (client.Client, error) { return &named{}, nil })
	if c != nil || first == nil || second != first {
		t.Errorf("after %v came %v, %v; want the first failure again", first, c, second)
	}
	if _, err := Get(); err != first || IfInitialized() != nil {
		t.Errorf("Get = %v, want %v", err, first)
	}
}
