package clienttest

import (
	"fmt"
	"time"

	"xla_go/gosrc/client"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
	"xla_go/gosrc/wire"
)

// Shardings over partitions, as OpSharding protos.
func replicated() []byte { return wire.Varint(nil, 1, 0) }

func tiled(tiles []int64, devices ...int64) []byte {
	return wire.Packed(wire.Packed(wire.Varint(nil, 1, 3), 3, tiles), 4, devices)
}

// partly replicates over the last of the tiles.
func partly(tiles []int64, devices ...int64) []byte {
	return wire.Varint(tiled(tiles, devices...), 6, 1)
}

func iota(tiles, dims, order []int64) []byte {
	return wire.Packed(wire.Packed(wire.Packed(wire.Varint(nil, 1, 3), 3, tiles), 9, dims), 10, order)
}

// upTo gives 0 to n-1.
func upTo(n int) []int64 {
	list := make([]int64, n)
	for i := range list {
		list[i] = int64(i)
	}
	return list
}

// split has one tile of the first of rank dimensions on each of n devices.
func split(n, rank int) []byte {
	tiles := make([]int64, rank)
	for i := range tiles {
		tiles[i] = 1
	}
	tiles[0] = int64(n)
	return tiled(tiles, upTo(n)...)
}

// each gives what f gives for each of n devices.
func each(n int, f func(i float32) []float32) [][]float32 {
	list := make([][]float32, n)
	for i := range list {
		list[i] = f(float32(i))
	}
	return list
}

func concat(lists [][]float32) (all []float32) {
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
}

func wrap(t *T, c client.Client, s shape.Shape, sharding []byte, tile shape.Shape, values ...[]float32) client.Data {
	t.Helper()
	sources := make([]client.TensorSource, len(values))
	for i, device := range c.GetLocalDevices() {
		sources[i] = client.TensorSource{Shape: tile, Device: device, Bytes: floats(values[i]...)}
	}
	return must[client.Data](t)(c.TransferShardsToDevice(sources, "SPMD:0", s, &client.Sharding{OpSharding: sharding}))
}

// wrapPairs is f32[2n], two values on each device: 0 and 1, 2 and 3, and so on.
func wrapPairs(t *T, c client.Client) (d client.Data, values []float32) {
	t.Helper()
	n := c.GetNumLocalDevices()
	pairs := each(n, func(i float32) []float32 { return []float32{2 * i, 2*i + 1} })
	return wrap(t, c, f32(2*int64(n)), split(n, 1), f32(2), pairs...), concat(pairs)
}

func transferShards(t *T, c client.Client) {
	d, values := wrapPairs(t, c)
	defer d.Close()
	if d.Device() != "SPMD:0" || !d.Shape().Equal(f32(int64(len(values)))) || !d.HasValue() || d.Sharding() == nil || c.GetDataSharding(d) == nil {
		t.Errorf("sharded data %s", d)
	}
	wantFloats(t, "the whole", read(t, c, d), values...)
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
	_, err = c.UnsafeBufferPointer(d)
	wantCode(t, "the address of sharded data", err, status.InvalidArgument, "shards")
	_, err = c.CopyToDevice(d, c.GetDefaultDevice())
	wantCode(t, "a copy of sharded data to one device", err, status.InvalidArgument, "shards")
}

