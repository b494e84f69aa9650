package bind

import (
	"encoding/json"
	"runtime"

	"xla_go/gosrc/dispatch"
	"xla_go/gosrc/ir"
)

// LiveCounts gives what the tensors' side of the runtime holds now, as a JSON object: device
// buffers, IR nodes, storages, reads that were begun and not ended, and recorded programs. All zero before the first use.
func LiveCounts() string {
	counts := map[string]int64{"buffers": ir.LiveBuffers(), "reads": int64(dispatch.PendingReads()), "recordings": dispatch.Recordings()}
	counts["nodes"], counts["storages"] = 0, 0
	if space := dispatch.Space(); space != nil {
		space.Core.Mu.Lock()
		counts["nodes"], counts["storages"] = space.Core.Graph.Live(), space.Live()
		space.Core.Mu.Unlock()
	}
	text, err := json.Marshal(counts)
	if err != nil {
		return "{}" // integers always marshal
	}
	return string(text)
}

// Goroutines gives how many goroutines there are, for those who look for one that never ends.
func Goroutines() int64 { return int64(runtime.NumGoroutine()) }

// LiveBuffers gives the values in device memory that storages hold, as a JSON list of objects: storage, device, shape (in
// HLO's notation), bytes, ready, op (what made the value, "" where it came from the host), made_at (the lines that did, the
// innermost first, "" where none were recorded). Not blocking.
func LiveBuffers() (text string, err error) {
	defer guard(&err)
	list := []map[string]any{}
	space := dispatch.Space()
	if space == nil {
		return encode(list)
	}
	client := space.Core.Client()
	space.Core.Mu.Lock()
	defer space.Core.Mu.Unlock()
	for _, held := range space.HeldValues() {
		s := ir.ShapeOf(held.Value)
		data, failure, scheduled := held.Value.Buffer.Scheduled()
		list = append(list, map[string]any{
			"storage": held.Storage, "device": held.Device, "shape": s.String(), "bytes": s.ByteSize(),
			"ready": scheduled && failure == nil && client.IsReady(data),
			"op":    opOf(held.Value.Buffer.Origin), "made_at": held.Value.Stack.Line(),
		})
	}
	return encode(list)
}

func opOf(o ir.Origin) string {
	if o.Kind == ir.KindInvalid || o.Kind == ir.KindParameter {
		return ""
	}
	return o.Kind.String()
}
