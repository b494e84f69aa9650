package ops

import (
	"testing"

	"xla_go/gosrc/dtype"
)

func TestGoldenMatmul(t *testing.T) {
	f := func(dims ...int64) Argument { return tensorOf(dtype.F32, dims...) }
	h := func(dims ...int64) Argument { return tensorOf(dtype.BF16, dims...) }
	s := func(dims ...int64) Argument { return tensorOf(dtype.S64, dims...) }
	one := intArg(1)
	golden(t, "matmul", []goldenCase{
		{Row: "mm", Args: []Argument{f(2, 3), f(3, 5)}},
		{"mm bf16", "mm", []Argument{h(2, 3), h(3, 5)}},
		{"mm integers", "mm", []Argument{s(2, 3), s(3, 5)}},
		{"mm shapes", "mm", []Argument{f(2, 3), f(4, 5)}},
		{"mm types", "mm", []Argument{f(2, 3), tensorOf(dtype.F64, 3, 5)}},
		{"mm bool", "mm", []Argument{tensorOf(dtype.Bool, 2, 3), tensorOf(dtype.Bool, 3, 5)}},
		{Row: "bmm", Args: []Argument{f(2, 3, 4), f(2, 4, 5)}},
		{"bmm shapes", "bmm", []Argument{f(2, 3, 4), f(3, 4, 5)}},
		{Row: "mv", Args: []Argument{f(2, 3), f(3)}},
		{Row: "dot", Args: []Argument{h(3), h(3)}},
		{Row: "vdot", Args: []Argument{tensorOf(dtype.C64, 3), tensorOf(dtype.C64, 3)}},
		{Row: "addmm", Args: []Argument{f(5), f(2, 3), f(3, 5), one, one}},
		{"addmm bf16 alpha beta", "addmm", []Argument{h(5), h(2, 3), h(3, 5), floatArg(0.5), floatArg(2)}},
		{"addmm beta 0", "addmm", []Argument{f(5), f(2, 3), f(3, 5), intArg(0), one}},
		{"addmm integers", "addmm", []Argument{s(2, 5), s(2, 3), s(3, 5), intArg(3), floatArg(1.5)}},
		{"addmm self", "addmm", []Argument{f(4), f(2, 3), f(3, 5), one, one}},
		{Row: "baddbmm", Args: []Argument{f(5), f(2, 3, 4), f(2, 4, 5), one, floatArg(0.5)}},
		{Row: "addbmm", Args: []Argument{f(3, 5), f(2, 3, 4), f(2, 4, 5), one, one}},
		{Row: "addmv", Args: []Argument{f(), f(2, 3), f(3), floatArg(2), one}},
		{Row: "addr", Args: []Argument{h(2, 5), f(2), h(5), one, one}},
		{"addr bool", "addr", []Argument{tensorOf(dtype.Bool, 2, 5), tensorOf(dtype.Bool, 2), tensorOf(dtype.Bool, 5), one, intArg(2)}},
		{"_addmm_activation relu", "_addmm_activation", []Argument{h(5), h(2, 3), h(3, 5), one, one, boolArg(false)}},
		{"_addmm_activation gelu", "_addmm_activation", []Argument{f(5), f(2, 3), f(3, 5), one, one, boolArg(true)}},
	})
}

func TestGoldenConvolution(t *testing.T) {
	f := func(dims ...int64) Argument { return tensorOf(dtype.F32, dims...) }
	h := func(dims ...int64) Argument { return tensorOf(dtype.BF16, dims...) }
	forward := func(x, w, bias Argument, stride, padding, dilation []int64, transposed bool, outputPadding []int64, groups int64) []Argument {
		return []Argument{x, w, bias, intsArg(stride...), intsArg(padding...), intsArg(dilation...), boolArg(transposed), intsArg(outputPadding...), intArg(groups)}
	}
	backward := func(g, x, w Argument, stride, padding, dilation []int64, transposed bool, outputPadding []int64, groups int64, wanted ...int64) []Argument {
		return append(forward(g, x, w, stride, padding, dilation, transposed, outputPadding, groups), boolsArg(wanted...))
	}
	two := func(v int64) []int64 { return []int64{v, v} }
	golden(t, "convolution", []goldenCase{
		{"1d", "convolution_overrideable", forward(f(2, 3, 9), f(4, 3, 3), none(), []int64{2}, []int64{1}, []int64{2}, false, []int64{0}, 1)},
		{"2d with bias", "convolution_overrideable", forward(h(2, 4, 8, 8), h(6, 2, 3, 3), h(6), two(1), two(1), two(1), false, two(0), 2)},
		{"3d", "convolution_overrideable", forward(f(1, 2, 4, 4, 4), f(3, 2, 2, 2, 2), none(), []int64{1, 1, 1}, []int64{0, 0, 0}, []int64{1, 1, 1}, false, []int64{0, 0, 0}, 1)},
		{"transposed", "convolution_overrideable", forward(f(2, 4, 5, 5), f(4, 3, 3, 3), f(6), two(2), two(1), two(1), true, two(1), 2)},
		{"types", "convolution_overrideable", forward(f(2, 4, 5, 5), tensorOf(dtype.F64, 4, 4, 3, 3), none(), two(1), two(1), two(1), false, two(0), 1)},
		{"backward", "convolution_backward_overrideable", backward(f(2, 6, 4, 4), f(2, 4, 8, 8), f(6, 4, 3, 3), two(2), two(1), two(1), false, two(0), 1, 1, 1, 1)},
		{"backward of groups", "convolution_backward_overrideable", backward(f(2, 8, 8, 8), f(2, 4, 8, 8), f(8, 1, 3, 3), two(1), two(1), two(1), false, two(0), 4, 1, 1, 0)},
		{"backward of transposed", "convolution_backward_overrideable", backward(f(2, 3, 10, 10), f(2, 4, 5, 5), f(4, 3, 3, 3), two(2), two(1), two(1), true, two(1), 1, 1, 1, 0)},
		{"backward of the bias only", "convolution_backward_overrideable", backward(h(2, 6, 4, 4), h(2, 4, 8, 8), h(6, 4, 3, 3), two(2), two(1), two(1), false, two(0), 1, 0, 0, 1)},
	})
}