func shards(t *T, c client.Client) {
	d, values := wrapPairs(t, c)
	devices, last := c.GetLocalDevices(), c.GetNumLocalDevices()-1
	parts := must[[]client.Data](t)(c.GetDataShards(d))
	if len(parts) != len(devices) || parts[last].Device() != devices[last] || !parts[last].Shape().Equal(f32(2)) || parts[last].Sharding() != nil {
		t.Fatalf("shards %v", parts)
	}
	sharding := d.Sharding()
	d.Close()
	wantFloats(t, "a shard without its whole", read(t, c, parts[1]), 2, 3)
	again := must[client.Data](t)(c.WrapDataShards(parts, "SPMD:0", f32(int64(len(values))), sharding))
	one := must[client.Data](t)(c.GetDataShard(again, last))
	wantFloats(t, "the last shard", read(t, c, one), values[2*last:]...)
	if a, b := must[uintptr](t)(one.Handle()), must[uintptr](t)(parts[last].Handle()); a != b {
		t.Error("a shard of joined shards is in other memory")
	}
	for _, i := range []int{-1, len(devices)} {
		_, err := c.GetDataShard(again, i)
		wantCode(t, "a shard that is none", err, status.OutOfRange)
	}
	closeAll(append(parts, one)...)
	wantFloats(t, "the whole without its shards", read(t, c, again), values...)
	again.Close()

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

// shardingsThatReadBack reads values of every sort of sharding over four devices.
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
		{"one device", f32(1), wire.Packed(wire.Varint(nil, 1, 1), 4, []int64{2}), f32(1), quarter, []float32{2}},
		{"devices in another order", f32(4), tiled([]int64{4}, 3, 1, 0, 2), f32(1), quarter, []float32{3, 1, 0, 2}},
		{"two by two", f32(2, 2), tiled([]int64{2, 2}, 0, 1, 2, 3), f32(1, 1), quarter, []float32{0, 1, 2, 3}},
		{"columns", f32(2, 4), tiled([]int64{1, 4}, 0, 1, 2, 3), f32(2, 1), [][]float32{{0, 10}, {1, 11}, {2, 12}, {3, 13}}, []float32{0, 1, 2, 3, 10, 11, 12, 13}},
		{"halves, each twice", f32(2), partly([]int64{2, 2}, 0, 1, 2, 3), f32(1), [][]float32{{5}, {5}, {6}, {6}}, []float32{5, 6}},
		{"counted, transposed", f32(4), iota([]int64{4}, []int64{2, 2}, []int64{1, 0}), f32(1), quarter, []float32{0, 2, 1, 3}},
		{"padded", f32(6), tiled([]int64{4}, 0, 1, 2, 3), f32(2), [][]float32{{0, 1}, {2, 3}, {4, 5}, {99, 99}}, []float32{0, 1, 2, 3, 4, 5}},
		{"padded inside a tile", f32(7, 1), tiled([]int64{4, 1}, 0, 1, 2, 3), f32(2, 1), [][]float32{{0, 1}, {2, 3}, {4, 5}, {6, 99}}, []float32{0, 1, 2, 3, 4, 5, 6}},
		{"of no elements", f32(4, 0), tiled([]int64{4, 1}, 0, 1, 2, 3), f32(1, 0), [][]float32{{}, {}, {}, {}}, nil},
	} {
		d := wrap(t, c, test.shape, test.sharding, test.tile, test.shards...)
		wantFloats(t, test.name, read(t, c, d), test.want...)
		d.Close()
	}
	manual := wrap(t, c, f32(1), wire.Varint(nil, 1, 4), f32(1), quarter...)
	_, err := c.TransferFromDevice([]client.Data{manual})
	wantCode(t, "reading values that differ by device", err, status.InvalidArgument, "shards")
	manual.Close()
}

