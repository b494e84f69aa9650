package ops

import (
	"math"
	"testing"

	"xla_go/gosrc/dtype"
)

func TestGoldenUnfold(t *testing.T) {
	f := func(dims ...int64) Argument { return tensorOf(dtype.F32, dims...) }
	index := tensorOf(dtype.S64, 1, 2, 2)
	golden(t, "unfold", []goldenCase{
		{Row: "im2col", Args: []Argument{f(2, 3, 5, 4), intsArg(2, 2), intsArg(1, 2), intsArg(1, 0), intsArg(2, 1)}},
		{Row: "col2im", Args: []Argument{tensorOf(dtype.BF16, 8, 16), intsArg(5, 5), intsArg(2, 2), intsArg(1, 1), intsArg(0, 0), intsArg(1, 1)}},
		{Row: "max_unpool2d", Args: []Argument{f(1, 2, 2), index, intsArg(4, 5)}},
	})
}

func TestGoldenGridSampler(t *testing.T) {
	x, grid, grad := tensorOf(dtype.F32, 2, 3, 5, 4), tensorOf(dtype.F32, 2, 2, 3, 2), tensorOf(dtype.F32, 2, 3, 2, 3)
	yes, no, both := boolArg(true), boolArg(false), boolsArg(1, 1)
	golden(t, "grid_sampler", []goldenCase{
		{"nearest", "grid_sampler_2d", []Argument{x, grid, intArg(1), intArg(1), yes}},
		{"bilinear", "grid_sampler_2d", []Argument{x, grid, intArg(0), intArg(0), no}},
		{"nearest backward", "grid_sampler_2d_backward", []Argument{grad, x, grid, intArg(1), intArg(0), no, both}},
		{"bilinear reflection backward", "grid_sampler_2d_backward", []Argument{grad, x, grid, intArg(0), intArg(2), no, boolsArg(0, 1)}},
		{"sizes", "grid_sampler_2d", []Argument{x, tensorOf(dtype.F32, 2, 2, 3, 3), intArg(0), intArg(0), no}},
	})
}

func TestGoldenDistance(t *testing.T) {
	x, y := tensorOf(dtype.F32, 2, 3, 4), tensorOf(dtype.F32, 5, 4)
	d, grad := tensorOf(dtype.F32, 2, 3, 5), tensorOf(dtype.F32, 2, 3, 5)
	golden(t, "distance", []goldenCase{
		{"Euclidean", "_cdist_forward", []Argument{x, y, floatArg(2), none()}},
		{"Euclidean by a product", "_cdist_forward", []Argument{x, y, floatArg(2), intArg(1)}},
		{"p of 3", "_cdist_forward", []Argument{x, y, floatArg(3), none()}},
		{"infinite p backward", "_cdist_backward", []Argument{grad, x, y, floatArg(math.Inf(1)), d}},
		{"columns", "_cdist_forward", []Argument{x, tensorOf(dtype.F32, 5, 3), floatArg(2), none()}},
	})
}
