package platform_test

import (
	"testing"
	"time"

	"xla_go/gosrc/client/internal/platform"
	"xla_go/gosrc/status"
	"xla_go/gosrc/xspace"
	"xla_go/pjrt/testplugin"
)

func TestProfileOfAPlugin(t *testing.T) {
	p, err := platform.New(platform.Options{PluginPath: testplugin.Build(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}()
	before := time.Now()
	running, err := p.StartProfile()
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(5 * time.Millisecond)
	recorded, err := running.Stop()
	if err != nil {
		t.Fatal(err)
	}
	events, err := xspace.Events(recorded)
	if err != nil || len(events) != 1 {
		t.Fatalf("%v %v", events, err)
	}
	e := events[0]
	if e.Plane != "/device:TEST:0" || e.Line != "runs" || e.LineID != 7 || e.Name != "profiled" {
		t.Errorf("%+v", e)
	}
	if took := time.Duration(e.Duration / 1000); e.StartNS < before.UnixNano() || took < 5*time.Millisecond || took > time.Since(before) {
		t.Errorf("from %v on %v", time.Unix(0, e.StartNS), took)
	}
}

func TestProfilerThatFails(t *testing.T) {
	for _, function := range []string{"create", "start", "stop", "collect_data"} {
		t.Run(function, func(t *testing.T) {
			p, err := platform.New(platform.Options{PluginPath: testplugin.Build(t), CreateOptions: map[string]any{"fail:profiler." + function: int64(status.Aborted)}})
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := p.Close(); err != nil {
					t.Error(err)
				}
			}()
			running, err := p.StartProfile()
			if err == nil {
				_, err = running.Stop()
			}
			if status.CodeOf(err) != status.Aborted {
				t.Errorf("%v, want ABORTED", err)
			}
		})
	}
}
