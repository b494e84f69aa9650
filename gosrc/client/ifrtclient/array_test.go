package ifrtclient_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"xla_go/gosrc/client"
	"xla_go/gosrc/client/clienttest"
	"xla_go/gosrc/client/ifrtclient"
	"xla_go/gosrc/client/internal/plugintest"
	"xla_go/gosrc/dtype"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
	"xla_go/gosrc/wire"
)

func f32(dims ...int64) shape.Shape { return shape.Make(dtype.F32, dims...) }

func bytesOf(values ...float32) []byte {
	var b []byte
	for _, v := range values {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return b
}

// four is a client of four devices, closed in the end.
type four struct {
	*testing.T
	*ifrtclient.Client
}

func newFour(t *testing.T) four {
	c := newClient(t, plugintest.FourDevices).(*ifrtclient.Client)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return four{t, c}
}

// keep closes data in the end.
func (f four) keep(list []client.Data, err error) []client.Data {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		for _, d := range list {
			d.Close()
		}
	})
	return list
}

func (f four) keepOne(d client.Data, err error) client.Data {
	f.Helper()
	return f.keep([]client.Data{d}, err)[0]
}

// parts uploads an array of one value to each device: 1, 2, 3 and 4.
func (f four) parts() []client.Data {
	f.Helper()
	sources := make([]client.TensorSource, 4)
	for i, device := range f.GetLocalDevices() {
		sources[i] = client.TensorSource{Shape: f32(1), Device: device, Bytes: bytesOf(float32(i + 1))}
	}
	return f.keep(f.TransferToDevice(sources))
}

func (f four) want(what string, d client.Data, values ...float32) {
	f.Helper()
	got, err := f.TransferFromDevice([]client.Data{d})
	if err != nil {
		f.Errorf("%s: %v", what, err)
	} else if !slices.Equal(got[0].Bytes, bytesOf(values...)) {
		f.Errorf("%s: got %v, want the bytes of %v", what, got[0].Bytes, values)
	}
}

func (f four) wantError(what string, err error, code status.Code, words ...string) {
	f.Helper()
	if status.CodeOf(err) != code {
		f.Errorf("%s: %v, want code %v", what, err, code)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			f.Errorf("%s: %q does not say %q", what, err, w)
		}
	}
}

func (f four) addresses(list []client.Data) []uintptr {
	f.Helper()
	result := make([]uintptr, len(list))
	for i, d := range list {
		var err error
		if result[i], err = f.UnsafeBufferPointer(d); err != nil {
			f.Fatal(err)
		}
	}
	return result
}

func annotation(proto []byte) *client.Sharding { return &client.Sharding{OpSharding: proto} }

func tiled(tiles []int64, devices ...int64) *client.Sharding {
	return annotation(wire.Packed(wire.Packed(wire.Varint(nil, 1, 3), 3, tiles), 4, devices))
}

var (
	everywhere = annotation(wire.Varint(nil, 1, 0))
	quarters   = tiled([]int64{4}, 0, 1, 2, 3)
)

func TestAssembleAndDisassemble(t *testing.T) {
	for _, test := range []struct {
		semantics ifrtclient.CopySemantics
		shared    bool // result and source have one memory
		kept      bool // the source keeps its value
	}{{ifrtclient.AlwaysCopy, false, true}, {ifrtclient.Reuse, true, true}, {ifrtclient.Donate, true, false}} {
		t.Run(fmt.Sprint(test.semantics), func(t *testing.T) {
			f := newFour(t)
			parts := f.parts()
			before := f.addresses(parts)
			whole := f.keepOne(f.Assemble(parts, f32(4), quarters, nil, test.semantics))
			f.want("the whole", whole, 1, 2, 3, 4)
			for i, p := range parts {
				if p.HasValue() != test.kept {
					t.Errorf("part %d has a value: %v, want %v", i, p.HasValue(), test.kept)
				}
				if !test.kept {
					_, err := f.TransferFromDevice([]client.Data{p})
					f.wantError("reading what was given away", err, status.FailedPrecondition, "donated")
				}
				p.Close()
			}
			holder := f.keepOne(f.CreateDataPlaceholder("SPMD:0", f32(4), nil))
			if err := holder.Assign(whole); err != nil {
				t.Fatal(err)
			}
			if got := holder.Sharding(); got != quarters {
				t.Errorf("a placeholder has the sharding %v, want that of its array", got)
			}
			apart := f.keep(f.Disassemble(whole, test.semantics))
			if whole.HasValue() != test.kept {
				t.Errorf("the whole has a value: %v, want %v", whole.HasValue(), test.kept)
			}
			f.want("another holder of the whole", holder, 1, 2, 3, 4)
			for i, address := range f.addresses(apart) {
				if (address == before[i]) != test.shared {
					t.Errorf("shard %d at %#x, its source at %#x", i, address, before[i])
				}
				f.want("a shard", apart[i], float32(i+1))
				if kind, err := f.MemoryKind(apart[i]); err != nil || kind == "" {
					t.Errorf("memory of kind %q, %v", kind, err)
				}
			}
		})
	}
}

