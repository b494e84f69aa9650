package executor

import (
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"xla_go/gosrc/hlo"
)

// maxPlaces bounds the places that are told apart; what happens at others counts as otherPlaces.
const (
	maxPlaces   = 4096
	otherPlaces = "(other places)"
)

// recordingPlaces is for the process, so that it can be asked for before there is a core.
var recordingPlaces atomic.Bool

// RecordPlaces counts, from now on or no more, which lines of the user's code end steps and read values. It costs a walk of the
// Python stack for each. Not blocking.
func RecordPlaces(on bool) { recordingPlaces.Store(on) }

// Place is what one line of the user's code has asked for, of one kind and cause.
type Place struct {
	Kind     string  `json:"kind"`     // "step", a program was queued, or "read", a value was read
	Cause    string  `json:"cause"`    // of a step
	Site     string  `json:"site"`     // the user's file and line, "" where no Python code asked
	Count    int64   `json:"count"`    // how many times
	Compiled int64   `json:"compiled"` // of steps: those whose program was not known
	Nodes    int     `json:"nodes"`    // of the largest step
	Seconds  float64 `json:"seconds"`  // of reads: the wait for the value and its copy
}

type placeKey struct{ kind, cause, site string }

// placeLog counts by place.
type placeLog struct {
	mu     sync.Mutex
	places map[placeKey]*Place
}

func (l *placeLog) at(kind, cause, site string, change func(p *Place)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := placeKey{kind, cause, site}
	if l.places[key] == nil && len(l.places) >= maxPlaces {
		key.site = otherPlaces
	}
	p := l.places[key]
	if p == nil {
		if l.places == nil {
			l.places = map[placeKey]*Place{}
		}
		p = &Place{Kind: key.kind, Cause: key.cause, Site: key.site}
		l.places[key] = p
	}
	p.Count++
	change(p)
}

// Places gives what was counted, the most frequent first. Not blocking.
func (c *Core) Places() []Place {
	l := &c.analysis.places
	l.mu.Lock()
	defer l.mu.Unlock()
	list := make([]Place, 0, len(l.places))
	for _, p := range l.places {
		list = append(list, *p)
	}
	sort.Slice(list, func(i, j int) bool {
		a, b := list[i], list[j]
		if a.Count != b.Count {
			return a.Count > b.Count
		}
		return a.Kind+a.Cause+a.Site < b.Kind+b.Cause+b.Site
	})
	return list
}

// Read is a read under way whose place is to be known.
type Read struct {
	analysis *analysis
	took     time.Duration
}

// NoteRead begins to count a read; nil where places are not recorded.
func (c *Core) NoteRead() *Read {
	if !recordingPlaces.Load() {
		return nil
	}
	return &Read{analysis: &c.analysis}
}

// End ends the read, which took so long: Unlocated rises, and whoever is shown it says where the read was. Not for nil.
func (r *Read) End(took time.Duration) {
	r.took = took
	r.analysis.cuts.Add(1)
	r.analysis.await(r)
}

func (r *Read) tell(a *analysis, site string, _ []hlo.Frame) {
	a.places.at("read", "", site, func(p *Place) { p.Seconds += r.took.Seconds() })
}
