package program

import (
	"fmt"
	"testing"

	"xla_go/gosrc/status"
)

func TestSignature(t *testing.T) {
	for text, want := range map[string]string{
		`module { func.func @main() { return } }`:                                                     "[] []",
		`func.func public @main(%x: tensor<f32>) -> tensor<2x3xbf16> {`:                               "[f32[]] [bf16[2,3]]",
		`func.func @main(%x: tensor<8xi1>, %y: tensor<4x1xcomplex<f32>>) -> tensor<ui8> attributes {`: "[pred[8] c64[4,1]] [u8[]]",
		`func.func public @main(%arg0: tensor<8x2xf32> {mhlo.sharding = "{devices=[4,1]<=[4]} ) tensor<9xf32>", a = [(1)]},
		   %arg1: tensor<0x2xf8E4M3FN> {jax.x = tensor<7xi8>}) -> (tensor<8xi64> {jax.result_info = "a\"b["}, tensor<2xui64>) {`: "[f32[8,2] f8e4m3fn[0,2]] [s64[8] u64[2]]",
	} {
		parameters, results, err := signature([]byte(text))
		if got := fmt.Sprint(parameters, " ", results); err != nil || got != want {
			t.Errorf("%s: %s, %v, want %s", text, got, err, want)
		}
	}
	for text, code := range map[string]status.Code{
		"ML\xefR":                              status.InvalidArgument,
		"func.func @main(%x: tensor<2xf32>":    status.InvalidArgument,
		"func.func @main(%x: tensor<?xf32>) {": status.Unimplemented,
		"func.func @main(%x: tensor<2xi4>) {":  status.Unimplemented,
	} {
		if _, _, err := signature([]byte(text)); status.CodeOf(err) != code {
			t.Errorf("%q: %v, want %s", text, err, code)
		}
	}
}
