package ops

import (
	"math"
	"testing"

	"xla_go/gosrc/dtype"
)

func generatorArg() Argument {
	return Argument{Tag: TagGenerator, Generator: Generator{Seed: 7, Offset: new(uint64)}}
}

// expanded makes the last dimension one of stride 0.
func expanded(a Argument) Argument {
	a.View.Strides[len(a.View.Strides)-1] = 0
	return a
}

func TestGoldenIndex(t *testing.T) {
	x, vector := tensorOf(dtype.F32, 3, 4), tensorOf(dtype.S64, 2)
	square := tensorOf(dtype.S64, 2, 2)
	cube := tensorOf(dtype.F32, 3, 4, 5)
	golden(t, "index", []goldenCase{
		{Row: "index_select", Args: []Argument{x, intArg(-1), vector}},
		{Name: "index_select of a scalar", Row: "index_select", Args: []Argument{tensorOf(dtype.BF16), intArg(0), tensorOf(dtype.S32, 1)}},
		{Name: "index_select of float index", Row: "index_select", Args: []Argument{x, intArg(0), tensorOf(dtype.F32, 2)}},
		{Row: "gather", Args: []Argument{x, intArg(0), square, boolArg(false)}},
		{Name: "gather, index too large", Row: "gather", Args: []Argument{x, intArg(0), tensorOf(dtype.S64, 2, 5), boolArg(false)}},
		{Name: "gather, one position for a row", Row: "gather", Args: []Argument{x, intArg(0), expanded(tensorOf(dtype.S64, 2, 3)), boolArg(false)}},
		{Name: "scatter_add, one position for a row", Row: "scatter_add", Args: []Argument{x, intArg(0), expanded(tensorOf(dtype.S64, 2, 3)), x}},
		{Row: "take", Args: []Argument{x, square}},
		{Row: "index.Tensor", Args: []Argument{cube, listArg(none(), vector)}},
		{Name: "index.Tensor adjacent", Row: "index.Tensor", Args: []Argument{cube, listArg(none(), vector, tensorOf(dtype.S64, 3, 1))}},
		{Name: "index.Tensor apart", Row: "index.Tensor", Args: []Argument{cube, listArg(vector, none(), vector)}},
		{Name: "index.Tensor mask", Row: "index.Tensor", Args: []Argument{x, listArg(tensorOf(dtype.Bool, 3, 4))}},
		{Row: "embedding", Args: []Argument{x, square, intArg(-1), boolArg(false), boolArg(false)}},
		{Row: "embedding_dense_backward", Args: []Argument{tensorOf(dtype.BF16, 2, 2, 4), square, intArg(3), intArg(1), boolArg(true)}},
		{Row: "scatter.src", Args: []Argument{x, intArg(1), square, x}},
		{Row: "scatter.value", Args: []Argument{x, intArg(1), square, floatArg(2)}},
		{Row: "scatter.reduce", Args: []Argument{x, intArg(1), square, x, textArg("multiply")}},
		{Row: "scatter_add", Args: []Argument{tensorOf(dtype.BF16, 3, 4), intArg(0), square, tensorOf(dtype.BF16, 3, 4)}},
		{Row: "scatter_reduce.two", Args: []Argument{x, intArg(0), square, x, textArg("mean"), boolArg(false)}},
		{Name: "scatter_reduce.two amax", Row: "scatter_reduce.two", Args: []Argument{x, intArg(0), square, x, textArg("amax"), boolArg(true)}},
		{Row: "put_", Args: []Argument{x, vector, tensorOf(dtype.F32, 2), boolArg(true)}},
		{Row: "_index_put_impl_", Args: []Argument{cube, listArg(none(), vector), tensorOf(dtype.F32, 5), boolArg(false), boolArg(false)}},
		{Name: "_index_put_impl_ apart, accumulating", Row: "_index_put_impl_", Args: []Argument{cube, listArg(vector, none(), vector), tensorOf(dtype.F32, 2, 4), boolArg(true), boolArg(false)}},
		{Name: "_index_put_impl_ mask", Row: "_index_put_impl_", Args: []Argument{cube, listArg(tensorOf(dtype.Bool, 3, 4)), tensorOf(dtype.F32, 5), boolArg(false), boolArg(false)}},
		{Name: "_index_put_impl_ mask, a value each", Row: "_index_put_impl_", Args: []Argument{cube, listArg(tensorOf(dtype.Bool, 3, 4)), tensorOf(dtype.F32, 2, 5), boolArg(false), boolArg(false)}},
		{Row: "index_add", Args: []Argument{x, intArg(1), vector, tensorOf(dtype.F32, 3, 2), floatArg(0.5)}},
		{Row: "index_copy", Args: []Argument{x, intArg(0), vector, tensorOf(dtype.F32, 2, 4)}},
		{Row: "index_reduce", Args: []Argument{tensorOf(dtype.S64, 3, 4), intArg(0), vector, tensorOf(dtype.S64, 2, 4), textArg("mean"), boolArg(true)}},
		{Row: "index_fill_.int_Scalar", Args: []Argument{x, intArg(0), vector, floatArg(1)}},
	})
}

