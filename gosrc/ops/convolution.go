package ops

import (
	"slices"

	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ir"
)

// Convolutions in one to three spatial dimensions. Torch checks sizes before it reaches key XLA's
// hooks (convolution_overrideable and its backward), so the metas here only check element types.
//
// Three convolutions serve everything: the product with a kernel, the gradient with respect to
// the input, which is also the transposed convolution, and the gradient with respect to the
// kernel. All three keep torch's dimension order (batch, feature, spatial): XLA picks the layout.

var (
	kindConvolution           = defineKind("xla_go::convolution", lowerConvolution)
	kindConvolutionInputGrad  = defineKind("xla_go::convolution_input_grad", lowerConvolutionInputGrad)
	kindConvolutionKernelGrad = defineKind("xla_go::convolution_kernel_grad", lowerConvolutionKernelGrad)
	kindFeatureSum            = defineKind("xla_go::feature_sum", lowerFeatureSum)
)

func init() {
	register(
		&Row{Name: "convolution_overrideable", Out: []string{"convolution_overrideable.out"}, Meta: metaConvolution},
		&Row{Name: "convolution_backward_overrideable", Out: []string{"convolution_backward_overrideable.out"}, Meta: metaConvolutionBackward},
	)
}

// convolution holds a convolution's parameters, one entry per spatial dimension.
type convolution struct {
	stride, padding, dilation []int64
	groups                    int64
}

func (v *convolution) attach(n *ir.Node) *ir.Node {
	n.AddInt(v.groups)
	n.AddInts(v.stride)
	n.AddInts(v.padding)
	n.AddInts(v.dilation)
	return n
}

func readConvolution(l *ir.Lowering) *convolution {
	v := &convolution{groups: l.Int()}
	v.stride, v.padding, v.dilation = l.Ints(), l.Ints(), l.Ints()
	return v
}

// metaConvolution: input, weight, bias, stride, padding, dilation, transposed, output_padding, groups.
func metaConvolution(c *Call) error {
	v := convolution{c.Ints(3), c.Ints(4), c.Ints(5), c.Int(8, 1)}
	outputPadding := c.Ints(7)
	x, w := c.Dims(0), c.Dims(1)
	spatial := len(x) - 2
	if spatial < 1 || spatial > 3 || len(w) != len(x) || len(v.stride) != spatial || len(v.padding) != spatial || len(v.dilation) != spatial {
		return Errorf("convolution_overrideable(): expected input and weight of 3 to 5 dimensions and a parameter per spatial dimension, got input %s, weight %s, stride %s, padding %s and dilation %s",
			dimsText(x), dimsText(w), dimsText(v.stride), dimsText(v.padding), dimsText(v.dilation))
	}
	if err := c.convolutionTypes(); err != nil {
		return err
	}
	transposed := c.Bool(6)
	dims := make([]int64, len(x))
	dims[0], dims[1] = x[0], w[0]
	if transposed {
		dims[1] = w[1] * v.groups
	}
	for i := range spatial {
		reach := v.dilation[i] * (w[i+2] - 1)
		if transposed {
			dims[i+2] = (x[i+2]-1)*v.stride[i] - 2*v.padding[i] + reach + outputPadding[i] + 1
		} else {
			dims[i+2] = (x[i+2]+2*v.padding[i]-reach-1)/v.stride[i] + 1
		}
	}
	kind := kindConvolution
	if transposed {
		kind = kindConvolutionInputGrad
	}
	d := c.Dtype(0)
	if c.IsNone(2) {
		c.Return(v.attach(c.Build(kind, d, dims, c.Node(0), c.Node(1))))
		return nil
	}
	c.Return(v.attach(c.Build(kind, d, dims, c.Node(0), c.Node(1), c.Node(2))))
	return nil
}

// convolutionTypes checks that input, weight and bias have one type.
func (c *Call) convolutionTypes() error {
	d := c.Dtype(0)
	if w := c.Dtype(1); w != d {
		if d.Size() >= 4 && w.Size() >= 4 {
			return Errorf("expected scalar type %s but found %s", torchClass(d), torchClass(w))
		}
		return Errorf("Input type (torch.%sTensor) and weight type (torch.%sTensor) should be the same or input should be a MKLDNN tensor and weight is a dense tensor", torchClass(d), torchClass(w))
	}
	if !c.IsNone(2) && c.Dtype(2) != d {
		return Errorf("Input type (%s) and bias type (%s) should be the same", demangledName(d), demangledName(c.Dtype(2)))
	}
	if d.IsFloat() && d.Size() == 1 {
		return notImplemented("slow_conv2d_cpu", d)
	}
	return c.unsupported("slow_conv2d_cpu", d)
}