func TestGoldenPool(t *testing.T) {
	f := func(dims ...int64) Argument { return tensorOf(dtype.F32, dims...) }
	h := func(dims ...int64) Argument { return tensorOf(dtype.BF16, dims...) }
	index := func(dims ...int64) Argument { return tensorOf(dtype.S64, dims...) }
	none2, one2, two2 := intsArg(), intsArg(1, 1), intsArg(2, 2)
	zero2, no, yes := intsArg(0, 0), boolArg(false), boolArg(true)
	golden(t, "pool", []goldenCase{
		{Row: "max_pool2d_with_indices", Args: []Argument{f(2, 3, 5, 6), two2, none2, intsArg(1), one2, yes}},
		{"max_pool2d_with_indices large", "max_pool2d_with_indices", []Argument{h(3, 9, 9), intsArg(6), intsArg(2), intsArg(0), intsArg(1), no}},
		{"max_pool3d_with_indices integers", "max_pool3d_with_indices", []Argument{tensorOf(dtype.S32, 1, 4, 4, 4), intsArg(2), intsArg(), intsArg(0), intsArg(1), no}},
		{"max_pool2d_with_indices padding", "max_pool2d_with_indices", []Argument{f(1, 5, 5), two2, one2, two2, one2, no}},
		{Row: "max_pool2d_with_indices_backward", Args: []Argument{h(1, 2, 2), h(1, 5, 5), two2, two2, zero2, one2, no, index(1, 2, 2)}},
		{"max_pool2d_with_indices_backward large", "max_pool2d_with_indices_backward", []Argument{f(1, 2, 2), f(1, 9, 9), intsArg(6), intsArg(3), zero2, one2, no, index(1, 2, 2)}},
		{"avg_pool2d ceil", "avg_pool2d", []Argument{h(1, 5, 5), two2, two2, zero2, yes, yes, none()}},
		{"avg_pool2d padding left out", "avg_pool2d", []Argument{f(1, 5, 5), intsArg(3, 3), two2, one2, no, no, none()}},
		{"avg_pool3d divisor", "avg_pool3d", []Argument{f(1, 4, 4, 4), intsArg(2), intsArg(), intsArg(0), no, yes, intArg(3)}},
		{Row: "avg_pool2d_backward", Args: []Argument{f(1, 3, 3), f(1, 5, 5), intsArg(3, 3), two2, one2, no, yes, none()}},
		{"adaptive average even", "_adaptive_avg_pool2d", []Argument{h(2, 3, 8, 6), intsArg(4, 1)}},
		{"adaptive average uneven", "_adaptive_avg_pool2d", []Argument{f(3, 7, 5), intsArg(3, 5)}},
		{"adaptive average backward even", "_adaptive_avg_pool2d_backward", []Argument{f(3, 2, 2), f(3, 8, 4)}},
		{"adaptive average backward uneven", "_adaptive_avg_pool2d_backward", []Argument{f(3, 3, 5), f(3, 7, 5)}},
		{"adaptive maximum", "adaptive_max_pool2d", []Argument{f(3, 7, 5), intsArg(3, 2)}},
		{"adaptive maximum backward", "adaptive_max_pool2d_backward", []Argument{f(3, 3, 2), f(3, 7, 5), index(3, 3, 2)}},
	})
}

func TestGoldenUpsample(t *testing.T) {
	f := func(dims ...int64) Argument { return tensorOf(dtype.F32, dims...) }
	h := func(dims ...int64) Argument { return tensorOf(dtype.BF16, dims...) }
	no, yes := boolArg(false), boolArg(true)
	golden(t, "upsample", []goldenCase{
		{Row: "upsample_nearest2d", Args: []Argument{f(1, 2, 3, 4), intsArg(6, 8), none(), none()}},
		{"upsample_nearest2d by a scale", "upsample_nearest2d", []Argument{f(1, 2, 3, 4), intsArg(4, 6), floatArg(1.5), floatArg(1.5)}},
		{Row: "upsample_nearest2d_backward", Args: []Argument{f(1, 2, 6, 8), intsArg(6, 8), intsArg(1, 2, 3, 4), none(), none()}},
		{Row: "upsample_bilinear2d", Args: []Argument{h(1, 2, 3, 4), intsArg(6, 8), no, none(), none()}},
		{"upsample_bilinear2d bytes", "upsample_bilinear2d", []Argument{tensorOf(dtype.U8, 1, 2, 3, 4), intsArg(6, 8), yes, none(), none()}},
		{Row: "upsample_linear1d_backward", Args: []Argument{f(1, 2, 7), intsArg(7), intsArg(1, 2, 3), yes, none()}},
		{Row: "upsample_bicubic2d", Args: []Argument{f(1, 1, 3, 3), intsArg(5, 3), no, none(), none()}},
		{Row: "_upsample_bilinear2d_aa", Args: []Argument{f(1, 1, 9, 9), intsArg(3, 4), no, none(), none()}},
		{"reflection_pad2d", "reflection_pad2d", []Argument{f(2, 3, 4), intsArg(1, 2, 0, 1)}},
		{"replication_pad1d_backward", "replication_pad1d_backward", []Argument{h(2, 6), h(2, 3), intsArg(2, 1)}},
	})
}
