package platform

import "xla_go/pjrt"

// Alive counts what this process holds of all plugins, by sort. All are 0 once every client is closed; the
// plugin's threads may free the last of it a little later.
func Alive() map[string]int64 {
	lent, _ := HostPoolBytes()
	return map[string]int64{
		"buffers": pjrt.LiveBuffers(), "executables": pjrt.LiveExecutables(), "events": pjrt.LiveEvents(), "errors": pjrt.LiveErrors(),
		"bytes of uploads": lent,
	}
}
