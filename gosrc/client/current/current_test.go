package current

import (
	"strings"
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

func (n *named) GetDefaultDevice() string { return n.name }

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
	var constructed, refused atomic.Int32
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			c, err := Initialize(func() (client.Client, error) {
				constructed.Add(1)
				return &named{name: "TPU:7"}, nil
			})
			if err == nil {
				if known, err := Get(); known != c || err != nil || c != IfInitialized() {
					t.Errorf("made %v, but Get gives %v, %v", c, known, err)
				}
				return
			}
			refused.Add(1)
			if status.CodeOf(err) != status.FailedPrecondition || !strings.Contains(err.Error(), "once") || !strings.Contains(err.Error(), "TPU:7") {
				t.Errorf("the second initialization: %v", err)
			}
			if IfInitialized() == nil {
				t.Error("refused before there was a client")
			}
		})
	}
	group.Wait()
	if constructed.Load() != 1 || refused.Load() != 7 {
		t.Errorf("constructed %d times and refused %d times, want 1 and 7", constructed.Load(), refused.Load())
	}
}

func TestFirstFailureStays(t *testing.T) {
	defer Replace(nil)()
	_, first := Initialize(func() (client.Client, error) {
		return nil, status.Errorf(status.NotFound, "no plugin")
	})
	for range 2 {
		c, second := Initialize(func() (client.Client, error) {
			t.Error("constructed after a failure")
			return &named{}, nil
		})
		if c != nil || first == nil || second != first {
			t.Errorf("after %v came %v, %v; want the first failure again", first, c, second)
		}
		if _, err := Get(); err != first || IfInitialized() != nil {
			t.Errorf("Get = %v, want %v", err, first)
		}
	}
}
