package ops

import "math"

// The source positions and weights of interpolation, computed as torch computes them: in float
// for everything but float64 tensors, because a position next to an integer decides which input
// is read.

func floatOf(bits int64) float64 { return math.Float64frombits(uint64(bits)) }

// real rounds a number to the type in which torch computes positions.
type real func(x float64) float64

func realOf(exact bool) real {
	if exact {
		return func(x float64) float64 { return x }
	}
	return func(x float64) float64 { return float64(float32(x)) }
}

// ratio gives inputs per output: from the corners, from the scale that the caller gave, or from
// the sizes.
func (f real) ratio(in, out int64, align bool, scale float64) float64 {
	switch {
	case align && out > 1:
		return f(float64(in-1) / float64(out-1))
	case align:
		return 0
	case scale > 0:
		return f(1 / scale)
	}
	return f(float64(in) / float64(out))
}

// source gives the position of output i between the inputs.
func (f real) source(ratio float64, i int64, align, cubic bool) float64 {
	if align {
		return f(ratio * float64(i))
	}
	at := f(f(ratio*f(float64(i)+0.5)) - 0.5)
	if at < 0 && !cubic {
		return 0
	}
	return at
}

// interpolation gives the map from in inputs to out outputs. A scale of 0 is none.
func interpolation(mode, in, out int64, align bool, scale float64, exact bool) resampling {
	f := realOf(exact)
	switch mode {
	case modeNearest, modeNearestExact:
		return f.nearest(in, out, scale, mode == modeNearestExact)
	case modeLinear:
		return f.linear(in, out, align, scale)
	case modeCubic:
		return f.cubic(in, out, align, scale)
	case modeLinearAntialias:
		return f.antialias(in, out, align, scale, 1, func(x float64) float64 { return max(0, 1-math.Abs(x)) })
	}
	return f.antialias(in, out, align, scale, 2, func(x float64) float64 {
		switch x = math.Abs(x); {
		case x < 1:
			return cubicNear(x, -0.5)
		case x < 2:
			return cubicFar(x, -0.5)
		}
		return 0
	})
}

func (f real) nearest(in, out int64, scale float64, exact bool) resampling {
	r := resampling{index: make([][]int, out)}
	ratio := f.ratio(in, out, false, scale)
	for i := range out {
		at := f(ratio * float64(i))
		if exact {
			at = f(ratio * f(float64(i)+0.5))
		}
		r.index[i] = []int{int(min(int64(math.Floor(at)), in-1))}
	}
	return r
}

// floorAndRest splits a position into the input below it and the distance from that.
func floorAndRest(at float64, in int64) (int64, float64) {
	i := min(int64(math.Floor(at)), in-1)
	return i, min(max(at-float64(i), 0), 1)
}

func (f real) linear(in, out int64, align bool, scale float64) resampling {
	r := resampling{index: make([][]int, out), weight: make([][]float64, out)}
	ratio := f.ratio(in, out, align, scale)
	for i := range out {
		if in == out {
			r.index[i], r.weight[i] = []int{int(i)}, []float64{1}
			continue
		}
		low, rest := floorAndRest(f.source(ratio, i, align, false), in)
		high := min(low+1, in-1)
		r.index[i], r.weight[i] = []int{int(low), int(high)}, []float64{f(1 - f(rest)), f(rest)}
	}
	return r
}

func cubicNear(x, a float64) float64 { return ((a+2)*x-(a+3))*x*x + 1 }

func cubicFar(x, a float64) float64 { return ((a*x-5*a)*x+8*a)*x - 4*a }

func (f real) cubic(in, out int64, align bool, scale float64) resampling {
	const a = -0.75
	r := resampling{index: make([][]int, out), weight: make([][]float64, out)}
	ratio := f.ratio(in, out, align, scale)
	for i := range out {
		low, t := floorAndRest(f.source(ratio, i, align, true), in)
		weight := []float64{cubicFar(t+1, a), cubicNear(t, a), cubicNear(1-t, a), cubicFar(2-t, a)}
		for k, w := range weight {
			at := min(max(low-1+int64(k), 0), in-1)
			r.index[i], r.weight[i] = append(r.index[i], int(at)), append(r.weight[i], f(w))
		}
	}
	return r
}

// antialias widens the filter, whose support is given, by the ratio where that is above 1.
func (f real) antialias(in, out int64, align bool, scale, support float64, filter func(x float64) float64) resampling {
	r := resampling{index: make([][]int, out), weight: make([][]float64, out)}
	ratio := f.ratio(in, out, align, scale)
	inverse := 1.0
	if ratio >= 1 {
		support, inverse = f(support*ratio), f(1/ratio)
	}
	for i := range out {
		center := f(ratio * f(float64(i)+0.5))
		first := max(int64(f(f(center-support)+0.5)), 0)
		last := min(int64(f(f(center+support)+0.5)), in)
		total := 0.0
		for k := first; k < last; k++ {
			w := f(filter(f(f(f(float64(k)-center)+0.5) * inverse)))
			r.index[i], r.weight[i] = append(r.index[i], int(k)), append(r.weight[i], w)
			total += w
		}
		for k := range r.weight[i] {
			if total != 0 {
				r.weight[i][k] = f(r.weight[i][k] / total)
			}
		}
	}
	return r
}
