package ops

import (
	"math"

	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ir"
)

// Discrete Fourier transforms. Torch's composites have padded, promoted and checked the operand.

func init() {
	register(
		&Row{Name: "_fft_c2c", Out: []string{"_fft_c2c.out"}, Meta: metaFFT(complexToComplex), Lower: lowerComplexFFT},
		&Row{Name: "_fft_r2c", Out: []string{"_fft_r2c.out"}, Meta: metaFFT(realToComplex), Lower: lowerRealFFT},
		&Row{Name: "_fft_c2r", Out: []string{"_fft_c2r.out"}, Meta: metaFFT(complexToReal), Lower: lowerInverseRealFFT},
	)
}

type transform int

const (
	complexToComplex transform = iota
	realToComplex
	complexToReal
)

// Of a row's arguments: self, dim, normalization, and forward, onesided or last_dim_size.
func metaFFT(kind transform) func(c *Call) error {
	return func(c *Call) error {
		d, sizes := c.Dtype(0), append(c.dims[:0], c.Dims(0)...)
		axes := make([]int64, 0, 8)
		count := int64(1)
		for _, axis := range c.Ints(1) {
			dim, err := c.Dim(axis, len(sizes))
			if err != nil {
				return err
			}
			axes = append(axes, int64(dim))
		}
		switch kind {
		case complexToComplex:
			if !d.IsComplex() {
				return Errorf("%s(): expected a complex tensor, got %s", c.Name(), d.TorchName())
			}
		case realToComplex:
			if !d.IsFloat() || d != d.OpMath() || len(axes) == 0 {
				return Errorf("%s(): expected a tensor of float32 or float64 and at least one dimension, got %s and %v", c.Name(), d.TorchName(), axes)
			}
			d = d.Complex()
		case complexToReal:
			last := c.Int(3, 1)
			if !d.IsComplex() || len(axes) == 0 || last < 1 || sizes[axes[len(axes)-1]] != last/2+1 {
				return Errorf("%s(): expected a complex tensor with %d numbers in the last dimension of %v, got %s of size %v", c.Name(), last/2+1, axes, d.TorchName(), sizes)
			}
			sizes[axes[len(axes)-1]] = last
			d = d.Real()
		}
		for _, axis := range axes {
			count *= sizes[axis]
		}
		if last := len(axes) - 1; kind == realToComplex && c.Bool(3) {
			sizes[axes[last]] = sizes[axes[last]]/2 + 1
		}
		c.dims = sizes
		c.Operand(c.Node(0))
		c.AttrFloat(normalization(c.Int(2, 0), count))
		c.AttrBool(c.Bool(3))
		c.AttrInts(axes)
		return c.Out(d, sizes)
	}
}

// normalization gives the factor of torch's mode: none, by the root of the number of elements, by the number.
func normalization(mode, count int64) float64 {
	switch mode {
	case 1:
		return 1 / math.Sqrt(float64(count))
	case 2:
		return 1 / float64(count)
	}
	return 1
}

// XLA transforms up to so many of the last dimensions at once.
const fftRank = 3

func lowerComplexFFT(l *ir.Lowering) hlo.Value {
	factor, forward, axes := l.Float(), l.Bool(), l.Ints()
	return scaled(l.B, complexFFT(l.B, l.In(0), axes, forward), factor)
}

func lowerRealFFT(l *ir.Lowering) hlo.Value {
	factor, onesided, axes := l.Float(), l.Bool(), l.Ints()
	x := l.In(0)
	if !onesided {
		return scaled(l.B, complexFFT(l.B, l.B.Convert(x, l.Dtype), axes, true), factor)
	}
	first := max(0, len(axes)-fftRank)
	x = withLast(l.B, x, axes[first:], func(x hlo.Value, lengths []int64) hlo.Value {
		return l.B.Fft(x, "RFFT", lengths)
	})
	return scaled(l.B, complexFFT(l.B, x, axes[:first], true), factor)
}

func lowerInverseRealFFT(l *ir.Lowering) hlo.Value {
	factor, _, axes := l.Float(), l.Bool(), l.Ints()
	last := len(axes) - 1
	first := max(0, len(axes)-fftRank)
	x := complexFFT(l.B, l.In(0), axes[:first], false)
	x = withLast(l.B, x, axes[first:], func(x hlo.Value, lengths []int64) hlo.Value {
		lengths[len(lengths)-1] = l.Dims[axes[last]]
		for _, n := range lengths {
			factor *= float64(n) // XLA's inverse divides
		}
		return l.B.Fft(x, "IRFFT", lengths)
	})
	return scaled(l.B, x, factor)
}

// complexFFT transforms the dimensions without a factor.
func complexFFT(b *hlo.Builder, x hlo.Value, axes []int64, forward bool) hlo.Value {
	for first := 0; first < len(axes); first += fftRank {
		x = withLast(b, x, axes[first:min(first+fftRank, len(axes))], func(x hlo.Value, lengths []int64) hlo.Value {
			if forward {
				return b.Fft(x, "FFT", lengths)
			}
			factor := 1.0
			for _, n := range lengths {
				factor *= float64(n) // XLA's inverse divides
			}
			return scaled(b, b.Fft(x, "IFFT", lengths), factor)
		})
	}
	return x
}

// withLast calls f on x with the axes moved to the end, in their order, and moves them back.
func withLast(b *hlo.Builder, x hlo.Value, axes []int64, f func(x hlo.Value, lengths []int64) hlo.Value) hlo.Value {
	rank := x.Rank()
	order, moved := make([]int, 0, rank), make([]bool, rank)
	lengths := make([]int64, 0, len(axes))
	for _, axis := range axes {
		moved[axis] = true
		lengths = append(lengths, x.Dims()[axis])
	}
	for dim := range rank {
		if !moved[dim] {
			order = append(order, dim)
		}
	}
	for _, axis := range axes {
		order = append(order, int(axis))
	}
	back := make([]int, rank)
	for to, from := range order {
		back[from] = to
	}
	return b.Transpose(f(b.Transpose(x, order), lengths), back)
}

func scaled(b *hlo.Builder, x hlo.Value, factor float64) hlo.Value {
	if factor == 1 {
		return x
	}
	return b.Binary(hlo.Multiply, x, b.Full(x.Dtype(), factor, x.Dims()...))
}
