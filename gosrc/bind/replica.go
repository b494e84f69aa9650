package bind

import "xla_go/gosrc/dispatch"

// SetReplicas has the first count devices run programs with collectives together, each from a thread of its own; 0 ends that.
// InitializeClient comes first. Not blocking.
func SetReplicas(count int64) (ok bool, err error) {
	defer guard(&err)
	if err := startTensors(); err != nil {
		return false, err
	}
	err = dispatch.Space().Core.SetReplicas(int(count))
	return err == nil, err
}

// LeaveReplicas says that a device brings no more collectives, and why: who waits for it fails. Not blocking.
func LeaveReplicas(device int64, reason string) (ok bool, err error) {
	defer guard(&err)
	if space := dispatch.Space(); space != nil {
		space.Core.LeaveReplicas(int(device), reason)
	}
	return true, nil
}
