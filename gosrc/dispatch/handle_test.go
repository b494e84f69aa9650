package dispatch

import (
	"sync"
	"testing"

	"xla_go/gosrc/status"
)

func TestHandles(t *testing.T) {
	h := NewHandles[string]("text")
	a, b := h.Add("a"), h.Add("b")
	if a < 1 || b < 1 || a == b || h.Count() != 2 {
		t.Fatalf("handles %d and %d, %d open", a, b, h.Count())
	}
	if item, err := h.Get(b); item != "b" || err != nil {
		t.Errorf("Get = %q, %v", item, err)
	}
	if item, open := h.Remove(a); item != "a" || !open {
		t.Errorf("Remove = %q, %v", item, open)
	}
	c := h.Add("c") // in the place of a
	for _, closed := range []int64{a, 0, -1, 1, c + 1, c << 1} {
		if item, err := h.Get(closed); item != "" || status.CodeOf(err) != status.InvalidArgument {
			t.Errorf("Get(%d) = %q, %v, want InvalidArgument", closed, item, err)
		}
		if _, open := h.Remove(closed); open {
			t.Errorf("Remove(%d) says that it was open", closed)
		}
	}
	if item, err := h.Get(c); item != "c" || err != nil || h.Count() != 2 {
		t.Errorf("Get = %q, %v, %d open", item, err, h.Count())
	}
}

func TestHandlesAreNotUsedTwice(t *testing.T) {
	h := NewHandles[int]("number")
	seen := map[int64]bool{}
	for i := range 1000 {
		handle := h.Add(i)
		if seen[handle] {
			t.Fatalf("%d is given twice", handle)
		}
		seen[handle] = true
		if i%3 != 0 {
			h.Remove(handle)
		}
	}
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for i := range 1000 {
				handle := h.Add(i)
				if item, err := h.Get(handle); item != i || err != nil {
					t.Errorf("Get = %d, %v, want %d", item, err, i)
				}
				h.Remove(handle)
			}
		})
	}
	group.Wait()
	if h.Count() != 334 {
		t.Errorf("%d open, want 334", h.Count())
	}
}

func BenchmarkHandles(b *testing.B) {
	h := NewHandles[*int]("number")
	for range 1000 {
		h.Add(nil)
	}
	for b.Loop() {
		handle := h.Add(nil)
		_, _ = h.Get(handle)
		h.Remove(handle)
	}
}
