package ops

import (
	"fmt"
	"slices"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ir"
	"xla_go/gosrc/shape"
)

// Adaptive pooling: output o of a dimension covers inputs floor(o*in/out) to ceil((o+1)*in/out).

var (
	kindAdaptiveMaxValues  = defineKind("xla_go::adaptive_max_pool_values", lowerAdaptiveMax(0))
	kindAdaptiveMaxIndices = defineKind("xla_go::adaptive_max_pool_indices", lowerAdaptiveMax(1))
)

func init() {
	for _, spatial := range []int{2, 3} {
		average, maximum := fmt.Sprintf("_adaptive_avg_pool%dd", spatial), fmt.Sprintf("adaptive_max_pool%dd", spatial)
		register(
			&Row{Name: average, Out: []string{average + ".out", average[1:] + ".out"}, Meta: metaAdaptiveAvg(spatial), Lower: lowerAdaptiveAvg},
			&Row{Name: average + "_backward", Out: []string{average + "_backward.out"}, Meta: metaAdaptiveAvgBackward(spatial), Lower: lowerAdaptiveAvgBackward},
			&Row{Name: maximum, Out: []string{maximum + ".out"}, Meta: metaAdaptiveMax(spatial)},
			&Row{Name: maximum + "_backward", Out: []string{maximum + "_backward.grad_input"}, Meta: metaAdaptiveMaxBackward(spatial), Lower: lowerAdaptiveMaxBackward},
		)
	}
}

// adaptiveWindows gives the inputs of each of out outputs over in inputs.
func adaptiveWindows(in, out int64) resampling {
	r := resampling{index: make([][]int, out)}
	for o := range out {
		for i := o * in / out; i < ((o+1)*in+out-1)/out; i++ {
			r.index[o] = append(r.index[o], int(i))
		}
	}
	return r
}

// averaged gives every row the weights of a mean.
func (r resampling) averaged() resampling {
	r.weight = make([][]float64, len(r.index))
	for o, row := range r.index {
		for range row {
			r.weight[o] = append(r.weight[o], 1/float64(len(row)))
		}
	}
	return r
}

// counts gives the number of inputs of each row.
func (r resampling) counts() []float64 {
	v := make([]float64, len(r.index))
	for i, row := range r.index {
		v[i] = float64(len(row))
	}
	return v
}

// adaptiveInput checks the input of an adaptive pooling and its output size (argument 1).
func (c *Call) adaptiveInput(name, colon string, i, spatial int) error {
	x := c.Dims(i)
	if len(x) != spatial+1 && len(x) != spatial+2 {
		return Errorf("%s(): Expected %dD or %dD tensor, but got%s %s", name, spatial+1, spatial+2, colon, dimsText(x))
	}
	for k := 1; k < len(x); k++ {
		if k >= len(x)-spatial && x[k] == 0 {
			return Errorf("%s(): Expected input to have non-zero size for non-batch dimensions, but input has sizes %s with dimension %d being empty", name, dimsText(x), k)
		}
	}
	return nil
}

// adaptiveGradient checks the gradient of an adaptive pooling's result, argument 0.
func (c *Call) adaptiveGradient(name string, spatial int) error {
	x := c.Dims(0)
	if len(x) != spatial+1 && len(x) != spatial+2 {
		return Errorf("%s(): Expected %dD or %dD tensor, but got: %s", name, spatial+1, spatial+2, dimsText(x))
	}
	for k := 1; k < len(x); k++ {
		if x[k] == 0 {
			return Errorf("%s(): Expected grad_output to have non-zero size for non-batch dimensions, but grad_output has sizes %s with dimension %d being empty", name, dimsText(x), k)
		}
	}
	return nil
}

// adaptiveOutput gives the result's dims for output size size.
func adaptiveOutput(x, size []int64) ([]int64, error) {
	dims := append(slices.Clone(x[:len(x)-len(size)]), size...)
	for _, d := range size {
		if d < 0 {
			return nil, Errorf("Trying to create tensor with negative dimension %d: %s", d, dimsText(dims))
		}
	}
	return dims, nil
}

func metaAdaptiveAvg(spatial int) func(c *Call) error {
	name := fmt.Sprintf("adaptive_avg_pool%dd", spatial)
	kernel := name
	if spatial == 3 {
		kernel = "adaptive_avg_pool3d_cpu"
	}
	return func(c *Call) error {
		size := c.Ints(1)
		if len(size) != spatial {
			return Errorf("%s: output_size must be %d", name, spatial)
		}
		if err := c.adaptiveInput(name, "", 0, spatial); err != nil {
			return err
		}
		dims, err := adaptiveOutput(c.Dims(0), size)
		if err != nil {
			return err
		}
		d := c.Dtype(0)
		if !d.IsFloat() || d.Size() == 1 {
			return notImplemented(kernel, d)
		}
		c.Operand(c.Node(0))
		c.Attr(int64(spatial))
		return c.Out(d, dims)
	}
}

