package hlo

import (
	"slices"

	"xla_go/gosrc/shape"
)

// ConvDims are the window and the dimension numbers of Convolution. Window.Size may be nil: it
// is the kernel's spatial size. Group counts of 0 are 1.
type ConvDims struct {
	Window                                  Window
	InputBatch, InputFeature                int64
	InputSpatial                            []int64
	KernelInputFeature, KernelOutputFeature int64
	KernelSpatial                           []int64
	OutputBatch, OutputFeature              int64
	OutputSpatial                           []int64
	FeatureGroupCount, BatchGroupCount      int64
	Precision                               Precision
}

// Convolution correlates x with the kernel w as XLA defines it (no flip unless Window.Reversal).
func (b *Builder) Convolution(x, w Value, c ConvDims) Value {
	if !b.ok(opConvolution, x, w) {
		return Value{}
	}
	in, kernel := x.n.shape, w.n.shape
	rank := len(in.Dims)
	if in.Dtype != kernel.Dtype || in.Dtype.Size() == 0 {
		return b.fail(opConvolution, "expected arrays of equal element type, got %v and %v", in, kernel)
	}
	if rank < 2 || len(kernel.Dims) != rank {
		return b.fail(opConvolution, "expected input and kernel of equal rank of at least 2, got %v and %v", in, kernel)
	}
	for _, list := range [][]int64{
		slices.Concat([]int64{c.InputBatch, c.InputFeature}, c.InputSpatial),
		slices.Concat([]int64{c.KernelInputFeature, c.KernelOutputFeature}, c.KernelSpatial),
		slices.Concat([]int64{c.OutputBatch, c.OutputFeature}, c.OutputSpatial),
	} {
		if len(list) != rank || !distinct(list, rank) {
			return b.fail(opConvolution, "expected dimension numbers that name each of %d dimensions once, got %v", rank, list)
		}
	}
	features, batches := max(c.FeatureGroupCount, 1), max(c.BatchGroupCount, 1)
	if features > 1 && batches > 1 {
		return b.fail(opConvolution, "expected feature groups or batch groups, got %d and %d", features, batches)
	}
	batch, feature := in.Dims[c.InputBatch], in.Dims[c.InputFeature]
	kernelIn, kernelOut := kernel.Dims[c.KernelInputFeature], kernel.Dims[c.KernelOutputFeature]
	if feature != kernelIn*features {
		return b.fail(opConvolution, "expected %d input features for %d groups and a kernel of %d input features, got %d",
			kernelIn*features, features, kernelIn, feature)
	}
	if kernelOut%features != 0 || kernelOut%batches != 0 || batch%batches != 0 {
		return b.fail(opConvolution, "expected batch size %d and output features %d to be multiples of the group count, got %d",
			batch, kernelOut, max(features, batches))
	}
	spatial := make([]int64, rank-2)
	sizes := make([]int64, rank-2)
	for i := range spatial {
		spatial[i] = in.Dims[c.InputSpatial[i]]
		sizes[i] = kernel.Dims[c.KernelSpatial[i]]
	}
	window := c.Window
	if window.Size == nil {
		window.Size = sizes
	} else if !slices.Equal(window.Size, sizes) {
		return b.fail(opConvolution, "expected a window of the kernel's size %v, got %v", sizes, window.Size)
	}
	out, ok := window.output(b, opConvolution, spatial)
	if !ok {
		return Value{}
	}
	dims := make([]int64, rank)
	dims[c.OutputBatch] = batch / batches
	dims[c.OutputFeature] = kernelOut
	for i, d := range c.OutputSpatial {
		dims[d] = out[i]
	}
	n, at := b.begin(opConvolution, shape.Shape{Dtype: in.Dtype, Dims: dims})
	e := &b.body
	b.window(&window, rank-2)
	numbers := e.open(16)
	e.varint(3, c.KernelInputFeature)
	e.varint(4, c.KernelOutputFeature)
	e.packed(6, c.KernelSpatial)
	e.varint(7, c.InputBatch)
	e.varint(8, c.InputFeature)
	e.varint(9, c.OutputBatch)
	e.varint(10, c.OutputFeature)
	e.packed(11, c.InputSpatial)
	e.packed(12, c.OutputSpatial)
	e.close(numbers)
	e.varint(50, features)
	e.varint(58, batches)
	b.precision(c.Precision)
	return b.end(n, at, x, w)
}