func partitioned(t *T, c client.Client) {
	n := c.GetNumLocalDevices()
	whole := f32(2*int64(n), 2)
	p := NewProgram("partitioned")
	x := p.Parameter(whole, split(n, 2))
	y := p.Parameter(f32(2, 2), replicated())
	k := must[[]client.Computation](t)(c.Compile([]client.CompileInstance{{
		HLO: p.Build(p.Dot(whole, x, y)), CompilationDevice: "SPMD:0", Devices: c.GetAllDevices(),
		IsSharded: true, AllowSPMDShardingPropagationToOutput: true,
	}}))[0]
	defer k.Close()
	if len(k.OutputShardings()) != 1 || !k.ResultShapes()[0].Equal(whole) || !k.ParameterShapes()[0].Equal(whole) {
		t.Errorf("%v to %v, shardings %v", k.ParameterShapes(), k.ResultShapes(), k.OutputShardings())
	}
	// Each device has a multiple of the unit matrix, so the result has multiples of y.
	a := wrap(t, c, whole, split(n, 2), f32(2, 2), each(n, func(i float32) []float32 { return []float32{i + 1, 0, 0, i + 1} })...)
	same := []float32{1, 2, 3, 4}
	product := concat(each(n, func(i float32) []float32 { return []float32{i + 1, 2 * (i + 1), 3 * (i + 1), 4 * (i + 1)} }))
	b := wrap(t, c, f32(2, 2), replicated(), f32(2, 2), each(n, func(float32) []float32 { return same })...)
	out := runReplicated(t, c, k, a, b)
	again := runReplicated(t, c, k, out[0], b)
	wantFloats(t, "the product", read(t, c, out[0]), product...)
	if err := c.WaitDeviceOps(nil); err != nil {
		t.Error(err)
	}
	if serialized, err := c.SerializeComputation(k); err == nil {
		loaded := must[client.Computation](t)(c.DeserializeComputation(serialized, nil))
		third := runReplicated(t, c, loaded, a, b)
		wantFloats(t, "the loaded program's product", read(t, c, third[0]), product...)
		closeAll(third...)
		loaded.Close()
	} else {
		wantCode(t, "SerializeComputation", err, status.Unimplemented)
	}
	placeholder := must[client.Data](t)(c.CreateDataPlaceholder("SPMD:0", whole, out[0].Sharding()))
	if err := placeholder.Assign(out[0]); err != nil {
		t.Error(err)
	}
	closeAll(append(append(out, again...), a, b)...)
	wantFloats(t, "the placeholder", read(t, c, placeholder), product...)
	placeholder.Close()
}

func runReplicated(t *T, c client.Client, k client.Computation, arguments ...client.Data) []client.Data {
	t.Helper()
	return must[[]client.Data](t)(c.ExecuteReplicated(k, arguments, c.GetLocalDevices(), client.ExecuteOptions{ExplodeTuple: true}))
}

// compileReplicas compiles for all local devices, each with values of its own.
func compileReplicas(t *T, c client.Client, hlo []byte) client.Computation {
	t.Helper()
	devices := c.GetLocalDevices()
	return must[[]client.Computation](t)(c.Compile([]client.CompileInstance{{HLO: hlo, CompilationDevice: devices[0], Devices: devices}}))[0]
}

// replicas runs one program on all devices, each with its own values.
func replicas(t *T, c client.Client) {
	devices, n := c.GetLocalDevices(), c.GetNumLocalDevices()
	k := compileReplicas(t, c, addProgram(f32(1)))
	defer k.Close()
	x := wrap(t, c, f32(1), replicated(), f32(1), each(n, func(i float32) []float32 { return []float32{i + 1} })...)
	out := runReplicated(t, c, k, x, x)
	for i, shard := range must[[]client.Data](t)(c.GetDataShards(out[1])) {
		wantFloats(t, devices[i], read(t, c, shard), float32((i+1)*(i+1)))
		shard.Close()
	}
	// One device's replica alone.
	last := devices[n-1]
	single := must[[]client.Data](t)(c.TransferToDevice([]client.TensorSource{{Shape: f32(1), Device: last, Bytes: floats(5)}}))
	alone := must[[]client.Data](t)(c.ExecuteComputation(k, []client.Data{single[0], single[0]}, last, client.ExecuteOptions{ExplodeTuple: true}))
	if alone[0].Device() != last {
		t.Errorf("a result on %s, want %s", alone[0].Device(), last)
	}
	wantFloats(t, "one replica", read(t, c, alone[0]), 10)
	closeAll(append(append(append(out, alone...), single...), x)...)
}