func TestGoldenShape(t *testing.T) {
	x, s := tensorOf(dtype.F32, 3, 4), tensorOf(dtype.S64, 2, 4)
	golden(t, "shape", []goldenCase{
		{Row: "cat", Args: []Argument{listArg(x, tensorOf(dtype.F32, 0), s), intArg(0)}},
		{Name: "cat of unequal sizes", Row: "cat", Args: []Argument{listArg(x, s), intArg(1)}},
		{Row: "stack", Args: []Argument{listArg(x, x), intArg(-1)}},
		{Row: "constant_pad_nd", Args: []Argument{x, intsArg(1, -2, 0, 3), floatArg(1)}},
		{Row: "flip", Args: []Argument{x, intsArg(-1, 0)}},
		{Row: "roll", Args: []Argument{x, intsArg(-1, 6), intsArg(0, 1)}},
		{Name: "roll, flattened", Row: "roll", Args: []Argument{x, intsArg(5), intsArg()}},
		{Row: "repeat", Args: []Argument{x, intsArg(2, 1, 3)}},
		{Row: "tril", Args: []Argument{x, intArg(-1)}},
		{Row: "triu", Args: []Argument{tensorOf(dtype.Bool, 2, 3, 4), intArg(math.MaxInt64)}},
		{Row: "diag_embed", Args: []Argument{x, intArg(-1), intArg(0), intArg(2)}},
		{Row: "channel_shuffle", Args: []Argument{tensorOf(dtype.F32, 2, 6, 3), intArg(3)}},
		{Row: "pixel_shuffle", Args: []Argument{tensorOf(dtype.F32, 2, 8, 3, 3), intArg(2)}},
		{Row: "pixel_unshuffle", Args: []Argument{tensorOf(dtype.F32, 8, 4, 6), intArg(2)}},
		{Row: "select_backward", Args: []Argument{tensorOf(dtype.F32, 3), intsArg(3, 4), intArg(1), intArg(-1)}},
		{Row: "slice_backward", Args: []Argument{tensorOf(dtype.F32, 3, 2), intsArg(3, 4), intArg(1), intArg(0), intArg(math.MaxInt64), intArg(2)}},
		{Row: "slice_scatter", Args: []Argument{x, tensorOf(dtype.F32, 3, 2), intArg(1), intArg(1), intArg(4), intArg(2)}},
		{Name: "slice_scatter, step 1", Row: "slice_scatter", Args: []Argument{x, tensorOf(dtype.F32, 3, 2), intArg(1), intArg(1), intArg(3), intArg(1)}},
		{Row: "select_scatter", Args: []Argument{x, tensorOf(dtype.F32, 4), intArg(0), intArg(1)}},
		{Row: "diagonal_backward", Args: []Argument{tensorOf(dtype.F32, 3), intsArg(3, 4), intArg(1), intArg(0), intArg(1)}},
		{Row: "diagonal_scatter", Args: []Argument{x, tensorOf(dtype.F32, 2), intArg(-1), intArg(0), intArg(1)}},
		{Row: "unfold_backward", Args: []Argument{tensorOf(dtype.F32, 3, 2, 3), intsArg(3, 6), intArg(1), intArg(3), intArg(2)}},
		{Row: "as_strided_scatter", Args: []Argument{x, tensorOf(dtype.F32, 2, 2), intsArg(2, 2), intsArg(1, 4), intArg(2)}},
	})
}

