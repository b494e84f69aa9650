package ir

import "xla_go/gosrc/dtype"

// Draw says what a scalar is in a graph whose draws are followed.
type Draw int8

// A scalar is the seed of the followed generator, its offset, or neither.
const (
	NoDraw Draw = iota
	SeedDraw
	OffsetDraw
)

// Draws follows one random generator, so that a program which takes its state can be run again with a later one.
type Draws struct {
	// Offset is the followed generator's, nil for none. It is compared and never written to.
	Offset *uint64
	// Foreign is set once a program has drawn from another generator while one was followed.
	Foreign bool
}

// Follow starts to follow the generator with that offset; nil ends it.
func (d *Draws) Follow(offset *uint64) { *d = Draws{Offset: offset} }

// Note marks the scalars of a draw from the generator with that offset.
func (d *Draws) Note(of *uint64, seed, offset *Node) {
	switch d.Offset {
	case nil:
	case of:
		seed.Draw, offset.Draw = SeedDraw, OffsetDraw
	default:
		d.Foreign = true
	}
}

// PackedDraw is a scalar of the followed generator in the pack of a walked graph.
type PackedDraw struct {
	Position int // in bytes
	Draw     Draw
	Value    uint64
}

// Draws gives the scalars of the followed generator, in the order of the pack that AppendScalars makes with varied.
func (w *Walk) Draws(varied []bool) []PackedDraw {
	var found []PackedDraw
	position := 0
	var numbers []Variable
	for _, n := range w.Order {
		if n.Kind == KindScalar {
			if n.Draw != NoDraw {
				found = append(found, PackedDraw{position, n.Draw, n.Scalar})
			}
			position += 4 * ScalarWords(n.Dtype)
			continue
		}
		if varied == nil {
			continue
		}
		numbers = AppendVariables(numbers[:0], n)
		for i := range numbers {
			if varied[i] {
				position += 4 * ScalarWords(dtype.S64)
			}
		}
		varied = varied[len(numbers):]
	}
	return found
}