// metaConvolutionBackward: grad_output, input, weight, stride, padding, dilation, transposed,
// output_padding, groups, output_mask. Gradients that the mask leaves out are undefined.
func metaConvolutionBackward(c *Call) error {
	v := convolution{c.Ints(3), c.Ints(4), c.Ints(5), c.Int(8, 1)}
	transposed := c.Bool(6)
	d := c.Dtype(1)
	if c.Dtype(0) != d || c.Dtype(2) != d {
		return Errorf("expected scalar type %s but found %s", torchClass(d), torchClass(c.Dtype(0)))
	}
	var wanted [3]bool
	for i, m := range c.Ints(9) {
		if i < len(wanted) {
			wanted[i] = m != 0
		}
	}
	grad := c.Node(0)
	if wanted[0] {
		kind := kindConvolutionInputGrad
		if transposed {
			kind = kindConvolution
		}
		c.Return(v.attach(c.Build(kind, d, c.Dims(1), grad, c.Node(2))))
	} else {
		c.Return(nil)
	}
	if wanted[1] {
		x, y := c.Node(1), grad
		if transposed {
			x, y = grad, c.Node(1)
		}
		c.Return(v.attach(c.Build(kindConvolutionKernelGrad, d, c.Dims(2), x, y)))
	} else {
		c.Return(nil)
	}
	if wanted[2] {
		c.Return(c.Build(kindFeatureSum, d, c.Dims(0)[1:2], grad))
	} else {
		c.Return(nil)
	}
	return nil
}

// torchOrder are the dimension numbers of torch's layout: (batch, feature, spatial) for input and
// output, (output feature, input feature, spatial) for the kernel.
func torchOrder(rank int) hlo.ConvDims {
	spatial := make([]int64, rank-2)
	for i := range spatial {
		spatial[i] = int64(i + 2)
	}
	return hlo.ConvDims{
		InputFeature: 1, InputSpatial: spatial,
		KernelInputFeature: 1, KernelSpatial: spatial,
		OutputFeature: 1, OutputSpatial: spatial,
	}
}

// lowerConvolution: operands x, w and, or not, bias. Also the input gradient of the transposed one.
func lowerConvolution(l *ir.Lowering) hlo.Value {
	b, v, compute := l.B, readConvolution(l), l.Dtype.OpMath()
	x, w := as(b, l.In(0), compute), as(b, l.In(1), compute)
	if slices.Contains(x.Dims(), 0) || slices.Contains(w.Dims(), 0) {
		return addBias(l, b.Full(compute, 0, l.Dims...))
	}
	d := torchOrder(len(l.Dims))
	d.FeatureGroupCount = v.groups
	n := len(v.stride)
	d.Window = hlo.Window{Stride: v.stride, PadLow: v.padding, PadHigh: make([]int64, n), WindowDilation: v.dilation}
	for i := range n {
		d.Window.PadHigh[i] = (l.Dims[i+2]-1)*v.stride[i] + (w.Dims()[i+2]-1)*v.dilation[i] + 1 - x.Dims()[i+2] - v.padding[i]
	}
	return addBias(l, b.Convolution(x, w, d))
}

// addBias adds operand 2, if there is one, along the features, and rounds.
func addBias(l *ir.Lowering, y hlo.Value) hlo.Value {
	if l.Count() == 3 {
		bias := l.B.Broadcast(as(l.B, l.In(2), y.Dtype()), l.Dims, []int{1})
		y = l.B.Binary(hlo.Add, y, bias)
	}
	return as(l.B, y, l.Dtype)
}