// replicasDonate donates a sharded argument: all its shards are gone.
func replicasDonate(t *T, c client.Client) {
	n := c.GetNumLocalDevices()
	k := compileReplicas(t, c, donatingProgram())
	defer k.Close()
	ones := each(n, func(float32) []float32 { return make([]float32, 1024) })
	x, y := wrap(t, c, f32(1024), replicated(), f32(1024), ones...), wrap(t, c, f32(1024), replicated(), f32(1024), ones...)
	kept := must[client.Data](t)(c.GetDataShard(x, 1))
	out := runReplicated(t, c, k, x, y)
	defer closeAll(append(out, x, y, kept)...)
	if x.HasValue() || kept.HasValue() {
		t.Error("donated shards are still there")
	}
	if !y.HasValue() {
		t.Error("a value that was not donated is gone")
	}
	_, err := c.TransferFromDevice([]client.Data{x})
	wantCode(t, "reading donated shards", err, status.FailedPrecondition, "donated")
	_, err = c.ExecuteReplicated(k, []client.Data{x, y}, c.GetLocalDevices(), client.ExecuteOptions{ExplodeTuple: true})
	wantCode(t, "using donated shards", err, status.FailedPrecondition, "argument 0", "donated")
	more := must[[]client.Data](t)(c.ExecuteReplicated(k, []client.Data{y, y}, c.GetLocalDevices(), client.ExecuteOptions{ExplodeTuple: true, NonDonatable: []int{0}}))
	if !y.HasValue() {
		t.Error("a value that was to be kept is gone")
	}
	closeAll(more...)
}

// oneOfSeveral compiles for and runs on a device that is not the first.
func oneOfSeveral(t *T, c client.Client) {
	devices := c.GetLocalDevices()
	last := devices[len(devices)-1]
	k := must[[]client.Computation](t)(c.Compile([]client.CompileInstance{{HLO: addProgram(f32(1)), CompilationDevice: last, Devices: []string{last}}}))[0]
	defer k.Close()
	first := upload(t, c, f32(1), floats(6))
	there := must[client.Data](t)(c.CopyToDevice(first, last))
	if there.Device() != last {
		t.Errorf("copied to %s", there.Device())
	}
	same := must[client.Data](t)(c.CopyToDevice(first, devices[0]))
	if a, b := must[uintptr](t)(same.Handle()), must[uintptr](t)(first.Handle()); a != b {
		t.Error("a copy to the same device does not share the memory")
	}
	_, err := c.ExecuteComputation(k, []client.Data{first, first}, last, client.ExecuteOptions{ExplodeTuple: true})
	wantCode(t, "arguments on another device", err, status.InvalidArgument, "argument 0", devices[0], last)
	_, err = c.ExecuteComputation(k, []client.Data{there, first}, last, client.ExecuteOptions{ExplodeTuple: true})
	wantCode(t, "one argument on another device", err, status.InvalidArgument, "argument 1", devices[0], last)
	_, err = c.ExecuteComputation(k, []client.Data{first, first}, devices[0], client.ExecuteOptions{ExplodeTuple: true})
	wantCode(t, "a device that it was not compiled for", err, status.InvalidArgument, devices[0])
	out := must[[]client.Data](t)(c.ExecuteComputation(k, []client.Data{there, there}, last, client.ExecuteOptions{ExplodeTuple: true}))
	wantFloats(t, "a sum on the last device", read(t, c, out[0]), 12)
	_, err = c.CopyToDevice(first, "NONE:1")
	wantCode(t, "a copy to an unknown device", err, status.InvalidArgument, "NONE:1", devices[0])
	_, err = c.CopyToDevice(first, "SPMD:0")
	wantCode(t, "a copy to the virtual device", err, status.InvalidArgument, "SPMD:0")
	closeAll(append(out, first, there, same)...)
}

