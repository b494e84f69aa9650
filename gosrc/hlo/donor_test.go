package hlo_test

import (
	"slices"
	"testing"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/shape"
)

// A donor that the compiler takes becomes an alias of an output in the optimized module.
func TestDonorsBecomeAliases(t *testing.T) {
	s := shape.Make(dtype.F32, 128)
	for name, c := range map[string]struct {
		tuple bool
		donor hlo.Donor
	}{
		"parameter":        {false, hlo.Donor{Parameter: 1}},
		"element of tuple": {true, hlo.Donor{ShapeIndex: []int64{1}}},
	} {
		t.Run(name, func(t *testing.T) {
			b := hlo.NewBuilder("donation")
			var x, y hlo.Value
			if c.tuple {
				both := b.TupleParameter([]shape.Shape{s, s})
				x, y = b.GetTupleElement(both, 0), b.GetTupleElement(both, 1)
			} else {
				x, y = b.Parameter(s, "x"), b.Parameter(s, "y")
			}
			module, err := b.Build([]hlo.Value{b.ReduceOp(hlo.Add, x, b.Scalar(dtype.F32, 0), []int{0}), b.Binary(hlo.Add, x, y)},
				[]hlo.Donor{c.donor})
			if err != nil {
				t.Fatal(err)
			}
			m, err := hlo.Module(optimized(t, module))
			if err != nil {
				t.Fatal(err)
			}
			entries := m.InputOutputAlias.GetEntries()
			if len(entries) != 1 || entries[0].ParameterNumber != c.donor.Parameter ||
				!slices.Equal(entries[0].ParameterShapeIndex, c.donor.ShapeIndex) || !slices.Equal(entries[0].OutputShapeIndex, []int64{1}) {
				t.Errorf("got aliases %v, want output 1 to take %v", entries, c.donor)
			}
		})
	}
}

// A donor that names its output is aliased to that one, although the compiler by itself pairs
// equal shapes in order.
func TestDonorsKeepTheOutputTheyName(t *testing.T) {
	s := shape.Make(dtype.F32, 128)
	b := hlo.NewBuilder("donation")
	x, y := b.Parameter(s, "x"), b.Parameter(s, "y")
	module, err := b.Build([]hlo.Value{b.Binary(hlo.Add, x, y), b.Binary(hlo.Multiply, x, y)},
		[]hlo.Donor{{Parameter: 0, OutputIndex: []int64{1}}, {Parameter: 1, OutputIndex: []int64{0}}})
	if err != nil {
		t.Fatal(err)
	}
	m, err := hlo.Module(optimized(t, module))
	if err != nil {
		t.Fatal(err)
	}
	got := map[int64]int64{}
	for _, e := range m.InputOutputAlias.GetEntries() {
		got[e.OutputShapeIndex[0]] = e.ParameterNumber
	}
	if len(got) != 2 || got[1] != 0 || got[0] != 1 {
		t.Errorf("got aliases (output to parameter) %v, want 1 to 0 and 0 to 1", got)
	}
}