// lowerConvolutionInputGrad: operands are the output's gradient and w (and a bias where it serves
// as the transposed convolution). The gradient, with holes for the stride, meets the flipped
// kernel with input and output features exchanged.
func lowerConvolutionInputGrad(l *ir.Lowering) hlo.Value {
	b, v, compute := l.B, readConvolution(l), l.Dtype.OpMath()
	grad, w := as(b, l.In(0), compute), as(b, l.In(1), compute)
	if slices.Contains(grad.Dims(), 0) || slices.Contains(w.Dims(), 0) || slices.Contains(l.Dims, 0) {
		return addBias(l, b.Full(compute, 0, l.Dims...))
	}
	n := len(v.stride)
	d := torchOrder(len(l.Dims))
	d.FeatureGroupCount = v.groups
	d.Window = hlo.Window{PadLow: make([]int64, n), PadHigh: make([]int64, n), BaseDilation: v.stride, WindowDilation: v.dilation}
	var flip []int
	for i := range n {
		size := w.Dims()[i+2]
		reach := (size - 1) * v.dilation[i]
		low := reach - v.padding[i]
		d.Window.PadLow[i] = low
		d.Window.PadHigh[i] = l.Dims[i+2] + reach - (grad.Dims()[i+2]-1)*v.stride[i] - 1 - low
		if size > 1 {
			flip = append(flip, i+2)
		}
	}
	if len(flip) > 0 {
		w = b.Reverse(w, flip...)
	}
	if v.groups == 1 {
		d.KernelInputFeature, d.KernelOutputFeature = 0, 1
		return addBias(l, b.Convolution(grad, w, d))
	}
	// (groups*out, in, ...) to (groups*in, out, ...)
	sizes := w.Dims()
	out, in := sizes[0]/v.groups, sizes[1]
	split := append([]int64{v.groups, out, in}, sizes[2:]...)
	exchange := make([]int, len(split))
	for i := range exchange {
		exchange[i] = i
	}
	exchange[1], exchange[2] = 2, 1
	w = b.Transpose(b.Reshape(w, split), exchange)
	w = b.Reshape(w, append([]int64{v.groups * in, out}, sizes[2:]...))
	return addBias(l, b.Convolution(grad, w, d))
}

// lowerConvolutionKernelGrad: operands are the input and the output's gradient. The input meets
// the gradient as a kernel: the batch is what is summed over, stride and dilation change places.
func lowerConvolutionKernelGrad(l *ir.Lowering) hlo.Value {
	b, v, compute := l.B, readConvolution(l), l.Dtype.OpMath()
	x, grad := as(b, l.In(0), compute), as(b, l.In(1), compute)
	if slices.Contains(x.Dims(), 0) || slices.Contains(grad.Dims(), 0) {
		return b.Full(l.Dtype, 0, l.Dims...)
	}
	n := len(v.stride)
	d := torchOrder(len(l.Dims))
	d.InputBatch, d.InputFeature = 1, 0
	d.KernelInputFeature, d.KernelOutputFeature = 0, 1
	d.OutputBatch, d.OutputFeature = 1, 0
	in := x.Dims()
	if v.groups > 1 {
		// (batch, groups*in, ...) to (groups*batch, in, ...): groups of features, for which XLA has
		// fast convolutions where it has none for groups of the batch.
		split := append([]int64{in[0], v.groups, in[1] / v.groups}, in[2:]...)
		exchange := make([]int, len(split))
		for i := range exchange {
			exchange[i] = i
		}
		exchange[0], exchange[1] = 1, 0
		x = b.Transpose(b.Reshape(x, split), exchange)
		x = b.Reshape(x, append([]int64{v.groups * in[0], in[1] / v.groups}, in[2:]...))
		d.FeatureGroupCount = v.groups
	}
	d.Window = hlo.Window{Stride: v.dilation, PadLow: v.padding, PadHigh: make([]int64, n), WindowDilation: v.stride}
	for i := range n {
		d.Window.PadHigh[i] = (l.Dims[i+2]-1)*v.dilation[i] + (grad.Dims()[i+2]-1)*v.stride[i] + 1 - in[i+2] - v.padding[i]
	}
	return as(b, b.Convolution(x, grad, d), l.Dtype)
}

// lowerFeatureSum sums over all but dimension 1: the gradient of a bias.
func lowerFeatureSum(l *ir.Lowering) hlo.Value {
	b, compute := l.B, l.Dtype.OpMath()
	x := as(b, l.In(0), compute)
	dims := []int{0}
	for i := 2; i < x.Rank(); i++ {
		dims = append(dims, i)
	}
	return as(b, b.ReduceOp(hlo.Add, x, b.Full(compute, 0), dims), l.Dtype)
}