func shardedBadInput(t *T, c client.Client) {
	devices, n := c.GetLocalDevices(), c.GetNumLocalDevices()
	sharding := &client.Sharding{OpSharding: replicated()}
	single := upload(t, c, f32(1), floats(1))
	defer single.Close()
	count := fmt.Sprintf("%d local devices", n)
	_, err := c.WrapDataShards([]client.Data{single}, "SPMD:0", f32(1), sharding)
	wantCode(t, "too few shards", err, status.InvalidArgument, count)
	many := make([]client.Data, n+1)
	for i := range many {
		many[i] = single
	}
	_, err = c.WrapDataShards(many, "SPMD:0", f32(1), sharding)
	wantCode(t, "too many shards", err, status.InvalidArgument, count)
	_, err = c.WrapDataShards(many[:n], "SPMD:0", f32(1), sharding)
	wantCode(t, "shards on one device", err, status.InvalidArgument, "shard 1", devices[1])
	_, err = c.WrapDataShards(many[:n], "SPMD:0", f32(1), nil)
	wantCode(t, "no sharding", err, status.InvalidArgument, "sharding")
	source := client.TensorSource{Shape: f32(1), Device: devices[0], Bytes: floats(1)}
	_, err = c.TransferShardsToDevice([]client.TensorSource{source}, "SPMD:0", f32(1), sharding)
	wantCode(t, "too few sources", err, status.InvalidArgument, count)

	k := compileReplicas(t, c, addProgram(f32(1)))
	defer k.Close()
	explode := client.ExecuteOptions{ExplodeTuple: true}
	good := wrap(t, c, f32(1), replicated(), f32(1), each(n, func(i float32) []float32 { return []float32{i} })...)
	defer good.Close()
	for _, test := range []struct {
		name      string
		arguments []client.Data
		devices   []string
		options   client.ExecuteOptions
		words     []string
	}{
		{"an argument that is not sharded", []client.Data{single, good}, devices, explode, []string{"argument 0", "shards"}},
		{"too few devices", []client.Data{good, good}, devices[:1], explode, []string{count}},
		{"a device twice", []client.Data{good, good}, append([]string{devices[1]}, devices[1:]...), explode, []string{devices[0]}},
		{"too few arguments", []client.Data{good}, devices, explode, []string{"2 arguments", "got 1"}},
		{"foreign data", []client.Data{good, stranger{}}, devices, explode, []string{"argument 1"}},
		{"root tuple kept", []client.Data{good, good}, devices, client.ExecuteOptions{}, []string{"ExplodeTuple"}},
		{"kept argument that is none", []client.Data{good, good}, devices, client.ExecuteOptions{ExplodeTuple: true, NonDonatable: []int{2}}, []string{"NonDonatable"}},
	} {
		_, err := c.ExecuteReplicated(k, test.arguments, test.devices, test.options)
		wantCode(t, test.name, err, status.InvalidArgument, test.words...)
	}
	closeAll(runReplicated(t, c, k, good, good)...) // nothing of it harmed the computation
	if err := c.WaitDeviceOps(nil); err != nil {
		t.Error(err)
	}
}

// reshard lays one value out in other ways and back.
func reshard(t *T, c client.Client) {
	d, values := wrapPairs(t, c)
	everywhere := must[[]client.Data](t)(c.ReshardData([]client.Data{d}, []*client.Sharding{{OpSharding: replicated()}}))[0]
	wantFloats(t, "replicated", read(t, c, everywhere), values...)
	for i, shard := range must[[]client.Data](t)(c.GetDataShards(everywhere)) {
		wantFloats(t, c.GetLocalDevices()[i], read(t, c, shard), values...)
		shard.Close()
	}
	back := must[[]client.Data](t)(c.ReshardData([]client.Data{everywhere}, []*client.Sharding{d.Sharding()}))[0]
	last := must[client.Data](t)(c.GetDataShard(back, c.GetNumLocalDevices()-1))
	wantFloats(t, "the last shard", read(t, c, last), values[len(values)-2:]...)
	closeAll(d, everywhere, back, last)
}
