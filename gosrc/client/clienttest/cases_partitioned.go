package clienttest

import (
	"time"

	_ "embed" // the programs below

	"xla_go/gosrc/client"
	"xla_go/gosrc/shape"
)

// The same program as text, as bytecode (a portable artifact of StableHLO 1.0), and in terms of Shardy.
var (
	//go:embed testdata/partitioned.mlir
	partitionedText []byte
	//go:embed testdata/partitioned.mlirbc
	partitionedBytecode []byte
	//go:embed testdata/shardy.mlir
	partitionedShardy []byte
)

func partitionedMLIR(t *T, c client.Client)     { partitionedStableHLO(t, c, partitionedText, 6) }
func partitionedBytes(t *T, c client.Client)    { partitionedStableHLO(t, c, partitionedBytecode, 6) }
func partitionedByShardy(t *T, c client.Client) { partitionedStableHLO(t, c, partitionedShardy, 8) }

// partitionedStableHLO runs a sharded program that is given as StableHLO: the product of rows over four devices
// with a matrix that each of them has, and the sum of that.
func partitionedStableHLO(t *T, c client.Client, module []byte, rows int64) {
	k := must[[]client.Computation](t)(c.Compile([]client.CompileInstance{{
		Name: "partitioned", MLIR: module, CompilationDevice: "SPMD:0", Devices: c.GetAllDevices(), IsSharded: true,
	}}))[0]
	defer k.Close()
	wanted := []shape.Shape{f32(rows, 2), f32(2, 2), f32(rows, 2), f32()}
	got := append(append([]shape.Shape(nil), k.ParameterShapes()...), k.ResultShapes()...)
	if len(got) != len(wanted) || len(k.OutputShardings()) != 2 {
		t.Fatalf("parameters and results %v, want %v; shardings %v", got, wanted, k.OutputShardings())
	}
	for i := range wanted {
		if !got[i].Equal(wanted[i]) {
			t.Errorf("parameters and results %v, want %v", got, wanted)
		}
	}
	byRows := tiled([]int64{4, 1}, 0, 1, 2, 3)
	x := wrap(t, c, f32(rows, 2), byRows, f32(2, 2), []float32{1, 0, 0, 1}, []float32{2, 0, 0, 2}, []float32{3, 0, 0, 3}, []float32{0, 0, 0, 0})
	same := []float32{1, 2, 3, 4}
	y := wrap(t, c, f32(2, 2), replicated(), f32(2, 2), same, same, same, same)
	want := []float32{1, 2, 3, 4, 2, 4, 6, 8, 3, 6, 9, 12, 0, 0, 0, 0}[:2*rows]
	run := func(k client.Computation) {
		ended := make(chan struct{}, 1)
		out := must[[]client.Data](t)(c.ExecuteReplicated(k, []client.Data{x, y}, c.GetLocalDevices(), client.ExecuteOptions{ExplodeTuple: true, OnEnd: func() { close(ended) }}))
		wantFloats(t, "the product", read(t, c, out[0]), want...)
		select {
		case <-ended:
		case <-time.After(patience):
			t.Fatal("not told of the run's end")
		}
		wantFloats(t, "the sum", read(t, c, out[1]), 60)
		again := must[[]client.Data](t)(c.ExecuteReplicated(k, []client.Data{out[0], y}, c.GetLocalDevices(), client.ExecuteOptions{ExplodeTuple: true}))
		wantFloats(t, "the product's product", read(t, c, again[0])[:16], 7, 10, 15, 22)
		shards := must[[]client.Data](t)(c.GetDataShards(out[0]))
		wantFloats(t, "the second device's rows", read(t, c, shards[1]), 2, 4, 6, 8)
		closeAll(append(append(out, again...), shards...)...)
	}
	run(k)
	if serialized, err := c.SerializeComputation(k); err == nil {
		loaded := must[client.Computation](t)(c.DeserializeComputation(serialized, nil))
		run(loaded)
		loaded.Close()
	}
	closeAll(x, y)
}
