package ops

import (
	"testing"

	"xla_go/gosrc/dtype"
)

func TestGoldenDecompositions(t *testing.T) {
	f := func(dims ...int64) Argument { return tensorOf(dtype.F32, dims...) }
	golden(t, "decomposition", []goldenCase{
		{"qr", "linalg_qr", []Argument{f(3, 2), textArg("reduced")}},
		{"qr of vectors", "linalg_qr", []Argument{f(3), textArg("reduced")}},
		{"qr of half precision", "linalg_qr", []Argument{tensorOf(dtype.F16, 3, 3), textArg("r")}},
		{"qr mode", "linalg_qr", []Argument{f(3, 3), textArg("economic")}},
		{Row: "linalg_householder_product", Args: []Argument{f(3, 2), f(1)}},
		{"householder_product sizes", "linalg_householder_product", []Argument{f(2, 3), f(2)}},
		{"ormqr sizes", "ormqr", []Argument{f(3, 2), f(2), f(2, 2), boolArg(true), boolArg(false)}},
		{"eigh without vectors", "_linalg_eigh", []Argument{f(2, 2), textArg("L"), boolArg(false)}},
		{"eigh of large matrices", "_linalg_eigh", []Argument{f(257, 257), textArg("L"), boolArg(true)}},
		{"svd without vectors", "_linalg_svd", []Argument{f(2, 2), boolArg(false), boolArg(false)}},
		{"svd driver", "_linalg_svd", []Argument{f(2, 2), boolArg(false), boolArg(true), textArg("gesvd")}},
	})
}

func TestGoldenEmbeddingBag(t *testing.T) {
	weight, index, offsets := tensorOf(dtype.F32, 6, 3), tensorOf(dtype.S64, 5), tensorOf(dtype.S64, 2)
	bag := func(mode int64, rest ...Argument) []Argument {
		return append([]Argument{weight, index, offsets, boolArg(false), intArg(mode), boolArg(false)}, rest...)
	}
	golden(t, "embedding_bag", []goldenCase{
		{"mean", "_embedding_bag", bag(1)},
		{"max with padding", "_embedding_bag", bag(2, none(), boolArg(false), intArg(3))},
		{"weights and the mean", "_embedding_bag", bag(1, tensorOf(dtype.F32, 5))},
		{"mode", "_embedding_bag", bag(3)},
	})
}
