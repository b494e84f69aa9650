package bind

import (
	"xla_go/gosrc/dispatch"
	"xla_go/gosrc/executor"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/status"
)

// LocateCompiles says where in the user's code the compiles, and the cuts under analysis, were started that nobody has
// located yet: site in a few words, and frames, a JSON list of objects with file, line and function, the innermost first.
// true where reports of compiles are wanted, which ReportsWaitBegin waits for. Not blocking.
func LocateCompiles(site, frames string) (reported bool, err error) {
	defer guard(&err)
	stack, err := readFrames("LocateCompiles", frames)
	if err != nil {
		return false, err
	}
	if space := dispatch.Space(); space != nil {
		space.Core.LocateCompiles(site, stack)
		reported = space.Core.ReportsCompiles()
	}
	return reported, nil
}

// ReportsWaitBegin gives a token to wait for the reports of the compiles that go on. Not blocking.
func ReportsWaitBegin() (token int64, err error) {
	defer guard(&err)
	return waitForCore((*executor.Core).AwaitReportedCompiles), nil
}

// NameGraphs gives the graphs that are cut from now on a name in the reports of PT_XLA_DEBUG; "" none. Not blocking.
func NameGraphs(name string) (ok bool, err error) {
	defer guard(&err)
	space := dispatch.Space()
	if space != nil {
		space.Core.NameGraphs(name)
	}
	return space != nil, nil
}

// Compiles gives the remembered compiles as a JSON list of objects, oldest first: number, reason, site, nodes,
// parameters, results, seconds (0 while it goes on), from_disk, error.
func Compiles() (text string, err error) {
	defer guard(&err)
	space := dispatch.Space()
	if space == nil {
		return "[]", nil
	}
	return encode(space.Core.Compiles())
}

// RecordPlaces counts, from now on or no more, which lines of the user's code end steps and read values.
func RecordPlaces(on bool) { executor.RecordPlaces(on) }

// Places gives what was counted as a JSON list of objects, the most frequent first: kind ("step" or "read"), cause, site, count,
// compiled, nodes, seconds; see executor.Place.
func Places() (text string, err error) {
	defer guard(&err)
	space := dispatch.Space()
	if space == nil {
		return "[]", nil
	}
	return encode(space.Core.Places())
}

// SetStrict enters or leaves strict mode; entries are counted. Not blocking.
func SetStrict(on bool) (ok bool, err error) {
	defer guard(&err)
	space := dispatch.Space()
	if space != nil {
		space.Core.SetStrict(on)
	}
	return space != nil, nil
}

// SaveGraphs has the program of every step from now on appended to files; see executor.Core. false, and nothing is done, before
// the first device use.
func SaveGraphs(stem, form string) (ok bool, err error) {
	defer guard(&err)
	space := dispatch.Space()
	if space == nil {
		return false, nil
	}
	err = space.Core.SaveGraphs(stem, form)
	return err == nil, err
}

// StrictSays sets what errors of strict mode begin with, "" for nothing, and gives what it was. Not blocking.
func StrictSays(text string) (was string, err error) {
	defer guard(&err)
	if space := dispatch.Space(); space != nil {
		was = space.Core.StrictSays(text)
	}
	return was, nil
}

// SetPrecision chooses the precision of matrix products and convolutions of f32 from now on: "default", "high" or
// "highest". Nothing is done, and false is given, before the first device use.
func SetPrecision(name string) (ok bool, err error) {
	defer guard(&err)
	for p := hlo.PrecisionDefault; p <= hlo.PrecisionHighest; p++ {
		if p.String() == name {
			space := dispatch.Space()
			if space != nil {
				space.Core.SetPrecision(p)
			}
			return space != nil, nil
		}
	}
	return false, status.Errorf(status.InvalidArgument, "SetPrecision(): expected default, high or highest, got %q", name)
}

// Precision gives it; "default" before the first device use.
func Precision() string {
	if space := dispatch.Space(); space != nil {
		return space.Core.Precision().String()
	}
	return hlo.PrecisionDefault.String()
}

// ChecksWaitBegin gives a token to wait, in strict mode, for what the newest step of each device has checked: the next sync
// or read raises what failed. Not blocking.
func ChecksWaitBegin() (token int64, err error) {
	defer guard(&err)
	return waitForCore((*executor.Core).AwaitChecks), nil
}

// SetEager makes each operator call a step of its own, or lets calls gather again. False before the first device use.
func SetEager(on bool) (ok bool, err error) {
	defer guard(&err)
	space := dispatch.Space()
	if space != nil {
		space.Core.SetEager(on)
	}
	return space != nil, nil
}
