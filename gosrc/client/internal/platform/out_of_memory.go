package platform

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"xla_go/gosrc/client"
	"xla_go/gosrc/status"
)

// LacksMemory says whether an error is for want of memory. Older CPU plugins lose the code of one that comes
// from another thread than the call's: it is INTERNAL then, around the words of the other.
func LacksMemory(err error) bool {
	switch status.CodeOf(err) {
	case status.ResourceExhausted:
		return true
	case status.Internal:
		return strings.Contains(status.MessageOf(err), "Out of memory allocating ")
	}
	return false
}

// Exhausted adds to an error for want of memory how much is in use on devices: what open data takes, and the
// allocator's own numbers where the plugin tells them. Its code is RESOURCE_EXHAUSTED. Other errors it gives
// back as they are. The numbers are those of the time of the call.
func Exhausted(err error, devices ...*Device) error {
	if !LacksMemory(err) {
		return err
	}
	var words strings.Builder
	for i, d := range devices {
		if slices.Contains(devices[:i], d) {
			continue
		}
		n := d.DataBytes()
		fmt.Fprintf(&words, "; on %s open data hold %d bytes (%s)", d.Name, n, binarySize(n))
		stats, err := d.PJRT.MemoryStats()
		if err != nil {
			continue // the plugin counts nothing
		}
		fmt.Fprintf(&words, ", the allocator tells bytes_in_use=%d", stats.BytesInUse)
		for _, name := range slices.Sorted(maps.Keys(stats.Optional)) {
			fmt.Fprintf(&words, " %s=%d", name, stats.Optional[name])
		}
	}
	return &status.Error{Code: status.ResourceExhausted, Message: strings.TrimRight(status.MessageOf(err), ".") + words.String(), Cause: err, Exception: status.ExceptionOf(err)}
}

// binarySize writes bytes in the largest unit of which there is at least one.
func binarySize(bytes int64) string {
	const units = " KMGTPE"
	size, unit := float64(bytes), 0
	for size >= 1024 && unit < len(units)-1 {
		size, unit = size/1024, unit+1
	}
	if unit == 0 {
		return fmt.Sprintf("%d B", bytes)
	}
	return fmt.Sprintf("%.2f %ciB", size, units[unit])
}

// UploadExhausted is Exhausted for the devices that arrays were to be copied to.
func (p *Platform) UploadExhausted(err error, sources []client.TensorSource) error {
	if !LacksMemory(err) {
		return err
	}
	var devices []*Device
	for i := range sources {
		if d := p.byName[sources[i].Device]; d != nil {
			devices = append(devices, d)
		}
	}
	return Exhausted(err, devices...)
}
