package executor

import (
	"slices"

	"xla_go/gosrc/hlo"
	"xla_go/gosrc/status"
)

// errUnlabelled is temporary: LockResolved waits for what is missing.
var errUnlabelled = status.Errorf(status.Unavailable, "how a value lies over the devices is not known before the program that makes it is compiled")

// annotation is how the values of a root are to lie; see Root.Annotate.
type annotation struct {
	sharding *hlo.Sharding // nil for none
	dims     []int64
}

func (a annotation) equal(b annotation) bool {
	return equalShardings(a.sharding, b.sharding) && slices.Equal(a.dims, b.dims)
}

// layout is all that a partitioned program depends on of how a root lies over the devices.
type layout struct {
	value      *hlo.Sharding // of what it holds; nil for a value that each device has, or is to have
	annotation annotation
	loose      bool
}

func (l layout) equal(o layout) bool {
	return l.loose == o.loose && l.annotation.equal(o.annotation) && equalShardings(l.value, o.value)
}

func equalShardings(a, b *hlo.Sharding) bool { return a == b || a != nil && b != nil && a.Equal(b) }

// layout gives how the root lies. The upload of a deferred value begins here, so that it lies as a program takes it. Under
// Core.Mu, with all shardings known.
func (r *Root) layout() layout {
	l := layout{annotation: annotation{r.annotation, r.annotationDims}, loose: r.loose}
	if r.value != nil && r.value.IsLeaf() {
		r.value.Buffer.Done()
		if s := r.value.Buffer.KnownSharding(); s != nil && s.Kind != hlo.Replicated {
			l.value = s
		}
	}
	return l
}

// annotationsOf gives those of a traced program's outputs. Unavailable where the program has annotated an input: a run of its
// recording would not.
func (r *Recorder) annotationsOf(outputs []*Root) ([]annotation, error) {
	for i, root := range r.inputs {
		before := r.values[i]
		if before.buffer != nil && (!before.layout.annotation.equal(annotation{root.annotation, root.annotationDims}) || root.loose && !before.layout.loose) {
			return nil, status.Errorf(status.Unavailable, "it says how one of its inputs lies over the devices")
		}
	}
	list := make([]annotation, len(outputs))
	for i, root := range outputs {
		list[i] = annotation{root.annotation, root.annotationDims}
	}
	return list, nil
}
