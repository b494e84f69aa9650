package ops

import (
	"math"
	"testing"

	"xla_go/gosrc/dtype"
)

func boolsArg(v ...int64) Argument { return Argument{Tag: TagBoolList, Ints: v} }

// typeArg is a dtype argument, which comes as c10::ScalarType's number.
func typeArg(d dtype.Dtype) Argument {
	n, _ := d.Torch()
	return intArg(int64(n))
}

func TestGoldenReduction(t *testing.T) {
	x, half, whole := tensorOf(dtype.F32, 2, 3), tensorOf(dtype.BF16, 2, 3), tensorOf(dtype.S32, 2, 3)
	yes, empty, complex := tensorOf(dtype.Bool, 2, 3), tensorOf(dtype.F32, 0, 3), tensorOf(dtype.C64, 2, 3)
	keep, drop := boolArg(true), boolArg(false)
	golden(t, "reduction", []goldenCase{
		{Row: "sum", Args: []Argument{x, none()}},
		{"sum bool", "sum", []Argument{yes, none()}},
		{"sum to bool", "sum", []Argument{x, typeArg(dtype.Bool)}},
		{"sum.dim_IntList bf16", "sum.dim_IntList", []Argument{half, intsArg(-1), keep, none()}},
		{"sum.dim_IntList no dims", "sum.dim_IntList", []Argument{whole, intsArg(), drop, none()}},
		{"sum.dim_IntList dim twice", "sum.dim_IntList", []Argument{x, intsArg(0, -2), drop, none()}},
		{"sum.dim_IntList dim outside", "sum.dim_IntList", []Argument{x, intsArg(2), drop, none()}},
		{"sum of a scalar", "sum.dim_IntList", []Argument{tensorOf(dtype.F32), intsArg(0), drop, none()}},
		{Row: "mean.dim", Args: []Argument{x, intsArg(0), drop, none()}},
		{"mean complex", "mean", []Argument{complex, none()}},
		{"mean of integers", "mean", []Argument{whole, none()}},
		{Row: "prod.dim_int", Args: []Argument{whole, intArg(1), drop, none()}},
		{Row: "nansum", Args: []Argument{x, none(), drop, none()}},
		{Row: "all.dims", Args: []Argument{x, intsArg(0, 1), keep}},
		{"all.dims none", "all.dims", []Argument{x, intsArg(), drop}},
		{"any bytes", "any", []Argument{tensorOf(dtype.U8, 3)}},
		{Row: "amax", Args: []Argument{half, intsArg(1), drop}},
		{"amin empty", "amin", []Argument{empty, intsArg(0), drop}},
		{"amax nothing", "amax", []Argument{empty, intsArg(), drop}},
		{"max bool", "max", []Argument{yes}},
		{Row: "aminmax", Args: []Argument{x, intArg(1), drop}},
		{Row: "max.dim", Args: []Argument{x, intArg(1), drop}},
		{"min.dim integers", "min.dim", []Argument{whole, intArg(0), keep}},
		{Row: "argmax", Args: []Argument{x, none(), drop}},
		{"argmin bool", "argmin", []Argument{yes, none(), drop}},
		{Row: "count_nonzero", Args: []Argument{x, none()}},
		{Row: "trace", Args: []Argument{whole}},
		{Row: "logsumexp", Args: []Argument{x, intsArg(1), drop}},
		{Row: "var.correction", Args: []Argument{x, intsArg(1), none(), keep}},
		{"std_mean.correction complex", "std_mean.correction", []Argument{complex, none(), floatArg(0), drop}},
		{Row: "linalg_vector_norm", Args: []Argument{x, intArg(2), none(), drop, none()}},
		{"linalg_vector_norm inf", "linalg_vector_norm", []Argument{half, floatArg(math.Inf(1)), intsArg(0), drop, none()}},
		{"linalg_vector_norm 3 to f64", "linalg_vector_norm", []Argument{complex, floatArg(3), none(), drop, typeArg(dtype.C128)}},
		{"linalg_vector_norm inf of nothing", "linalg_vector_norm", []Argument{empty, floatArg(math.Inf(1)), none(), drop, none()}},
		{Row: "norm.Scalar", Args: []Argument{x, intArg(1)}},
	})
}

func TestGoldenScan(t *testing.T) {
	x := tensorOf(dtype.F32, 2, 3)
	golden(t, "scan", []goldenCase{
		{Row: "cumsum", Args: []Argument{x, intArg(-1), none()}},
		{"cumsum long", "cumsum", []Argument{tensorOf(dtype.S32, 100), intArg(0), none()}},
		{Row: "cumprod", Args: []Argument{tensorOf(dtype.BF16, 4), intArg(0), none()}},
		{Row: "logcumsumexp", Args: []Argument{x, intArg(0)}},
		{Row: "cummax", Args: []Argument{x, intArg(1)}},
		{"cummin of a scalar", "cummin", []Argument{tensorOf(dtype.F32), intArg(0)}},
	})
}

func TestGoldenOrderStatistic(t *testing.T) {
	x, drop := tensorOf(dtype.F32, 2, 3), boolArg(false)
	golden(t, "order_statistic", []goldenCase{
		{Row: "median", Args: []Argument{x}},
		{Row: "nanmedian.dim", Args: []Argument{x, intArg(-1), boolArg(true)}},
		{"median.dim integers", "median.dim", []Argument{tensorOf(dtype.S64, 4), intArg(0), drop}},
		{Row: "kthvalue", Args: []Argument{x, intArg(2), intArg(1), drop}},
		{"kthvalue outside", "kthvalue", []Argument{x, intArg(4), intArg(1), drop}},
		{Row: "mode", Args: []Argument{tensorOf(dtype.S64, 4), intArg(0), drop}},
		{Row: "renorm", Args: []Argument{x, intArg(2), intArg(0), floatArg(1)}},
	})
}

