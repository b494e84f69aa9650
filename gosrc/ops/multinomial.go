package ops

import (
	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ir"
	"xla_go/gosrc/shape"
)

// Drawing categories with given probabilities.

func init() {
	register(
		&Row{Name: "multinomial", Out: []string{"multinomial.out"}, Meta: metaMultinomial, Lower: lowerMultinomial},
	)
}

// metaMultinomial: (self, num_samples, replacement, generator). That the probabilities are not
// negative and not all zero is not checked: it depends on their values.
func metaMultinomial(c *Call) error {
	d, sizes, samples, replacement := c.Dtype(0), c.Dims(0), c.Int(1, 1), c.Bool(2)
	if !d.IsFloat() {
		return Errorf("multinomial only supports floating-point dtypes for input, got: %s", torchClass(d))
	}
	if len(sizes) != 1 && len(sizes) != 2 {
		return Errorf("prob_dist must be 1 or 2 dim")
	}
	categories := sizes[len(sizes)-1]
	switch {
	case samples <= 0:
		return Errorf("cannot sample n_sample <= 0 samples")
	case !replacement && samples > categories:
		return Errorf("cannot sample n_sample > prob_dist.size(-1) samples without replacement")
	case categories > 1<<24:
		return Errorf("number of categories cannot exceed 2^24")
	}
	race := samples == 1 || !replacement
	count := shape.Product(sizes)
	if !race {
		count = count / max(categories, 1) * samples
	}
	c.draw(count)
	c.Operand(c.Node(0))
	c.AttrBool(race)
	c.dims = append(append(c.dims[:0], sizes[:len(sizes)-1]...), samples)
	return c.Out(dtype.S64, c.dims)
}

func lowerMultinomial(l *ir.Lowering) hlo.Value {
	b, x := l.B, l.In(2)
	race := l.Bool()
	if shape.Product(l.Dims) == 0 {
		return b.Full(l.Dtype, 0, l.Dims...)
	}
	compute := randomFloat(x.Dtype())
	weights := as(b, x, compute)
	r := &drawn{Builder: b, seed: l.In(0), offset: l.In(1), compute: compute, result: compute}
	if race {
		return sampleByRace(r, weights, l.Dims)
	}
	return sampleByInversion(r, weights, l.Dims)
}

// sampleByRace gives each category an exponential time divided by its weight and takes the first
// ones: their order is that of draws without replacement.
func sampleByRace(r *drawn, weights hlo.Value, dims []int64) hlo.Value {
	b := r.Builder
	last := weights.Rank() - 1
	r.count = shape.Product(weights.Dims())
	times := b.Reshape(exponentialUnit(r), weights.Dims())
	speed := b.Binary(hlo.Divide, weights, times)
	samples := dims[last]
	if samples == 1 {
		_, position := extremumAt(b, hlo.Maximum, speed, 1<<last)
		return b.Reshape(position, dims)
	}
	_, order := sortWithPositions(b, speed, last, true, true)
	return as(b, sliceDim(b, order, last, 0, samples), dtype.S64)
}

// sampleByInversion looks uniform numbers up in the running sums of the weights.
func sampleByInversion(r *drawn, weights hlo.Value, dims []int64) hlo.Value {
	b := r.Builder
	last := weights.Rank() - 1
	categories := weights.Dims()[last]
	sums := scanSum.along(b, weights, last)
	// A category of weight zero gets the sum before it exactly, whatever the order in which the
	// sums were rounded, so that it is never drawn.
	positive := b.Compare("GT", weights, b.Full(r.compute, 0, weights.Dims()...))
	sums = scanMaximum.along(b, b.Select(positive, sums, b.Full(r.compute, 0, weights.Dims()...)), last)
	total := sliceDim(b, sums, last, categories-1, categories)
	r.count = shape.Product(dims)
	u := b.Reshape(unit(b, r.words(), mantissaBits(r.compute), r.compute), dims)
	value := b.Binary(hlo.Multiply, u, b.BroadcastTo(total, dims))
	var index hlo.Value
	if weights.Rank() == 1 {
		index = searchSorted(b, sums, value, true)
	} else {
		index = searchRows(b, sums, value, true)
	}
	return clampPositions(b, index, categories)
}
