package hlo_test

import (
	"os"
	"slices"
	"testing"

	"xla_go/gosrc/client"
	"xla_go/gosrc/client/pjrtclient"
	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/shape"
)

// replicate runs a program as one replica per input array, on virtual devices; the result is
// the outputs of each replica.
func replicate(t *testing.T, program func(b builder, x hlo.Value) []hlo.Value, inputs ...array) [][][]byte {
	t.Helper()
	path := os.Getenv("XLA_GO_TEST_PLUGIN")
	if path == "" {
		t.Fatal("XLA_GO_TEST_PLUGIN is not set: give it the path of a PJRT CPU plugin")
	}
	c, err := pjrtclient.New(pjrtclient.Options{PluginPath: path, CreateOptions: map[string]any{"cpu_device_count": int64(len(inputs))}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}()
	devices := c.GetLocalDevices()
	if len(devices) != len(inputs) {
		t.Fatalf("got devices %v, want %d", devices, len(inputs))
	}
	module := build(t, inputs[:1], func(b builder, p params) []hlo.Value { return program(b, p[0]) })
	programs, err := c.Compile([]client.CompileInstance{{HLO: module, Name: t.Name(), CompilationDevice: devices[0], Devices: devices}})
	if err != nil {
		t.Fatal(err)
	}
	defer programs[0].Close()
	var sources []client.TensorSource
	for i, a := range inputs {
		sources = append(sources, client.TensorSource{Shape: a.shape, Device: devices[i], Bytes: a.data})
	}
	shards, err := c.TransferToDevice(sources)
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll(shards)
	argument, err := c.WrapDataShards(shards, devices[0], inputs[0].shape, &client.Sharding{})
	if err != nil {
		t.Fatal(err)
	}
	defer argument.Close()
	results, err := c.ExecuteReplicated(programs[0], []client.Data{argument}, devices, client.ExecuteOptions{ExplodeTuple: true})
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll(results)
	out := make([][][]byte, len(inputs))
	for _, r := range results {
		parts, err := c.GetDataShards(r)
		if err != nil {
			t.Fatal(err)
		}
		literals, err := c.TransferFromDevice(parts)
		if err != nil {
			t.Fatal(err)
		}
		for i, l := range literals {
			out[i] = append(out[i], l.Bytes)
		}
		closeAll(parts)
	}
	return out
}

func TestCollectivesBetweenReplicas(t *testing.T) {
	g := hlo.Group{Replicas: [][]int64{{0, 1}}}
	out := replicate(t, func(b builder, x hlo.Value) []hlo.Value {
		return []hlo.Value{
			b.AllReduce([]hlo.Value{x}, hlo.Add, g)[0],
			b.AllGather(x, 1, 2, g),
			b.ReduceScatter(x, hlo.Add, 0, 2, g),
			b.AllToAll(x, 0, 1, 2, g),
			b.AllToAll(x, 0, 0, 2, g),
			b.CollectivePermute(x, [][2]int64{{0, 1}}, 0),
			b.Convert(b.ReplicaID(), dtype.F32),
		}
	}, f32([]int64{2, 2}, 1, 2, 3, 4), f32([]int64{2, 2}, 10, 20, 30, 40))
	for i, want := range [][][]float32{
		{{11, 22, 33, 44}, {1, 2, 10, 20, 3, 4, 30, 40}, {11, 22}, {1, 2, 10, 20}, {1, 2, 10, 20}, {0, 0, 0, 0}, {0}},
		{{11, 22, 33, 44}, {1, 2, 10, 20, 3, 4, 30, 40}, {33, 44}, {3, 4, 30, 40}, {3, 4, 30, 40}, {1, 2, 3, 4}, {1}},
	} {
		for n, name := range []string{"all-reduce", "all-gather", "reduce-scatter", "all-to-all across", "all-to-all along", "permute", "replica"} {
			same(t, name, out[i][n], want[n]...)
		}
	}
}

func TestShardingIsWrittenAndEnds(t *testing.T) {
	b := hlo.NewBuilder("sharded")
	b.SetSharding(&hlo.Sharding{Kind: hlo.Tiled, Tiles: []int64{2, 1, 2}, Devices: []int64{0, 1, 2, 3}, ReplicateOnLast: true})
	x := b.Parameter(shape.Make(dtype.F32, 4, 4), "x")
	b.SetSharding(&hlo.Sharding{Kind: hlo.Replicated})
	y := b.Unary(hlo.Exp, x)
	b.SetSharding(nil)
	module, err := b.Build([]hlo.Value{b.Unary(hlo.Log, y)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	m, err := hlo.Module(module)
	if err != nil {
		t.Fatal(err)
	}
	instructions := m.Computations[0].Instructions
	if s := instructions[0].Sharding; s == nil || s.Type.String() != "OTHER" || !s.ReplicateOnLastTileDim ||
		!slices.Equal(s.TileAssignmentDimensions, []int64{2, 1, 2}) || !slices.Equal(s.TileAssignmentDevices, []int64{0, 1, 2, 3}) {
		t.Errorf("tiled: got %v", s)
	}
	if s := instructions[1].Sharding; s == nil || s.Type.String() != "REPLICATED" {
		t.Errorf("replicated: got %v", s)
	}
	for _, i := range instructions[2:] {
		if i.Sharding != nil {
			t.Errorf("%s: got %v after the end", i.Name, i.Sharding)
		}
	}
}
