package clienttest

import (
	"sync"

	"xla_go/gosrc/client"
	"xla_go/gosrc/metrics"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
	"xla_go/gosrc/wire"
)

func compileCount() int64 {
	count, _ := metrics.CounterValue("CreateCompileHandles")
	return count
}

func annotate(proto []byte) []*client.Sharding { return []*client.Sharding{{OpSharding: proto}} }

// reshardTo lays one value out otherwise.
func reshardTo(t *T, c client.Client, d client.Data, sharding *client.Sharding) client.Data {
	t.Helper()
	return must[[]client.Data](t)(c.ReshardData([]client.Data{d}, []*client.Sharding{sharding}))[0]
}

// reshardEveryPair goes from each layout to each other one, twice: the second time nothing is compiled.
func reshardEveryPair(t *T, c client.Client) {
	s := f32(5, 4) // five rows do not divide by four
	values := make([]float32, 20)
	for i := range values {
		values[i] = float32(i)
	}
	layouts := map[string]*client.Sharding{}
	for name, proto := range map[string][]byte{
		"rows":                     tiled([]int64{4, 1}, 0, 1, 2, 3),
		"columns":                  tiled([]int64{1, 4}, 0, 1, 2, 3),
		"columns in another order": tiled([]int64{1, 4}, 3, 1, 0, 2),
		"blocks":                   tiled([]int64{2, 2}, 0, 1, 2, 3),
		"blocks, transposed":       iota([]int64{2, 2}, []int64{2, 2}, []int64{1, 0}),
		"halves, each twice":       partly([]int64{1, 2, 2}, 0, 1, 2, 3),
		"everywhere":               replicated(),
		"one tile, four times":     partly([]int64{1, 1, 4}, 0, 1, 2, 3),
		"device 2":                 wire.Packed(wire.Varint(nil, 1, 1), 4, []int64{2}),
	} {
		layouts[name] = &client.Sharding{OpSharding: proto}
	}
	start := upload(t, c, s, floats(values...))
	defer start.Close()
	all := func() {
		for from, first := range layouts {
			d := reshardTo(t, c, start, first)
			wantFloats(t, "one device to "+from, read(t, c, d), values...)
			for to, second := range layouts {
				moved := reshardTo(t, c, d, second)
				wantFloats(t, from+" to "+to, read(t, c, moved), values...)
				if got := moved.Sharding(); got != second {
					t.Errorf("%s to %s: sharding %v, want %v", from, to, got, second)
				}
				if (moved == d) != (from == to) {
					t.Errorf("%s to %s: the same data %v", from, to, moved == d)
				}
				if moved != d {
					moved.Close()
				}
			}
			wantFloats(t, from+", which was read by all those", read(t, c, d), values...)
			d.Close()
		}
	}
	before := compileCount()
	all()
	if compileCount() == before {
		t.Error("nothing was compiled, so nothing was moved")
	}
	before = compileCount()
	all()
	if more := compileCount() - before; more != 0 {
		t.Errorf("%d compiles for shardings that were known", more)
	}
	d := reshardTo(t, c, start, layouts["columns in another order"])
	shards := must[[]client.Data](t)(c.GetDataShards(d))
	wantFloats(t, "the tile of device 3", read(t, c, shards[3]), 0, 4, 8, 12, 16)
	wantFloats(t, "the tile of device 2", read(t, c, shards[2]), 3, 7, 11, 15, 19) // tiles are named in the order 3, 1, 0, 2
	closeAll(append(shards, d)...)

	c.SetCustomCompileOptions(map[string]string{"xla_llvm_disable_expensive_passes": "true"})
	d = reshardTo(t, c, start, layouts["rows"])
	wantFloats(t, "rows under other compile options", read(t, c, d), values...)
	d.Close()
	if compileCount() == before {
		t.Error("a program compiled with other options was used")
	}
}

// reshardSharing changes only how a layout is written, or leaves shards where they are: memory is shared and
// nothing is compiled.
func reshardSharing(t *T, c client.Client) {
	same := []float32{1, 2, 3, 4}
	whole := wrap(t, c, f32(4), replicated(), f32(4), same, same, same, same)
	unknown := wrap(t, c, f32(4), wire.Varint(nil, 1, 5), f32(4), same, same, same, same)
	quarters := wrap(t, c, f32(4), tiled([]int64{4}, 0, 1, 2, 3), f32(1), same[:1], same[1:2], same[2:3], same[3:])
	defer closeAll(whole, unknown, quarters)
	before := compileCount()
	for _, test := range []struct {
		name string
		from client.Data
		to   []byte
	}{
		{"replicated, written as tiles", whole, partly([]int64{1, 4}, 3, 2, 1, 0)},
		{"replicated, to one of its devices", whole, wire.Packed(wire.Varint(nil, 1, 1), 4, []int64{2})},
		{"unknown counts as replicated", unknown, replicated()},
		{"the same tiles, counted", quarters, iota([]int64{4}, []int64{4}, []int64{0})},
	} {
		moved := reshardTo(t, c, test.from, annotate(test.to)[0])
		wantFloats(t, test.name, read(t, c, moved), same...)
		if a, b := must[uintptr](t)(moved.Handle()), must[uintptr](t)(test.from.Handle()); a != b {
			t.Errorf("%s: memory is not shared", test.name)
		}
		moved.Close()
	}
	if more := compileCount() - before; more != 0 {
		t.Errorf("%d compiles where nothing moves", more)
	}
	moved := reshardTo(t, c, unknown, annotate(tiled([]int64{4}, 0, 1, 2, 3))[0])
	wantFloats(t, "unknown to tiles", read(t, c, moved), same...)
	wantFloats(t, "unknown", read(t, c, unknown), same...)
	moved.Close()
}

