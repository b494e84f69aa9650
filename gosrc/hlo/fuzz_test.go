package hlo_test

import (
	"testing"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/shape"
)

// FuzzParseSharding: a device list of any bytes is read or refused; what is read is written as what is read again.
func FuzzParseSharding(f *testing.F) {
	for _, s := range []*hlo.Sharding{
		{Kind: hlo.Replicated},
		{Kind: hlo.Maximal, Devices: []int64{3}},
		{Kind: hlo.Tiled, Tiles: []int64{2, 1, 2}, Devices: []int64{0, 2, 1, 3}, ReplicateOnLast: true},
		{Kind: hlo.Tiled, Tiles: []int64{4, 2}, IotaDims: []int64{2, 4}, IotaPermutation: []int64{1, 0}},
		{Kind: hlo.Tiled, Tiles: []int64{1 << 40}, IotaDims: []int64{1 << 20, 1 << 20}, IotaPermutation: []int64{1, 0}},
		{Kind: hlo.Tiled, Tiles: []int64{0, -1}, ReplicateOnLast: true},
	} {
		f.Add(s.Proto())
	}
	f.Fuzz(func(t *testing.T, serialized []byte) {
		s, err := hlo.ParseSharding(serialized)
		if err != nil {
			return
		}
		again, err := hlo.ParseSharding(s.Proto())
		if err != nil || !again.Equal(s) {
			t.Errorf("%+v is read again as %+v: %v", s, again, err)
		}
	})
}

// FuzzDump: a module of any bytes is printed or refused, in all forms of text.
func FuzzDump(f *testing.F) {
	f.Add(smallModule(f))
	f.Fuzz(func(t *testing.T, module []byte) {
		text, err := hlo.Dump(module)
		if err == nil && text == "" {
			t.Error("a module has no text")
		}
		_, _ = hlo.ProtoText(module)
		_, _ = hlo.ProtoJSON(module)
		_, _ = hlo.CountOpcodes(module)
	})
}

// FuzzOpenDimensions: the configuration of a custom call may say anything.
func FuzzOpenDimensions(f *testing.F) {
	f.Add([]byte("unspecified_dims=[0,1]"))
	f.Add([]byte("unspecified_dims=[1e99]"))
	f.Fuzz(func(_ *testing.T, configuration []byte) { _, _ = hlo.OpenDimensions(configuration) })
}

// smallModule has a reduction, a constant and metadata.
func smallModule(tb testing.TB) []byte {
	b := hlo.NewBuilder("small")
	x := b.Parameter(shape.Make(dtype.F32, 2, 3), "x")
	b.SetMetadata("aten::sum", "sum")
	module, err := b.Build([]hlo.Value{b.ReduceOp(hlo.Add, x, b.Scalar(dtype.F32, 0), []int{1}), b.Unary(hlo.Negate, x)}, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return module
}
