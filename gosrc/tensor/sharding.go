package tensor

import (
	"slices"

	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ops"
	"xla_go/gosrc/status"
)

// MarkSharding lays a view's value over the devices by sharding, which must be replicated or tiled. A view of the whole
// storage keeps it: what is computed into it later lies so too. A value that is still on the host is transferred shard
// by shard; any other is moved by the next program. Under Core.Mu with all shardings known (LockResolved).
//
// Errors: FailedPrecondition where programs are not partitioned, or where the view is annotated as tiled otherwise and was
// not cleared; InvalidArgument where the sharding does not fit the view or the number of devices.
func (s *Space) MarkSharding(v *ops.View, sharding *hlo.Sharding) error {
	if err := s.checkSharding(v, sharding); err != nil {
		return err
	}
	storage := v.Storage.(*Storage)
	value := storage.Value()
	if value == nil || !isWhole(value, v) {
		annotated := s.Core.Graph.Annotate(s.Read(v), sharding)
		if err := s.Write(v, annotated); err != nil || storage.Value() != annotated {
			return err
		}
		storage.Annotate(sharding, v.Sizes)
		return nil
	}
	old := storage.Annotation(v.Sizes)
	if old != nil && old.Kind == hlo.Tiled && sharding.Kind == hlo.Tiled && !old.Equal(sharding) {
		return status.Errorf(status.FailedPrecondition, "mark_sharding(): expected a tensor that is not annotated otherwise, got %s: call clear_sharding() first", old)
	}
	storage.Annotate(sharding, v.Sizes)
	if value.IsLeaf() && value.Buffer.BeginSharded(sharding) {
		return nil
	}
	if known := value.Sharding(); known != nil && known.Equal(sharding) {
		return nil
	}
	return s.Write(v, s.Core.Graph.Annotate(value, sharding))
}

// ClearSharding takes a view's annotation back and has its value replicated. Under Core.Mu with all shardings known.
func (s *Space) ClearSharding(v *ops.View) error {
	storage := v.Storage.(*Storage)
	value := storage.Value()
	storage.ClearAnnotation()
	if value == nil || value.IsLeaf() && !value.Buffer.IsDivided() {
		return nil
	}
	return s.Write(v, s.Core.Graph.Annotate(s.Read(v), &hlo.Sharding{Kind: hlo.Replicated}))
}

// AnnotateValue is MarkSharding for the value that the view has now, and no later one: what is computed into the storage
// afterwards lies as it comes, and an annotation of the storage does not matter. How it lies in the dimensions that open names
// is left to the partitioner. Under Core.Mu with all shardings known.
func (s *Space) AnnotateValue(v *ops.View, sharding *hlo.Sharding, open []int64) error {
	if err := s.checkSharding(v, sharding); err != nil {
		return err
	}
	for i, dimension := range open {
		if dimension < 0 || dimension >= int64(len(v.Sizes)) || i > 0 && dimension <= open[i-1] {
			return status.Errorf(status.InvalidArgument, "mark_sharding(): expected open dimensions below %d, ascending, got %v", len(v.Sizes), open)
		}
	}
	return s.Write(v, s.Core.Graph.Annotate(s.Read(v), sharding, open...))
}

// ReplaceSharding is MarkSharding for a view that may be annotated otherwise already.
func (s *Space) ReplaceSharding(v *ops.View, sharding *hlo.Sharding) error {
	if err := s.checkSharding(v, sharding); err != nil {
		return err
	}
	if storage := v.Storage.(*Storage); storage.Annotation(v.Sizes) != nil {
		storage.ClearAnnotation()
	}
	return s.MarkSharding(v, sharding)
}

func (s *Space) checkSharding(v *ops.View, sharding *hlo.Sharding) error {
	if !s.Core.Partitioned() {
		return status.Errorf(status.FailedPrecondition, "mark_sharding(): expected programs that are partitioned: call xla_go.runtime.use_spmd() first")
	}
	if sharding.Kind != hlo.Replicated && sharding.Kind != hlo.Tiled {
		return status.Errorf(status.InvalidArgument, "mark_sharding(): expected a sharding that is replicated or tiled, got %s", sharding)
	}
	if _, err := sharding.Grid(len(v.Sizes)); err != nil {
		return err
	}
	devices := slices.Sorted(slices.Values(sharding.Devices))
	for i, d := range devices {
		if d != int64(i) {
			return status.Errorf(status.InvalidArgument, "mark_sharding(): expected each device once, got %s", sharding)
		}
	}
	if n := s.Core.Client().GetNumDevices(); sharding.Kind == hlo.Tiled && len(devices) != n {
		return status.Errorf(status.InvalidArgument, "mark_sharding(): expected a mesh of all %d devices, got one of %d", n, len(devices))
	}
	return nil
}

// ShardingOf gives how a view's value lies over the devices: as it was annotated, else as the compiler has divided a computed
// value; manual where each device has one of its own. nil for a view of a part, and for a value that nobody divides. Under
// Core.Mu with all shardings known (LockResolved).
func (s *Space) ShardingOf(v *ops.View) *hlo.Sharding {
	storage := v.Storage.(*Storage)
	value := storage.Value()
	if value == nil || !isWhole(value, v) {
		return nil
	}
	if annotation := storage.Annotation(v.Sizes); annotation != nil {
		return annotation
	}
	if known := value.Sharding(); known != nil && (known.Kind == hlo.Tiled || known.Kind == hlo.Manual) {
		return known
	}
	return nil
}

// ValueSharding gives how the value that a view has now lies, which may be whole on every device; nil where that is not known
// yet, for a value on one device, and where an annotation has been taken back. Under Core.Mu with all shardings known.
func (s *Space) ValueSharding(v *ops.View) *hlo.Sharding {
	storage := v.Storage.(*Storage)
	value := storage.Value()
	if value == nil || !isWhole(value, v) || storage.Loose() {
		return nil
	}
	return value.Sharding()
}

// Layout is how a view lies over the devices.
type Layout struct {
	Whole    bool          // the view is all of its storage's value, in its dimensions
	Divided  bool          // no device has all of the storage's value, as far as that is known
	Manual   bool          // each device has a value of its own in the storage
	Sharding *hlo.Sharding // as ShardingOf gives it
}

// LayoutOf gives how a view lies over the devices. Under Core.Mu with all shardings known (LockResolved).
func (s *Space) LayoutOf(v *ops.View) Layout {
	layout := Layout{Sharding: s.ShardingOf(v)}
	if value := v.Storage.(*Storage).Value(); value != nil {
		layout.Whole = isWhole(value, v)
		known := value.Sharding()
		layout.Manual = known != nil && known.Kind == hlo.Manual
		layout.Divided = known != nil && known.Kind == hlo.Tiled || layout.Sharding != nil && layout.Sharding.Kind == hlo.Tiled
	}
	return layout
}