func TestGoldenSoftmax(t *testing.T) {
	x, half := tensorOf(dtype.F32, 2, 3), tensorOf(dtype.BF16, 2, 3)
	golden(t, "softmax", []goldenCase{
		{Row: "_softmax", Args: []Argument{half, intArg(-1), boolArg(false)}},
		{Row: "_log_softmax", Args: []Argument{x, intArg(1), boolArg(false)}},
		{"_log_softmax of integers", "_log_softmax", []Argument{tensorOf(dtype.S64, 2, 3), intArg(0), boolArg(false)}},
		{Row: "_safe_softmax", Args: []Argument{x, intArg(1), none()}},
		{Row: "_softmax_backward_data", Args: []Argument{x, x, intArg(1), typeArg(dtype.F32)}},
		{Row: "_log_softmax_backward_data", Args: []Argument{half, half, intArg(1), typeArg(dtype.BF16)}},
	})
}

func TestGoldenLoss(t *testing.T) {
	x, y, class := tensorOf(dtype.F32, 2, 3), tensorOf(dtype.F32, 3), tensorOf(dtype.S64, 2)
	scalar := tensorOf(dtype.F32)
	image, mask := tensorOf(dtype.F32, 2, 3, 4, 5), tensorOf(dtype.S64, 2, 4, 5)
	none, mean, sum := intArg(lossNone), intArg(lossMean), intArg(lossSum)
	golden(t, "loss", []goldenCase{
		{Row: "nll_loss_forward", Args: []Argument{x, class, Argument{}, mean, intArg(-100)}},
		{"nll_loss_forward weighted", "nll_loss_forward", []Argument{x, class, y, none, intArg(1)}},
		{"nll_loss_forward one sample", "nll_loss_forward", []Argument{y, tensorOf(dtype.S64), Argument{}, none, intArg(1)}},
		{"nll_loss_forward classes as floats", "nll_loss_forward", []Argument{x, tensorOf(dtype.F32, 2), Argument{}, mean, intArg(-100)}},
		{Row: "nll_loss_backward", Args: []Argument{scalar, x, class, Argument{}, mean, intArg(-100), scalar}},
		{Row: "nll_loss2d_forward", Args: []Argument{image, mask, Argument{}, sum, intArg(-100)}},
		{Row: "nll_loss2d_backward", Args: []Argument{tensorOf(dtype.F32, 2, 4, 5), image, mask, y, none, intArg(-100), scalar}},
		{Row: "mse_loss", Args: []Argument{x, y, mean}},
		{Row: "mse_loss_backward", Args: []Argument{scalar, x, x, mean}},
		{Row: "smooth_l1_loss", Args: []Argument{x, x, none, floatArg(1)}},
		{"smooth_l1_loss beta", "smooth_l1_loss", []Argument{x, x, none, floatArg(-1)}},
		{Row: "huber_loss_backward", Args: []Argument{x, x, x, sum, floatArg(1)}},
		{Row: "binary_cross_entropy", Args: []Argument{x, x, y, sum}},
		{Row: "binary_cross_entropy_backward", Args: []Argument{scalar, x, x, Argument{}, mean}},
		{Row: "binary_cross_entropy_with_logits", Args: []Argument{x, x, Argument{}, y, mean}},
	})
}

func TestGoldenNorm(t *testing.T) {
	x, half, w := tensorOf(dtype.F32, 2, 3, 4), tensorOf(dtype.BF16, 2, 3, 4), tensorOf(dtype.F32, 3)
	mean, variance := tensorOf(dtype.F32, 3), tensorOf(dtype.F32, 3)
	row, all := tensorOf(dtype.F32, 4), boolsArg(1, 1, 1)
	stat, group := tensorOf(dtype.F32, 2, 3, 1), tensorOf(dtype.F32, 2, 1)
	yes, no, eps, momentum := boolArg(true), boolArg(false), floatArg(1e-5), floatArg(0.1)
	golden(t, "norm", []goldenCase{
		{Row: "native_batch_norm", Args: []Argument{half, w, w, mean, variance, yes, momentum, eps}},
		{"native_batch_norm eval", "native_batch_norm", []Argument{x, w, none(), mean, variance, no, momentum, eps}},
		{Row: "_native_batch_norm_legit.no_stats", Args: []Argument{x, none(), none(), yes, momentum, eps}},
		{"native_batch_norm without statistics", "native_batch_norm", []Argument{x, none(), none(), none(), none(), no, momentum, eps}},
		{Row: "native_batch_norm_backward", Args: []Argument{x, x, w, none(), none(), mean, variance, yes, eps, all}},
		{"native_batch_norm_backward eval", "native_batch_norm_backward", []Argument{x, x, w, mean, variance, none(), none(), no, eps, boolsArg(1, 0, 1)}},
		{Row: "native_layer_norm", Args: []Argument{half, intsArg(4), row, row, eps}},
		{"native_layer_norm wrong sizes", "native_layer_norm", []Argument{x, intsArg(3), none(), none(), eps}},
		{Row: "native_layer_norm_backward", Args: []Argument{x, x, intsArg(4), stat, stat, row, row, all}},
		{Row: "native_group_norm", Args: []Argument{x, w, w, intArg(2), intArg(3), intArg(4), intArg(1), eps}},
		{Row: "native_group_norm_backward", Args: []Argument{x, x, group, group, w, intArg(2), intArg(3), intArg(4), intArg(1), all}},
	})
}
