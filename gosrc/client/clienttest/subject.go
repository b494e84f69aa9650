package clienttest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"xla_go/gosrc/client"
	"xla_go/gosrc/client/ifrtclient"
	"xla_go/gosrc/client/internal/platform"
	"xla_go/gosrc/client/pjrtclient"
	"xla_go/gosrc/status"
)

// Subject is what the cases run on: an implementation of the contract, mostly over a plugin.
type Subject struct {
	// New makes a client with create options of the plugin.
	New func(options map[string]any) (client.Client, error)
	// Single and Several are the create options for the cases of one and of several devices.
	Single, Several map[string]any
	// DeviceType and PlatformVersion are what the plugin says of itself.
	DeviceType, PlatformVersion string
	// Faults says that the plugin is the test plugin, which fails and delays as its options say.
	Faults bool
	// Alive counts, by sort, what clients hold; after a case it has to be what it was before. May be nil.
	Alive func() map[string]int64
}

// Kinds are the implementations of the contract over a plugin, by name.
var Kinds = map[string]func(platform.Options) (client.Client, error){"pjrt": pjrtclient.New, "ifrt": ifrtclient.New}

// deviceOptions are the create options that set the number of devices, by device type.
var deviceOptions = map[string]string{"CPU": "cpu_device_count", testPlugin: "devices"}

// testPlugin is the device type of the test plugin.
const testPlugin = "TESTPLUGIN"

// NewSubject makes a subject of the client of that kind over the plugin at path. It asks the plugin what it is;
// where the plugin has an option for the number of devices, that is set to 1 for the cases of one device and
// to devices for those of several, unless single (options for all cases) or several (more of them for
// cases of several devices) have it. BLOCKING: makes a client and closes it.
func NewSubject(kind, path string, devices int, single, several map[string]any) (*Subject, error) {
	construct := Kinds[kind]
	if construct == nil {
		return nil, status.Errorf(status.InvalidArgument, "NewSubject(): expected a client of kind %s, got %q", strings.Join(slices.Sorted(maps.Keys(Kinds)), " or "), kind)
	}
	s := &Subject{Single: map[string]any{}, Several: map[string]any{}, Alive: platform.Alive}
	s.New = func(options map[string]any) (client.Client, error) {
		return construct(platform.Options{PluginPath: path, CreateOptions: options})
	}
	c, err := s.New(single)
	if err != nil {
		return nil, err
	}
	s.DeviceType, s.PlatformVersion = c.GetDeviceType(), c.GetPlatformVersion()
	if err := c.Close(); err != nil {
		return nil, err
	}
	s.Faults = s.DeviceType == testPlugin
	if name := deviceOptions[s.DeviceType]; name != "" {
		s.Single[name], s.Several[name] = int64(1), int64(devices)
	}
	maps.Copy(s.Single, single)
	maps.Copy(s.Several, single)
	maps.Copy(s.Several, several)
	return s, nil
}

// grown says what is alive beyond what was before; "" for nothing.
func (s *Subject) grown(before map[string]int64) string {
	if s.Alive == nil {
		return ""
	}
	var more []string
	now := s.Alive()
	for _, sort := range slices.Sorted(maps.Keys(now)) {
		if n := now[sort] - before[sort]; n > 0 {
			more = append(more, fmt.Sprintf("%d %s", n, sort))
		}
	}
	return strings.Join(more, ", ")
}

// settled waits until no more is alive than before, and says what still is. The plugin's threads free what
// runs leave behind, which may be a little after the client was closed.
func (s *Subject) settled(before map[string]int64) string {
	deadline := time.Now().Add(patience)
	for {
		more := s.grown(before)
		if more == "" || time.Now().After(deadline) {
			return more
		}
		time.Sleep(time.Millisecond)
	}
}

// Client makes a client with the create options of a case of one device, and those given beside them. It is
// closed when the case has ended; a case may close it itself.
func (t *T) Client(options map[string]any) client.Client {
	t.Helper()
	return t.clientOf(t.subject.Single, options)
}

func (t *T) clientOf(base, options map[string]any) client.Client {
	t.Helper()
	all := maps.Clone(base)
	if all == nil {
		all = map[string]any{}
	}
	maps.Copy(all, options)
	made, err := t.subject.New(all)
	if err != nil {
		t.Fatal(err)
	}
	c := &tracked{Client: made, called: map[string]bool{}}
	t.clients = append(t.clients, c)
	return c
}

// close closes the clients. One that is still in use is a finding: the case leaks. Where the case was
// stopped half-way, what it left is closed first.
func (t *T) close() {
	for _, c := range t.clients {
		if t.outcome != "" {
			c.closeLeft()
		}
		for _, which := range []string{"Close", "second Close"} {
			if err := c.Close(); err != nil && t.outcome == "" {
				t.Errorf("%s: %v", which, err)
			}
		}
	}
}
