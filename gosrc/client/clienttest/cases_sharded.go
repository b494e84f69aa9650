package clienttest

import (
	"time"

	"xla_go/gosrc/client"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
)

// Shardings over the partitions 0 to 3, as OpSharding protos.
func replicated() []byte { return varint(nil, 1, 0) }

func tiled(tiles []int64, devices ...int64) []byte {
	return packed(packed(varint(nil, 1, 3), 3, tiles), 4, devices)
}

// partly replicates over the last of the tiles.
func partly(tiles []int64, devices ...int64) []byte { return varint(tiled(tiles, devices...), 6, 1) }

func iota(tiles, dims, order []int64) []byte {
	return packed(packed(packed(varint(nil, 1, 3), 3, tiles), 9, dims), 10, order)
}

func wrap(t *T, c client.Client, s shape.Shape, sharding []byte, tile shape.Shape, values ...[]float32) client.Data {
	t.Helper()
	sources := make([]client.TensorSource, len(values))
	for i, device := range c.GetLocalDevices() {
		sources[i] = client.TensorSource{Shape: tile, Device: device, Bytes: floats(values[i]...)}
	}
	return must[client.Data](t)(c.TransferShardsToDevice(sources, "SPMD:0", s, &client.Sharding{OpSharding: sharding}))
}

func transferShards(t *T, c client.Client) {
	d := wrap(t, c, f32(4), tiled([]int64{4}, 0, 1, 2, 3), f32(1), []float32{1}, []float32{2}, []float32{3}, []float32{4})
	defer d.Close()
	if d.Device() != "SPMD:0" || !d.Shape().Equal(f32(4)) || !d.HasValue() || d.Sharding() == nil || c.GetDataSharding(d) == nil {
		t.Errorf("sharded data %s", d)
	}
	wantFloats(t, "the whole", read(t, c, d), 1, 2, 3, 4)
	called := make(chan error, 1)
	if err := c.OnReadyCallback(d, func(err error) { called <- err }); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-called:
		if err != nil || !c.IsReady(d) {
			t.Errorf("called back with %v, ready %v", err, c.IsReady(d))
		}
	case <-time.After(patience):
		t.Error("not called back")
	}
	_, err := c.AcquireExternalReference(d)
	wantCode(t, "an address of sharded data", err, status.InvalidArgument, "shards")
}

func shards(t *T, c client.Client) {
	d := wrap(t, c, f32(8), tiled([]int64{4}, 0, 1, 2, 3), f32(2), []float32{1, 2}, []float32{3, 4}, []float32{5, 6}, []float32{7, 8})
	parts := must[[]client.Data](t)(c.GetDataShards(d))
	if len(parts) != 4 || parts[2].Device() != c.GetLocalDevices()[2] || !parts[2].Shape().Equal(f32(2)) {
		t.Fatalf("shards %v", parts)
	}
	d.Close()
	wantFloats(t, "a shard without its whole", read(t, c, parts[2]), 5, 6)
	again := must[client.Data](t)(c.WrapDataShards(parts, "SPMD:0", f32(8), &client.Sharding{OpSharding: tiled([]int64{4}, 0, 1, 2, 3)}))
	one := must[client.Data](t)(c.GetDataShard(again, 3))
	wantFloats(t, "shard 3", read(t, c, one), 7, 8)
	for _, i := range []int{-1, 4} {
		_, err := c.GetDataShard(again, i)
		wantCode(t, "a shard that is none", err, status.OutOfRange)
	}
	closeAll(append(parts, again, one)...)

	single := upload(t, c, f32(1), floats(9))
	if list := must[[]client.Data](t)(c.GetDataShards(single)); len(list) != 1 || list[0] != single {
		t.Errorf("shards of data on one device: %v", list)
	}
	if same := must[client.Data](t)(c.GetDataShard(single, 0)); same != single {
		t.Error("shard 0 of data on one device is not the data")
	}
	_, err := c.GetDataShard(single, 1)
	wantCode(t, "shard 1 of data on one device", err, status.OutOfRange)
	single.Close()
}

