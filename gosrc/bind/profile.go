package bind

import (
	"sync"

	"xla_go/gosrc/client"
	"xla_go/gosrc/client/current"
	"xla_go/gosrc/dispatch"
	"xla_go/gosrc/status"
	"xla_go/gosrc/xspace"
)

// profile is the recording of the plugin's profiler that goes on, nil for none.
var profile struct {
	sync.Mutex
	running client.Profile
}

// StartPluginProfile begins to record what the plugin and its devices do. False where the client is not made yet, or its
// plugin has no profiler; FailedPrecondition where a recording goes on.
func StartPluginProfile() (started bool, err error) {
	defer guard(&err)
	profiler, ok := current.IfInitialized().(client.Profiler)
	if !ok {
		return false, nil
	}
	profile.Lock()
	defer profile.Unlock()
	if profile.running != nil {
		return false, status.Errorf(status.FailedPrecondition, "StartPluginProfile(): expected no recording to be going on, there is one")
	}
	running, err := profiler.StartProfile()
	if status.CodeOf(err) == status.Unimplemented {
		return false, nil
	}
	profile.running = running
	return err == nil, err
}

// StopPluginProfile ends the recording and gives it, a serialized XSpace, as a handle for BytesLength and TakeBytes.
// BLOCKING for as long as the plugin collects.
func StopPluginProfile() (handle int64, err error) {
	defer guard(&err)
	profile.Lock()
	running := profile.running
	profile.running = nil
	profile.Unlock()
	if running == nil {
		return 0, status.Errorf(status.FailedPrecondition, "StopPluginProfile(): expected a recording to be going on, there is none")
	}
	recorded, err := running.Stop()
	if err != nil {
		return 0, err
	}
	return byteResults.Add(recorded), nil
}

// TracePrograms begins to note which programs of device xla run. It does nothing before the first tensor.
func TracePrograms() {
	if space := dispatch.Space(); space != nil {
		space.Core.TracePrograms()
	}
}

// TracedPrograms ends that and gives the programs, optimized, in the plane of a serialized XSpace that XProf and TensorBoard look
// for them in, as a handle for BytesLength and TakeBytes; 0 where nothing was begun.
func TracedPrograms() (handle int64, err error) {
	defer guard(&err)
	space := dispatch.Space()
	if space == nil {
		return 0, nil
	}
	names, modules, err := space.Core.TracedPrograms()
	if err != nil || len(modules) == 0 {
		return 0, err
	}
	return byteResults.Add(xspace.Programs(names, modules)), nil
}

// PluginEvents gives the events of a recording, whose handle stays open, as a JSON list of objects: plane, line_id, line,
// name, start_ns (since 1970), duration_ps.
func PluginEvents(handle int64) (text string, err error) {
	defer guard(&err)
	recorded, err := byteResults.Get(handle)
	if err != nil {
		return "", err
	}
	events, err := xspace.Events(recorded)
	if err != nil {
		return "", err
	}
	if events == nil {
		events = []xspace.Event{}
	}
	return encode(events)
}
