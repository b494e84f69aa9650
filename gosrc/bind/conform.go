package bind

import (
	"encoding/json"
	"strings"

	"xla_go/gosrc/client/clienttest"
	"xla_go/gosrc/dispatch"
	"xla_go/gosrc/status"
)

// conformanceSubjects holds what the conformance suite runs on.
var conformanceSubjects = dispatch.NewHandles[*clienttest.Subject]("conformance subject")

// conformanceSettings are what OpenConformance takes.
type conformanceSettings struct {
	Client  string          `json:"client"`
	Plugin  string          `json:"plugin"`
	Devices int             `json:"devices"`
	Options json.RawMessage `json:"options"`
	Several json.RawMessage `json:"several_options"`
}

// ConformanceCases gives the names of all cases of the conformance suite, one a line.
func ConformanceCases() string {
	all := clienttest.Cases()
	names := make([]string, len(all))
	for i, c := range all {
		names[i] = c.Name
	}
	return lines(names)
}

// OpenConformance prepares the conformance suite for a plugin and gives a JSON object: handle, device_type and
// platform_version. settings is a JSON object: client ("pjrt" or "ifrt"), plugin (its path), devices (how many
// the cases of several devices get, where the plugin has an option for it), options and several_options (as
// InitializeClient's, for all cases and on top for those of several devices). The process's own client has
// no part in it. BLOCKING: the plugin is loaded and its client made once.
func OpenConformance(settings string) (text string, err error) {
	defer guard(&err)
	var s conformanceSettings
	if err := json.Unmarshal([]byte(settings), &s); err != nil {
		return "", status.Errorf(status.InvalidArgument, "OpenConformance(): expected a JSON object of settings, got %v", err)
	}
	single, err := readOptions(string(s.Options))
	if err != nil {
		return "", status.Annotate(err, "OpenConformance(): options")
	}
	several, err := readOptions(string(s.Several))
	if err != nil {
		return "", status.Annotate(err, "OpenConformance(): several_options")
	}
	subject, err := clienttest.NewSubject(s.Client, s.Plugin, s.Devices, single, several)
	if err != nil {
		return "", err
	}
	return encode(map[string]any{
		"handle": conformanceSubjects.Add(subject), "device_type": subject.DeviceType, "platform_version": subject.PlatformVersion,
	})
}

// RunConformanceCase runs one case with clients of its own and gives its result as a JSON object: case, outcome
// ("pass", "fail", "unsupported" or "skip"), text (what was found or why) and seconds. BLOCKING.
func RunConformanceCase(handle int64, name string) (text string, err error) {
	defer guard(&err)
	subject, err := conformanceSubjects.Get(handle)
	if err != nil {
		return "", status.Annotate(err, "RunConformanceCase()")
	}
	for _, c := range clienttest.Cases() {
		if c.Name == name {
			result := c.RunOn(subject)
			result.Text = strings.ReplaceAll(result.Text, "\x00", "")
			return encode(result)
		}
	}
	return "", status.Errorf(status.NotFound, "RunConformanceCase(): expected the name of a case (see ConformanceCases), got %q", name)
}