func shardingsThatReadBack(t *T, c client.Client) {
	quarter := [][]float32{{0}, {1}, {2}, {3}}
	for _, test := range []struct {
		name     string
		shape    shape.Shape
		sharding []byte
		tile     shape.Shape
		shards   [][]float32
		want     []float32
	}{
		{"replicated", f32(2), replicated(), f32(2), [][]float32{{7, 8}, {7, 8}, {7, 8}, {7, 8}}, []float32{7, 8}},
		{"one device", f32(1), packed(varint(nil, 1, 1), 4, []int64{2}), f32(1), quarter, []float32{2}},
		{"devices in another order", f32(4), tiled([]int64{4}, 3, 1, 0, 2), f32(1), quarter, []float32{3, 1, 0, 2}},
		{"two by two", f32(2, 2), tiled([]int64{2, 2}, 0, 1, 2, 3), f32(1, 1), quarter, []float32{0, 1, 2, 3}},
		{"columns", f32(2, 4), tiled([]int64{1, 4}, 0, 1, 2, 3), f32(2, 1), [][]float32{{0, 10}, {1, 11}, {2, 12}, {3, 13}}, []float32{0, 1, 2, 3, 10, 11, 12, 13}},
		{"halves, each twice", f32(2), partly([]int64{2, 2}, 0, 1, 2, 3), f32(1), [][]float32{{5}, {5}, {6}, {6}}, []float32{5, 6}},
		{"counted, transposed", f32(4), iota([]int64{4}, []int64{2, 2}, []int64{1, 0}), f32(1), quarter, []float32{0, 2, 1, 3}},
		{"padded", f32(6), tiled([]int64{4}, 0, 1, 2, 3), f32(2), [][]float32{{0, 1}, {2, 3}, {4, 5}, {99, 99}}, []float32{0, 1, 2, 3, 4, 5}},
		{"padded inside a tile", f32(7, 1), tiled([]int64{4, 1}, 0, 1, 2, 3), f32(2, 1), [][]float32{{0, 1}, {2, 3}, {4, 5}, {6, 99}}, []float32{0, 1, 2, 3, 4, 5, 6}},
	} {
		d := wrap(t, c, test.shape, test.sharding, test.tile, test.shards...)
		wantFloats(t, test.name, read(t, c, d), test.want...)
		d.Close()
	}
	manual := wrap(t, c, f32(1), varint(nil, 1, 4), f32(1), quarter...)
	_, err := c.TransferFromDevice([]client.Data{manual})
	wantCode(t, "reading values that differ by device", err, status.InvalidArgument, "shards")
	manual.Close()
}

func partitioned(t *T, c client.Client) {
	p := NewProgram("partitioned")
	rows := tiled([]int64{4, 1}, 0, 1, 2, 3)
	x := p.Parameter(f32(8, 2), rows)
	y := p.Parameter(f32(2, 2), replicated())
	k := must[[]client.Computation](t)(c.Compile([]client.CompileInstance{{
		HLO: p.Build(p.Dot(f32(8, 2), x, y)), CompilationDevice: "SPMD:0", Devices: c.GetAllDevices(),
		IsSharded: true, AllowSPMDShardingPropagationToOutput: true,
	}}))[0]
	defer k.Close()
	if len(k.OutputShardings()) != 1 || !k.ResultShapes()[0].Equal(f32(8, 2)) || !k.ParameterShapes()[0].Equal(f32(8, 2)) {
		t.Errorf("%v to %v, shardings %v", k.ParameterShapes(), k.ResultShapes(), k.OutputShardings())
	}
	a := wrap(t, c, f32(8, 2), rows, f32(2, 2), []float32{1, 0, 0, 1}, []float32{2, 0, 0, 2}, []float32{3, 0, 0, 3}, []float32{4, 0, 0, 4})
	same := []float32{1, 2, 3, 4}
	b := wrap(t, c, f32(2, 2), replicated(), f32(2, 2), same, same, same, same)
	out := must[[]client.Data](t)(c.ExecuteReplicated(k, []client.Data{a, b}, c.GetLocalDevices(), client.ExecuteOptions{ExplodeTuple: true}))
	again := must[[]client.Data](t)(c.ExecuteReplicated(k, []client.Data{out[0], b}, c.GetLocalDevices(), client.ExecuteOptions{ExplodeTuple: true}))
	wantFloats(t, "the product", read(t, c, out[0]), 1, 2, 3, 4, 2, 4, 6, 8, 3, 6, 9, 12, 4, 8, 12, 16)
	if err := c.WaitDeviceOps(nil); err != nil {
		t.Error(err)
	}
	if serialized, err := c.SerializeComputation(k); err == nil {
		loaded := must[client.Computation](t)(c.DeserializeComputation(serialized, nil))
		third := must[[]client.Data](t)(c.ExecuteReplicated(loaded, []client.Data{a, b}, c.GetLocalDevices(), client.ExecuteOptions{ExplodeTuple: true}))
		wantFloats(t, "the loaded program's product", read(t, c, third[0])[:16], 1, 2, 3, 4)
		closeAll(third...)
		loaded.Close()
	} else {
		wantCode(t, "SerializeComputation", err, status.Unimplemented)
	}
	placeholder := must[client.Data](t)(c.CreateDataPlaceholder("SPMD:0", f32(8, 2), out[0].Sharding()))
	if err := placeholder.Assign(out[0]); err != nil {
		t.Error(err)
	}
	closeAll(append(append(out, again...), a, b)...)
	wantFloats(t, "the placeholder", read(t, c, placeholder)[:8], 1, 2)
	placeholder.Close()
}