func lowerAdaptiveAvg(l *ir.Lowering) hlo.Value {
	b, spatial := l.B, int(l.Int())
	compute := l.Dtype.OpMath()
	x := as(b, l.In(0), compute)
	if shape.Product(l.Dims) == 0 {
		return b.Full(l.Dtype, 0, l.Dims...)
	}
	first := len(l.Dims) - spatial
	if in := x.Dims(); evenWindows(in[first:], l.Dims[first:]) {
		return as(b, evenMean(b, x, l.Dims, first), l.Dtype)
	}
	count := float64(1)
	var divisor hlo.Value
	for k := first; k < len(l.Dims); k++ {
		r := adaptiveWindows(x.Dims()[k], l.Dims[k])
		counts := r.counts()
		x = resample(b, x, k, r)
		if slices.Min(counts) == slices.Max(counts) {
			count *= counts[0]
			continue
		}
		v := b.Broadcast(vector(b, compute, counts), l.Dims, []int{k})
		if divisor.Valid() {
			v = b.Binary(hlo.Multiply, divisor, v)
		}
		divisor = v
	}
	if all := b.Full(compute, count, l.Dims...); !divisor.Valid() {
		divisor = all
	} else if count != 1 {
		divisor = b.Binary(hlo.Multiply, divisor, all)
	}
	return as(b, b.Binary(hlo.Divide, x, divisor), l.Dtype)
}

// evenWindows is true where the windows tile the input.
func evenWindows(in, out []int64) bool {
	for i := range in {
		if in[i]%out[i] != 0 {
			return false
		}
	}
	return true
}

// evenMean splits each spatial dimension into windows and reduces them.
func evenMean(b *hlo.Builder, x hlo.Value, dims []int64, first int) hlo.Value {
	in := x.Dims()
	split := slices.Clone(in[:first])
	var reduced []int
	count := float64(1)
	for k := first; k < len(in); k++ {
		split = append(split, dims[k], in[k]/dims[k])
		reduced = append(reduced, len(split)-1)
		count *= float64(in[k] / dims[k])
	}
	sum := b.ReduceOp(hlo.Add, b.Reshape(x, split), b.Full(x.Dtype(), 0), reduced)
	return b.Binary(hlo.Divide, sum, b.Full(x.Dtype(), count, dims...))
}

// metaAdaptiveAvgBackward: grad_output, self.
func metaAdaptiveAvgBackward(spatial int) func(c *Call) error {
	name := fmt.Sprintf("adaptive_avg_pool%dd_backward", spatial)
	return func(c *Call) error {
		if err := c.adaptiveGradient(name, spatial); err != nil {
			return err
		}
		d := c.Dtype(1)
		if c.Dtype(0) != d {
			return Errorf("expected dtype %s for `grad_output` but got dtype %s", demangledName(d), demangledName(c.Dtype(0)))
		}
		c.Operand(c.Node(0))
		c.Attr(int64(spatial))
		return c.Out(d, c.Dims(1))
	}
}

func lowerAdaptiveAvgBackward(l *ir.Lowering) hlo.Value {
	b, spatial := l.B, int(l.Int())
	compute := l.Dtype.OpMath()
	grad := as(b, l.In(0), compute)
	if shape.Product(l.Dims) == 0 || shape.Product(grad.Dims()) == 0 {
		return b.Full(l.Dtype, 0, l.Dims...)
	}
	first := len(l.Dims) - spatial
	out := grad.Dims()
	if evenWindows(l.Dims[first:], out[first:]) {
		split := slices.Clone(out[:first])
		from := make([]int, 0, len(out))
		for k := range first {
			from = append(from, k)
		}
		count := float64(1)
		for k := first; k < len(out); k++ {
			from = append(from, len(split))
			split = append(split, out[k], l.Dims[k]/out[k])
			count *= float64(l.Dims[k] / out[k])
		}
		grad = b.Binary(hlo.Divide, grad, b.Full(compute, count, out...))
		return as(b, b.Reshape(b.Broadcast(grad, split, from), l.Dims), l.Dtype)
	}
	for k := first; k < len(out); k++ {
		grad = resample(b, grad, k, adaptiveWindows(l.Dims[k], out[k]).averaged().transposed(int(l.Dims[k])))
	}
	return as(b, grad, l.Dtype)
}

