package ops

import (
	"testing"

	"xla_go/gosrc/dtype"
)

func TestGoldenPointwise(t *testing.T) {
	x, y := tensorOf(dtype.F32, 2, 3), tensorOf(dtype.F32, 3)
	half := tensorOf(dtype.BF16, 2, 3)
	number := tensorOf(dtype.S64, 2, 3)
	golden(t, "pointwise", []goldenCase{
		{Row: "add.Tensor", Args: []Argument{x, y, intArg(1)}},
		{"add.Tensor alpha", "add.Tensor", []Argument{x, y, floatArg(0.5)}},
		{"add.Tensor bf16 with a number", "add.Tensor", []Argument{half, wrapped(0.1), intArg(1)}},
		{"add.Tensor integer with a float", "add.Tensor", []Argument{number, wrapped(0.1), intArg(1)}},
		{"add.Tensor sizes that do not match", "add.Tensor", []Argument{x, tensorOf(dtype.F32, 4), intArg(1)}},
		{"sub.Tensor bool", "sub.Tensor", []Argument{tensorOf(dtype.Bool, 2), tensorOf(dtype.Bool, 2), intArg(1)}},
		{Row: "rsub.Tensor", Args: []Argument{x, y, intArg(2)}},
		{"mul.Tensor bool", "mul.Tensor", []Argument{tensorOf(dtype.Bool, 2), tensorOf(dtype.Bool, 2)}},
		{"mul.Tensor bf16", "mul.Tensor", []Argument{half, half}},
		{Row: "div.Tensor", Args: []Argument{number, number}},
		{"div.Tensor_mode trunc", "div.Tensor_mode", []Argument{number, number, textArg("trunc")}},
		{"div.Tensor_mode unknown", "div.Tensor_mode", []Argument{x, y, textArg("up")}},
		{Row: "floor_divide", Args: []Argument{x, y}},
		{Row: "remainder.Tensor", Args: []Argument{number, wrappedInt(3)}},
		{Row: "addcmul", Args: []Argument{x, x, y, floatArg(0.5)}},
		{Row: "addcdiv", Args: []Argument{x, x, y, floatArg(-0.1)}},
		{Row: "lerp.Scalar", Args: []Argument{x, x, floatArg(0.1)}},
		{Row: "pow.Tensor_Scalar", Args: []Argument{x, intArg(2)}},
		{"pow.Tensor_Scalar as a parameter", "pow.Tensor_Scalar", []Argument{x, floatArg(1.7)}},
		{"pow.Tensor_Scalar negative", "pow.Tensor_Scalar", []Argument{number, intArg(-1)}},
		{Row: "clamp", Args: []Argument{x, floatArg(-1), none()}},
		{Row: "where.self", Args: []Argument{tensorOf(dtype.Bool, 2, 1), x, wrappedInt(0)}},
		{Row: "eq.Scalar", Args: []Argument{half, floatArg(0.1)}},
		{Row: "fill_.Scalar", Args: []Argument{half, floatArg(2)}},
		{Row: "zero_", Args: []Argument{x}},
		{Row: "masked_fill.Scalar", Args: []Argument{x, tensorOf(dtype.Bool, 3), floatArg(-1)}},
		{Row: "logical_and", Args: []Argument{x, number}},
		{Row: "gcd", Args: []Argument{number, number}},
	})
}

func TestGoldenActivation(t *testing.T) {
	x := tensorOf(dtype.F32, 2, 4)
	half := tensorOf(dtype.BF16, 2, 4)
	golden(t, "activation", []goldenCase{
		{Row: "relu", Args: []Argument{x}},
		{Row: "threshold_backward", Args: []Argument{x, tensorOf(dtype.F32, 2, 4), intArg(0)}},
		{Row: "sigmoid", Args: []Argument{half}},
		{Row: "tanh_backward", Args: []Argument{x, tensorOf(dtype.F32, 2, 4)}},
		{"gelu none", "gelu", []Argument{half, textArg("none")}},
		{"gelu tanh", "gelu", []Argument{x, textArg("tanh")}},
		{Row: "gelu_backward", Args: []Argument{x, tensorOf(dtype.F32, 2, 4), textArg("none")}},
		{"silu integer", "silu", []Argument{tensorOf(dtype.S64, 2)}},
		{Row: "elu", Args: []Argument{x, floatArg(1), intArg(1), intArg(1)}},
		{Row: "glu", Args: []Argument{x, intArg(-1)}},
		{Row: "glu_backward", Args: []Argument{tensorOf(dtype.F32, 2, 2), x, intArg(-1)}},
		{Row: "_prelu_kernel_backward", Args: []Argument{x, half, half}},
		{Row: "log_sigmoid_forward", Args: []Argument{x}},
	})
}