func TestRemap(t *testing.T) {
	f := newFour(t)
	whole := f.keepOne(f.Assemble(f.parts(), f32(4), quarters, nil, ifrtclient.Reuse))
	devices := f.GetLocalDevices()
	pieces := []ifrtclient.Piece{{Shard: 2}, {Shard: 0}}
	made := f.keep(f.Remap([]client.Data{whole}, []ifrtclient.Layout{
		{Shape: f32(2), Sharding: tiled([]int64{2}, 0, 1), Devices: []string{devices[2], devices[0]}, Shards: pieces},
		{Shards: []ifrtclient.Piece{{Shard: 3}}},
	}, ifrtclient.Reuse))
	f.want("two of four shards", made[0], 3, 1)
	f.want("one of four shards", made[1], 4)
	if made[1].Device() != devices[3] || made[1].Sharding() != nil {
		t.Errorf("one shard is %s, sharding %v", made[1], made[1].Sharding())
	}

	// A value over two of the devices is laid out otherwise among those.
	swapped := f.keep(f.ReshardData(made[:1], []*client.Sharding{tiled([]int64{2}, 1, 0)}))
	f.want("tiles exchanged", swapped[0], 3, 1)
	shards := f.keep(f.GetDataShards(swapped[0]))
	f.want("the first device's tile", shards[0], 1)
	if len(shards) != 2 || shards[0].Device() != devices[2] {
		t.Errorf("shards %v", shards)
	}

	for _, test := range []struct {
		name      string
		plan      ifrtclient.Layout
		semantics ifrtclient.CopySemantics
		words     string
	}{
		{"no such shard", ifrtclient.Layout{Shards: []ifrtclient.Piece{{Shard: 4}}}, ifrtclient.Reuse, "no shard 4"},
		{"no such input", ifrtclient.Layout{Shards: []ifrtclient.Piece{{Input: 1}}}, ifrtclient.Reuse, "input 1"},
		{"two shards without a sharding", ifrtclient.Layout{Shards: pieces}, ifrtclient.Reuse, "one shard"},
		{"a device too many", ifrtclient.Layout{Shape: f32(4), Sharding: quarters, Shards: pieces}, ifrtclient.Reuse, "4 local devices"},
		{"a device twice", ifrtclient.Layout{Shape: f32(2), Sharding: everywhere, Devices: []string{devices[0], devices[0]}, Shards: pieces}, ifrtclient.Reuse, "twice"},
		{"another device", ifrtclient.Layout{Shape: f32(2), Sharding: everywhere, Devices: devices[:2], Shards: pieces}, ifrtclient.Reuse, "shard 0"},
		{"two shards of a device", ifrtclient.Layout{Shape: f32(2), Sharding: everywhere, Devices: devices[:2], Shards: []ifrtclient.Piece{{Shard: 0}, {Shard: 0}}}, ifrtclient.Reuse, "second"},
		{"donated twice", ifrtclient.Layout{Shape: f32(2), Sharding: everywhere, Devices: devices[:2], Shards: []ifrtclient.Piece{{Shard: 0}, {Shard: 0}}}, ifrtclient.Donate, "once"},
		{"unknown semantics", ifrtclient.Layout{Shards: pieces[:1]}, 7, "AlwaysCopy"},
	} {
		_, err := f.Remap([]client.Data{whole}, []ifrtclient.Layout{test.plan}, test.semantics)
		f.wantError(test.name, err, status.InvalidArgument, test.words)
	}
	f.want("the input after all those errors", whole, 1, 2, 3, 4)
	_, err := f.Assemble(f.parts(), f32(4), nil, nil, ifrtclient.Reuse)
	f.wantError("no sharding", err, status.InvalidArgument, "sharding")
}

// A shard that a run has consumed is gone for every array that shares it.
func TestDonationToARun(t *testing.T) {
	f := newFour(t)
	p := clienttest.NewProgram("increments")
	x := p.Parameter(f32(4), quarters.OpSharding)
	p.Donate(0)
	compiled, err := f.Compile([]client.CompileInstance{{
		HLO: p.Build(p.Op("add", f32(4), x, x)), Devices: f.GetAllDevices(), IsSharded: true, AllowSPMDShardingPropagationToOutput: true,
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer compiled[0].Close()
	parts := f.parts()
	whole := f.keepOne(f.Assemble(parts, f32(4), quarters, nil, ifrtclient.Reuse))
	run := func() ([]client.Data, error) {
		return f.ExecuteReplicated(compiled[0], []client.Data{whole}, f.GetLocalDevices(), client.ExecuteOptions{ExplodeTuple: true})
	}
	out := f.keep(run())
	f.want("the sum", out[0], 2, 4, 6, 8)
	if whole.HasValue() || parts[1].HasValue() {
		t.Error("a donated value is still there")
	}
	_, err = run()
	f.wantError("the second run", err, status.FailedPrecondition, "argument 0", "donated")
	_, err = f.Assemble(parts, f32(4), quarters, nil, ifrtclient.Reuse)
	f.wantError("assembly of what is gone", err, status.FailedPrecondition, "donated")
	_, err = f.ReshardData([]client.Data{whole}, []*client.Sharding{everywhere})
	f.wantError("resharding what is gone", err, status.FailedPrecondition, "donated")
}