func metaAdaptiveMax(spatial int) func(c *Call) error {
	name := fmt.Sprintf("adaptive_max_pool%dd", spatial)
	kernel := name
	if spatial == 3 {
		kernel = "adaptive_max_pool3d_cpu"
	}
	return func(c *Call) error {
		if err := c.adaptiveInput(name, ":", 0, spatial); err != nil {
			return err
		}
		size := c.Ints(1)
		if len(size) != spatial {
			return Errorf("%s(): internal error: output_size.size() must be %d", name, spatial)
		}
		dims, err := adaptiveOutput(c.Dims(0), size)
		if err != nil {
			return err
		}
		d := c.Dtype(0)
		if !d.IsFloat() || d.Size() == 1 {
			return notImplemented(kernel, d)
		}
		for i, kind := range [2]ir.Kind{kindAdaptiveMaxValues, kindAdaptiveMaxIndices} {
			c.Operand(c.Node(0))
			c.Attr(int64(spatial))
			c.Return(c.finish(kind, [2]dtype.Dtype{d, dtype.S64}[i], dims))
		}
		return nil
	}
}

// lowerAdaptiveMax reads each window, as many inputs as the largest has, and reduces pairs of
// value and position; result says which of the two the node is.
func lowerAdaptiveMax(result int) func(l *ir.Lowering) hlo.Value {
	return func(l *ir.Lowering) hlo.Value {
		b, x, spatial := l.B, l.In(0), int(l.Int())
		if shape.Product(l.Dims) == 0 {
			return b.Full(l.Dtype, 0, l.Dims...)
		}
		in := x.Dims()
		first := len(in) - spatial
		all := &pool{kernel: in[first:]}
		position := all.planeIndex(b, dtype.S64, in, in, func(i int) []float64 {
			v := make([]float64, in[first+i])
			for k := range v {
				v[k] = float64(k)
			}
			return v
		})
		split := slices.Clone(l.Dims[:first])
		var reduced []int
		present := make([][]bool, spatial)
		for i := range spatial {
			k := first + i
			r := adaptiveWindows(in[k], l.Dims[k])
			size := int(slices.Max(r.counts()))
			index := make([]int, 0, len(r.index)*size)
			for _, row := range r.index {
				for t := range size {
					index = append(index, row[min(t, len(row)-1)])
					present[i] = append(present[i], t < len(row))
				}
			}
			x, position = take(b, x, k, index), take(b, position, k, index)
			split = append(split, l.Dims[k], int64(size))
			reduced = append(reduced, len(split)-1)
		}
		dims := x.Dims()
		for i := range spatial {
			if !slices.Contains(present[i], false) {
				continue
			}
			there := b.Broadcast(mask(b, present[i]), dims, []int{first + i})
			x = b.Select(there, x, b.BroadcastTo(b.MinValue(x.Dtype()), dims))
			position = b.Select(there, position, b.FullInt(dtype.S64, -1, dims...))
		}
		pair := []hlo.Value{b.Reshape(x, split), b.Reshape(position, split)}
		inits := []hlo.Value{b.MinValue(x.Dtype()), b.ScalarInt(dtype.S64, -1)}
		return b.Reduce(pair, inits, reduced, argmaxComputation(b, x.Dtype()))[result]
	}
}

// metaAdaptiveMaxBackward: grad_output, self, indices.
func metaAdaptiveMaxBackward(spatial int) func(c *Call) error {
	name := fmt.Sprintf("adaptive_max_pool%dd_backward", spatial)
	return func(c *Call) error {
		if err := c.adaptiveGradient(name, spatial); err != nil {
			return err
		}
		d := c.Dtype(1)
		if c.Dtype(0) != d {
			return Errorf("expected dtype %s for `grad_output` but got dtype %s", demangledName(d), demangledName(c.Dtype(0)))
		}
		c.Operand(c.Node(0), c.Node(2))
		c.Attr(int64(spatial))
		return c.Out(d, c.Dims(1))
	}
}

func lowerAdaptiveMaxBackward(l *ir.Lowering) hlo.Value {
	b, spatial := l.B, int(l.Int())
	compute := l.Dtype.OpMath()
	if shape.Product(l.Dims) == 0 || shape.Product(l.In(0).Dims()) == 0 {
		return b.Full(l.Dtype, 0, l.Dims...)
	}
	return as(b, scatterPlanes(b, as(b, l.In(0), compute), l.In(1), l.Dims, spatial, b.ScalarComputation(hlo.Add, compute)), l.Dtype)
}
