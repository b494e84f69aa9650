package hlo_test

import (
	"testing"

	"xla_go/gosrc/hlo"
	"xla_go/gosrc/shape"
)

// convolve is the definition of a two-dimensional convolution in torch's order, written plainly:
// each output is a sum over the kernel, and a kernel element reads the input where its place is
// neither padding nor a hole between elements.
func convolve(x, w array, c hlo.ConvDims, out []int64, xs, ws []float32) []float32 {
	n, features, h, width := x.shape.Dims[0], x.shape.Dims[1], x.shape.Dims[2], x.shape.Dims[3]
	kernelIn, kh, kw := w.shape.Dims[1], w.shape.Dims[2], w.shape.Dims[3]
	get := func(list []int64, i int, otherwise int64) int64 {
		if list == nil {
			return otherwise
		}
		return list[i]
	}
	groups, batches := max(c.FeatureGroupCount, 1), max(c.BatchGroupCount, 1)
	result := make([]float32, shape.Product(out))
	place := func(o, k int64, d int, size int64) (int64, bool) {
		if c.Window.Reversal != nil && c.Window.Reversal[d] {
			k = w.shape.Dims[2+d] - 1 - k
		}
		at := o*get(c.Window.Stride, d, 1) + k*get(c.Window.WindowDilation, d, 1) - get(c.Window.PadLow, d, 0)
		base := get(c.Window.BaseDilation, d, 1)
		return at / base, at >= 0 && at%base == 0 && at/base < size
	}
	i := 0
	for on := range out[0] {
		for of := range out[1] {
			for oh := range out[2] {
				for ow := range out[3] {
					var sum float32
					for ki := range kernelIn {
						for a := range kh {
							for b := range kw {
								ih, okH := place(oh, a, 0, h)
								iw, okW := place(ow, b, 1, width)
								if !okH || !okW {
									continue
								}
								feature := of/(out[1]/groups)*kernelIn + ki
								batch := of/(out[1]/batches)*(n/batches) + on
								sum += xs[((batch*features+feature)*h+ih)*width+iw] * ws[((of*kernelIn+ki)*kh+a)*kw+b]
							}
						}
					}
					result[i] = sum
					i++
				}
			}
		}
	}
	return result
}

func TestConvolutionAgreesWithItsDefinition(t *testing.T) {
	for name, c := range map[string]struct {
		x, w, out      []int64
		window         hlo.Window
		groups, batchs int64
	}{
		"plain":      {x: []int64{2, 3, 5, 6}, w: []int64{4, 3, 2, 3}, out: []int64{2, 4, 4, 4}},
		"grouped":    {x: []int64{2, 4, 4, 4}, w: []int64{6, 2, 3, 3}, out: []int64{2, 6, 2, 2}, groups: 2},
		"depthwise":  {x: []int64{1, 3, 4, 4}, w: []int64{6, 1, 2, 2}, out: []int64{1, 6, 3, 3}, groups: 3},
		"strided":    {x: []int64{1, 2, 7, 6}, w: []int64{3, 2, 3, 2}, out: []int64{1, 3, 4, 3}, window: hlo.Window{Stride: []int64{2, 2}, PadLow: []int64{1, 0}, PadHigh: []int64{1, 1}}},
		"dilated":    {x: []int64{1, 2, 7, 6}, w: []int64{3, 2, 3, 2}, out: []int64{1, 3, 3, 3}, window: hlo.Window{WindowDilation: []int64{2, 3}}},
		"transposed": {x: []int64{1, 2, 3, 3}, w: []int64{3, 2, 3, 3}, out: []int64{1, 3, 6, 5}, window: hlo.Window{BaseDilation: []int64{2, 2}, PadLow: []int64{1, 1}, PadHigh: []int64{2, 1}, Reversal: []bool{true, true}}},
		"negative":   {x: []int64{1, 2, 5, 5}, w: []int64{3, 2, 2, 2}, out: []int64{1, 3, 2, 3}, window: hlo.Window{PadLow: []int64{-1, 0}, PadHigh: []int64{-1, -1}}},
		"batches":    {x: []int64{4, 2, 4, 4}, w: []int64{6, 2, 3, 3}, out: []int64{2, 6, 2, 2}, batchs: 2},
	} {
		t.Run(name, func(t *testing.T) {
			dims := nchw(2)
			dims.Window, dims.FeatureGroupCount, dims.BatchGroupCount = c.window, c.groups, c.batchs
			x, w := count(c.x...), count(c.w...)
			out := run(t, func(b builder, p params) []hlo.Value { return one(b.Convolution(p[0], p[1], dims)) }, x, w)
			// Integers below 2^24, so every order of summation gives the same float.
			same(t, name, out[0], convolve(x, w, dims, c.out, values[float32](t, x.data), values[float32](t, w.data))...)
		})
	}
}

func TestDotAgreesWithItsDefinition(t *testing.T) {
	const batch, m, k, n = 2, 3, 4, 5
	x, y := count(batch, m, k), count(batch, n, k)
	out := run(t, func(b builder, p params) []hlo.Value {
		return one(b.Dot(p[0], p[1], hlo.DotDims{LHSContracting: []int64{2}, RHSContracting: []int64{2}, LHSBatch: []int64{0}, RHSBatch: []int64{0}}))
	}, x, y)
	xs, ys := values[float32](t, x.data), values[float32](t, y.data)
	var want []float32
	for b := range batch {
		for i := range m {
			for j := range n {
				var sum float32
				for l := range k {
					sum += xs[(b*m+i)*k+l] * ys[(b*n+j)*k+l]
				}
				want = append(want, sum)
			}
		}
	}
	same(t, "dot", out[0], want...)
}
