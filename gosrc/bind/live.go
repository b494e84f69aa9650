package bind

import (
	"encoding/json"

	"xla_go/gosrc/dispatch"
	"xla_go/gosrc/ir"
)

// LiveCounts gives what the tensors' side of the runtime holds now, as a JSON object: device
// buffers, IR nodes, storages, and reads that were begun and not ended. All zero before the first use.
func LiveCounts() string {
	counts := map[string]int64{"buffers": ir.LiveBuffers(), "reads": int64(dispatch.PendingReads())}
	counts["nodes"], counts["storages"] = 0, 0
	if space := dispatch.Space(); space != nil {
		space.Core.Mu.Lock()
		space.Core.DrainReleases()
		counts["nodes"], counts["storages"] = space.Core.Graph.Live(), space.Live()
		space.Core.Mu.Unlock()
	}
	text, err := json.Marshal(counts)
	if err != nil {
		return "{}" // integers always marshal
	}
	return string(text)
}
