package platform

import (
	"testing"
	"time"

	"xla_go/gosrc/client"
	"xla_go/gosrc/dtype"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
	"xla_go/pjrt"
	"xla_go/pjrt/testplugin"
)

func take(t *testing.T, p *hostPool, size int64) *pjrt.HostMemory {
	t.Helper()
	m, err := p.take(size)
	if err != nil {
		t.Fatal(err)
	}
	if int64(len(m.Bytes)) < size || m.Address()%64 != 0 {
		t.Fatalf("%d bytes: got %d at %#x", size, len(m.Bytes), m.Address())
	}
	return m
}

// liveMemory gives the bytes of host memory that live, once none of them belongs to the pool of uploads, which gives back what
// tests before have left there in its own time.
func liveMemory(t *testing.T) int64 {
	t.Helper()
	eventually(t, "uploads of earlier tests came back", func() bool {
		lent, _ := HostPoolBytes()
		return lent == 0
	})
	uploads.trim(0)
	return pjrt.LiveHostMemory()
}

func TestRoundedSize(t *testing.T) {
	for size := int64(1); size < 1<<40; size += size/7 + 1 {
		rounded := roundedSize(size)
		if rounded < size || rounded > size+max(size/8, 4095) || roundedSize(rounded) != rounded {
			t.Fatalf("%d is rounded to %d", size, rounded)
		}
	}
}

func TestHostPoolGivesTheSameMemoryAgain(t *testing.T) {
	live := liveMemory(t)
	p := newHostPool(1<<30, time.Hour)
	first := take(t, p, 5<<20)
	second := take(t, p, 5<<20)
	if first.Address() == second.Address() {
		t.Fatal("the same memory was lent twice")
	}
	address := second.Address()
	p.give(first)
	p.give(second)
	again := take(t, p, 5<<20-100)
	if again.Address() != address {
		t.Error("what came back last, and is warmest, was not lent first")
	}
	if other := take(t, p, 3<<20); len(other.Bytes) >= 5<<20 {
		t.Error("memory of another size was lent")
	} else {
		p.give(other)
	}
	p.give(again)
	if p.lent != 0 || p.bytes == 0 {
		t.Errorf("%d bytes lent and %d idle after all came back", p.lent, p.bytes)
	}
	p.trim(0)
	if p.bytes != 0 || len(p.idle) != 0 || pjrt.LiveHostMemory() != live {
		t.Errorf("%d bytes idle and %d live after a trim", p.bytes, pjrt.LiveHostMemory()-live)
	}
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

func (p *hostPool) idleBytes() int64 {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.bytes
}

func TestHostPoolKeepsToItsLimit(t *testing.T) {
	p := newHostPool(4<<20, time.Hour)
	var list []*pjrt.HostMemory
	for range 8 {
		list = append(list, take(t, p, 1<<20))
	}
	last := list[7].Address()
	for _, m := range list {
		p.give(m)
	}
	eventually(t, "the pool is back at its limit", func() bool { return p.idleBytes() == 4<<20 })
	if m := take(t, p, 1<<20); m.Address() != last {
		t.Error("not the oldest memory went")
	} else {
		p.give(m)
	}
	p.trim(0)
}

func TestHostPoolGivesBackWhatLiesIdle(t *testing.T) {
	live := liveMemory(t)
	p := newHostPool(1<<30, 20*time.Millisecond)
	for range 2 { // the pool wakes again after it was empty
		p.give(take(t, p, 1<<20))
		eventually(t, "idle memory went back", func() bool { return p.idleBytes() == 0 && pjrt.LiveHostMemory() == live })
	}
}

// Memory of an upload that fails, at once or later, comes back; that of one that is late does when it is done.
func TestMemoryOfFailedUploads(t *testing.T) {
	lent := func() int64 { n, _ := HostPoolBytes(); return n }
	s := shape.Make(dtype.F32, 1<<19)
	source := client.TensorSource{Shape: s, Bytes: make([]byte, s.ByteSize())}
	for _, test := range []struct {
		name    string
		options map[string]any
		atOnce  bool
	}{
		{"refused", map[string]any{"fail:Client_BufferFromHostBuffer": int64(status.ResourceExhausted)}, true},
		{"failed", map[string]any{"fail_upload": int64(status.Internal)}, false},
		{"late", map[string]any{"delay_ms": int64(50)}, false},
	} {
		p, err := New(Options{PluginPath: testplugin.Build(t), CreateOptions: test.options})
		if err != nil {
			t.Fatal(err)
		}
		p.OnHost = true // the way of CPU plugins
		source.Device = p.Local[0].Name
		var b *pjrt.Buffer
		err = p.UploadAll([]client.TensorSource{source}, func(_ int, made *pjrt.Buffer, _ *Device) { b = made })
		if test.atOnce {
			if err == nil || lent() != 0 {
				t.Errorf("%s: %v, %d bytes lent", test.name, err, lent())
			}
		} else if err != nil {
			t.Errorf("%s: %v", test.name, err)
		} else {
			b.Destroy()
			eventually(t, test.name+": the memory came back", func() bool { return lent() == 0 })
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
	uploads.trim(0)
}
