package platform

import (
	"xla_go/gosrc/client"
	"xla_go/gosrc/status"
	"xla_go/pjrt"
)

type profile struct{ profiler *pjrt.Profiler }

// StartProfile begins to record what the plugin and its devices do; Unimplemented where the plugin has no profiler.
func (p *Platform) StartProfile() (client.Profile, error) {
	profiler, err := p.PJRT.Plugin().NewProfiler(nil)
	if err != nil {
		return nil, err
	}
	if err := profiler.Start(); err != nil {
		profiler.Destroy()
		return nil, status.Annotate(err, "StartProfile()")
	}
	return &profile{profiler}, nil
}

// Stop ends the recording and gives its XSpace.
func (f *profile) Stop() ([]byte, error) {
	defer f.profiler.Destroy()
	if err := f.profiler.Stop(); err != nil {
		return nil, status.Annotate(err, "Stop()")
	}
	recorded, err := f.profiler.Collect()
	return recorded, status.Annotate(err, "Stop()")
}