func TestGoldenCreation(t *testing.T) {
	f32, out := intArg(6), tensorOf(dtype.S32, 0)
	golden(t, "creation", []goldenCase{
		{Row: "arange.start_step", Args: []Argument{intArg(0), intArg(5), intArg(1), out}},
		{Name: "arange of floats", Row: "arange.start_step", Args: []Argument{floatArg(0.5), floatArg(5), floatArg(0.7), f32}},
		{Name: "arange against the step", Row: "arange.start_step", Args: []Argument{intArg(5), intArg(0), intArg(1), out}},
		{Row: "range.step", Args: []Argument{floatArg(0), floatArg(2), floatArg(0.5), f32}},
		{Row: "linspace", Args: []Argument{floatArg(0), floatArg(1), intArg(5), f32}},
		{Row: "logspace", Args: []Argument{floatArg(0), floatArg(1), intArg(5), floatArg(10), f32}},
		{Row: "eye", Args: []Argument{intArg(3), out}},
		{Row: "eye.m", Args: []Argument{intArg(2), intArg(3), f32}},
		{Row: "tril_indices", Args: []Argument{intArg(3), intArg(4), intArg(-1), none()}},
		{Row: "triu_indices", Args: []Argument{intArg(3), intArg(4), intArg(1), intArg(3)}},
	})
}

func TestGoldenSort(t *testing.T) {
	x := tensorOf(dtype.F32, 3, 5)
	golden(t, "sort", []goldenCase{
		{Row: "sort.stable", Args: []Argument{x, boolArg(true), intArg(-1), boolArg(true)}},
		{Name: "sort.stable of bool", Row: "sort.stable", Args: []Argument{tensorOf(dtype.Bool, 4), none(), intArg(0), boolArg(false)}},
		{Row: "topk", Args: []Argument{x, intArg(2), intArg(1), boolArg(false), boolArg(true)}},
		{Row: "searchsorted.Tensor", Args: []Argument{x, tensorOf(dtype.F32, 3, 2), boolArg(true), boolArg(false), none(), tensorOf(dtype.S64, 3, 5)}},
		{Row: "bucketize.Tensor", Args: []Argument{x, tensorOf(dtype.S64, 4), boolArg(false), boolArg(true)}},
		{Row: "isin.Tensor_Tensor", Args: []Argument{x, tensorOf(dtype.S64, 3), boolArg(false), boolArg(true)}},
		{Name: "isin of many", Row: "isin.Scalar_Tensor", Args: []Argument{intArg(3), tensorOf(dtype.S32, 100), boolArg(false), boolArg(false)}},
		{Row: "repeat_interleave.Tensor", Args: []Argument{tensorOf(dtype.S64, 3), intArg(7)}},
	})
}

func TestGoldenRandom(t *testing.T) {
	x, g := tensorOf(dtype.F32, 3, 5), generatorArg()
	golden(t, "random", []goldenCase{
		{Row: "uniform_", Args: []Argument{x, floatArg(0), floatArg(1), g}},
		{Row: "normal_", Args: []Argument{tensorOf(dtype.C128, 3), floatArg(0), floatArg(1), g}},
		{Row: "bernoulli_.float", Args: []Argument{tensorOf(dtype.BF16, 3), floatArg(0.25), g}},
		{Row: "random_", Args: []Argument{tensorOf(dtype.S64, 3), g}},
		{Row: "random_.from", Args: []Argument{tensorOf(dtype.U8, 3), intArg(5), none(), g}},
		{Name: "random_.from, out of bounds", Row: "random_.from", Args: []Argument{tensorOf(dtype.U8, 3), intArg(5), intArg(300), g}},
		{Row: "randperm.generator", Args: []Argument{intArg(6), g, tensorOf(dtype.S64, 0)}},
		{Name: "multinomial with replacement", Row: "multinomial", Args: []Argument{x, intArg(8), boolArg(true), g}},
		{Row: "native_dropout", Args: []Argument{tensorOf(dtype.BF16, 4), floatArg(0.25), boolArg(true), g}},
	})
}