// reshardSeveral moves values of several shapes in one call, while others do the same: each program is
// compiled once.
func reshardSeveral(t *T, c client.Client) {
	quarters := annotate(tiled([]int64{4}, 0, 1, 2, 3))[0]
	same := []float32{1, 2, 3, 4}
	short := wrap(t, c, f32(4), replicated(), f32(4), same, same, same, same)
	long := append(same, 5, 6, 7, 8)
	other := wrap(t, c, f32(8), replicated(), f32(8), long, long, long, long)
	defer closeAll(short, other)
	probe := wrap(t, c, f32(12), replicated(), f32(12), each(4, func(float32) []float32 { return make([]float32, 12) })...)
	closeAll(reshardTo(t, c, probe, quarters), probe) // a plugin that cannot says so here
	before := compileCount()
	var group sync.WaitGroup
	for range 6 {
		group.Go(func() {
			list, err := c.ReshardData([]client.Data{short, other, short}, []*client.Sharding{quarters, quarters, short.Sharding()})
			if err != nil {
				t.Error(err)
				return
			}
			got, err := c.TransferFromDevice(list)
			if err != nil || string(got[0].Bytes) != string(floats(same...)) || string(got[1].Bytes) != string(floats(long...)) || list[2] != short {
				t.Errorf("moved %v, %v", got, err)
			}
			closeAll(list[:2]...)
		})
	}
	group.Wait()
	if got := compileCount() - before; got != 2 {
		t.Errorf("%d compiles for two shapes, want 2", got)
	}
}

func reshardBadInput(t *T, c client.Client) {
	quarter := [][]float32{{1}, {2}, {3}, {4}}
	whole := wrap(t, c, f32(4), tiled([]int64{4}, 0, 1, 2, 3), f32(1), quarter...)
	each := wrap(t, c, f32(1), wire.Varint(nil, 1, 4), f32(1), quarter...)
	empty := must[client.Data](t)(c.CreateDataPlaceholder("SPMD:0", f32(4), whole.Sharding()))
	defer closeAll(whole, each, empty)
	everywhere := annotate(replicated())[0]
	for _, test := range []struct {
		name  string
		data  client.Data
		to    *client.Sharding
		code  status.Code
		words string
	}{
		{"to none", whole, nil, status.InvalidArgument, "sharding"},
		{"to manual", whole, annotate(wire.Varint(nil, 1, 4))[0], status.InvalidArgument, "value of its own"},
		{"to unknown", whole, annotate(wire.Varint(nil, 1, 5))[0], status.InvalidArgument, "unknown"},
		{"from manual", each, everywhere, status.InvalidArgument, "shards"},
		{"too many tiles", whole, annotate(tiled([]int64{2, 2, 2}, 0, 1, 2, 3))[0], status.InvalidArgument, "tiles"},
		{"a placeholder", empty, everywhere, status.FailedPrecondition, "no value"},
		{"no data", nil, everywhere, status.InvalidArgument, "of this client"},
	} {
		_, err := c.ReshardData([]client.Data{whole, test.data}, []*client.Sharding{everywhere, test.to})
		wantCode(t, test.name, err, test.code, test.words)
	}
	_, err := c.ReshardData([]client.Data{whole}, nil)
	wantCode(t, "too few shardings", err, status.InvalidArgument)
	wantFloats(t, "the source after all those errors", read(t, c, whole), 1, 2, 3, 4)
}

// assembledWithoutACompile reads tiles of every sort on the host.
func assembledWithoutACompile(t *T, c client.Client) {
	before := compileCount()
	var list []client.Data
	for _, s := range []struct {
		sharding []byte
		whole    shape.Shape
	}{{tiled([]int64{4}, 2, 0, 3, 1), f32(4)}, {tiled([]int64{4}, 0, 1, 2, 3), f32(3)}, {partly([]int64{2, 2}, 0, 1, 2, 3), f32(2)}} {
		list = append(list, wrap(t, c, s.whole, s.sharding, f32(1), []float32{0}, []float32{1}, []float32{2}, []float32{3}))
	}
	got := must[[]client.Literal](t)(c.TransferFromDevice(list))
	wantFloats(t, "another order", got[0].Bytes, 2, 0, 3, 1)
	wantFloats(t, "padded", got[1].Bytes, 0, 1, 2)
	wantFloats(t, "each twice", got[2].Bytes, 0, 2)
	if more := compileCount() - before; more != 0 {
		t.Errorf("%d compiles for reading", more)
	}
	closeAll(list...)
}