// replicas runs one program on all devices, each with its own values.
func replicas(t *T, c client.Client) {
	devices := c.GetLocalDevices()
	k := must[[]client.Computation](t)(c.Compile([]client.CompileInstance{{HLO: addProgram(f32(1)), CompilationDevice: devices[0], Devices: devices}}))[0]
	defer k.Close()
	x := wrap(t, c, f32(1), replicated(), f32(1), []float32{1}, []float32{2}, []float32{3}, []float32{4})
	out := must[[]client.Data](t)(c.ExecuteReplicated(k, []client.Data{x, x}, devices, client.ExecuteOptions{ExplodeTuple: true}))
	for i, shard := range must[[]client.Data](t)(c.GetDataShards(out[1])) {
		wantFloats(t, devices[i], read(t, c, shard), float32((i+1)*(i+1)))
		shard.Close()
	}
	// One device's replica alone.
	single := must[[]client.Data](t)(c.TransferToDevice([]client.TensorSource{{Shape: f32(1), Device: devices[2], Bytes: floats(5)}}))
	alone := must[[]client.Data](t)(c.ExecuteComputation(k, []client.Data{single[0], single[0]}, devices[2], client.ExecuteOptions{ExplodeTuple: true}))
	if alone[0].Device() != devices[2] {
		t.Errorf("a result on %s, want %s", alone[0].Device(), devices[2])
	}
	wantFloats(t, "one replica", read(t, c, alone[0]), 10)
	closeAll(append(append(append(out, alone...), single...), x)...)
}

// oneOfSeveral compiles for and runs on a device that is not the first.
func oneOfSeveral(t *T, c client.Client) {
	devices := c.GetLocalDevices()
	k := must[[]client.Computation](t)(c.Compile([]client.CompileInstance{{HLO: addProgram(f32(1)), CompilationDevice: devices[3], Devices: devices[3:]}}))[0]
	defer k.Close()
	first := upload(t, c, f32(1), floats(6))
	there := must[client.Data](t)(c.CopyToDevice(first, devices[3]))
	if there.Device() != devices[3] {
		t.Errorf("copied to %s", there.Device())
	}
	same := must[client.Data](t)(c.CopyToDevice(first, devices[0]))
	if a, b := must[uintptr](t)(same.Handle()), must[uintptr](t)(first.Handle()); a != b {
		t.Error("a copy to the same device does not share the memory")
	}
	_, err := c.ExecuteComputation(k, []client.Data{first, first}, devices[3], client.ExecuteOptions{ExplodeTuple: true})
	wantCode(t, "arguments on another device", err, status.InvalidArgument, devices[0], devices[3])
	_, err = c.ExecuteComputation(k, []client.Data{first, first}, devices[0], client.ExecuteOptions{ExplodeTuple: true})
	wantCode(t, "a device that it was not compiled for", err, status.InvalidArgument, devices[0])
	out := must[[]client.Data](t)(c.ExecuteComputation(k, []client.Data{there, there}, devices[3], client.ExecuteOptions{ExplodeTuple: true}))
	wantFloats(t, "a sum on the last device", read(t, c, out[0]), 12)
	_, err = c.CopyToDevice(first, "NONE:1")
	wantCode(t, "a copy to an unknown device", err, status.InvalidArgument)
	closeAll(append(out, first, there, same)...)
}

func shardedBadInput(t *T, c client.Client) {
	sharding := &client.Sharding{OpSharding: replicated()}
	single := upload(t, c, f32(1), floats(1))
	defer single.Close()
	_, err := c.WrapDataShards([]client.Data{single}, "SPMD:0", f32(1), sharding)
	wantCode(t, "too few shards", err, status.InvalidArgument, "4 local devices")
	_, err = c.WrapDataShards([]client.Data{single, single, single, single}, "SPMD:0", f32(1), sharding)
	wantCode(t, "shards on one device", err, status.InvalidArgument, "shard 1", c.GetLocalDevices()[1])
	_, err = c.WrapDataShards(nil, "SPMD:0", f32(1), nil)
	wantCode(t, "no sharding", err, status.InvalidArgument)
	empty := must[client.Data](t)(c.CreateDataPlaceholder("SPMD:0", f32(1), sharding))
	defer empty.Close()
	_, err = empty.Handle()
	wantCode(t, "Handle of a sharded placeholder", err, status.FailedPrecondition)
	_, err = c.GetDataShards(empty)
	wantCode(t, "shards of a placeholder", err, status.FailedPrecondition)
	k := must[[]client.Computation](t)(c.Compile([]client.CompileInstance{{HLO: addProgram(f32(1)), Devices: c.GetLocalDevices()}}))[0]
	defer k.Close()
	explode := client.ExecuteOptions{ExplodeTuple: true}
	_, err = c.ExecuteReplicated(k, []client.Data{single, single}, c.GetLocalDevices(), explode)
	wantCode(t, "an argument that is not sharded", err, status.InvalidArgument, "argument 0", "4 shards")
	_, err = c.ExecuteReplicated(k, []client.Data{empty, empty}, c.GetLocalDevices(), explode)
	wantCode(t, "a placeholder", err, status.FailedPrecondition, "argument 0")
	_, err = c.ExecuteReplicated(k, []client.Data{empty, empty}, c.GetLocalDevices()[:2], explode)
	wantCode(t, "too few devices", err, status.InvalidArgument, "4 local devices")
	if err := c.WaitDeviceOps(nil); err != nil {
		t.Error(err)
	}
}
