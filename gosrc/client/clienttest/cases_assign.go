package clienttest

import (
	"xla_go/gosrc/client"
	"xla_go/gosrc/dtype"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
)

func assign(t *T, c client.Client) {
	value := upload(t, c, f32(2), floats(1, 2))
	d := must[client.Data](t)(c.CreateDataPlaceholder(c.GetDefaultDevice(), f32(2), nil))
	if err := d.Assign(value); err != nil {
		t.Fatal(err)
	}
	a, b := must[uintptr](t)(d.Handle()), must[uintptr](t)(value.Handle())
	if a != b {
		t.Error("handles of shared memory differ")
	}
	value.Close()
	value.Close()
	if _, err := value.Handle(); err == nil {
		t.Error("closed data has a handle")
	}
	wantFloats(t, "the other holder", read(t, c, d), 1, 2)
	other := upload(t, c, f32(2), floats(3, 4))
	if h := must[uintptr](t)(other.Handle()); h == a {
		t.Error("handles of different memory are equal")
	}
	if err := d.Assign(d); err != nil {
		t.Errorf("Assign of itself: %v", err)
	}
	wantFloats(t, "assigned to itself", read(t, c, d), 1, 2)
	if err := d.Assign(other); err != nil {
		t.Errorf("the second Assign: %v", err)
	}
	if h := must[uintptr](t)(d.Handle()); h != must[uintptr](t)(other.Handle()) {
		t.Error("the second Assign left the first one's memory")
	}
	other.Close()
	wantFloats(t, "assigned again", read(t, c, d), 3, 4)
	d.Close()
	if d.HasValue() {
		t.Error("closed data has a value")
	}
}

// assignBadInput leaves the placeholder as it was.
func assignBadInput(t *T, c client.Client) {
	device := c.GetDefaultDevice()
	make2 := func() client.Data { return must[client.Data](t)(c.CreateDataPlaceholder(device, f32(2), nil)) }
	d, empty := make2(), make2()
	long, gone := upload(t, c, f32(3), floats(1, 2, 3)), upload(t, c, f32(2), floats(1, 2))
	integers := upload(t, c, shape.Make(dtype.S32, 2), make([]byte, 8))
	column := upload(t, c, f32(2, 1), floats(1, 2))
	gone.Close()
	k := compile(t, c, donatingProgram())
	consumed := upload(t, c, f32(1024), make([]byte, 4096))
	other := upload(t, c, f32(1024), make([]byte, 4096))
	closeAll(append(run(t, c, k, consumed, other), other)...)
	big := must[client.Data](t)(c.CreateDataPlaceholder(device, f32(1024), nil))
	for _, test := range []struct {
		name   string
		to     client.Data
		source client.Data
		code   status.Code
		words  []string
	}{
		{"another size", d, long, status.InvalidArgument, []string{"f32[2]", "f32[3]"}},
		{"another type", d, integers, status.InvalidArgument, []string{"f32[2]", "s32[2]"}},
		{"another rank", d, column, status.InvalidArgument, []string{"f32[2]", "f32[2,1]"}},
		{"closed data", d, gone, status.FailedPrecondition, []string{"closed"}},
		{"a placeholder", d, empty, status.FailedPrecondition, []string{"no value"}},
		{"donated data", big, consumed, status.FailedPrecondition, []string{"donated"}},
		{"nothing", d, nil, status.InvalidArgument, nil},
		{"foreign data", d, stranger{}, status.InvalidArgument, []string{"of this client"}},
	} {
		wantCode(t, test.name, test.to.Assign(test.source), test.code, append(test.words, "Assign()")...)
		if test.to.HasValue() {
			t.Errorf("%s: the placeholder has a value", test.name)
		}
	}
	good := upload(t, c, f32(2), floats(5, 6))
	if err := d.Assign(good); err != nil {
		t.Error(err)
	}
	wantCode(t, "closed data in place of a value", d.Assign(gone), status.FailedPrecondition)
	wantFloats(t, "after errors", read(t, c, d), 5, 6)
	d.Close()
	wantCode(t, "to closed data", d.Assign(good), status.FailedPrecondition, "closed")
	if d.HasValue() {
		t.Error("closed data has been given a value")
	}
	closeAll(empty, long, integers, column, consumed, big, good)
	k.Close()
}

// assignSharded shares all shards, and the sharding with them.
func assignSharded(t *T, c client.Client) {
	d, values := wrapPairs(t, c)
	s := d.Shape()
	for _, test := range []struct {
		name     string
		sharding *client.Sharding
	}{{"the same sharding", d.Sharding()}, {"another sharding", &client.Sharding{OpSharding: replicated()}}} {
		p := must[client.Data](t)(c.CreateDataPlaceholder("SPMD:0", s, test.sharding))
		if got := c.GetDataSharding(p); got == nil || string(got.OpSharding) != string(test.sharding.OpSharding) {
			t.Errorf("%s: the placeholder's sharding %v", test.name, got)
		}
		if err := p.Assign(d); err != nil {
			t.Fatal(err)
		}
		if a, b := must[uintptr](t)(p.Handle()), must[uintptr](t)(d.Handle()); a != b {
			t.Errorf("%s: handles of shared memory differ", test.name)
		}
		if got := c.GetDataSharding(p); got == nil || string(got.OpSharding) != string(d.Sharding().OpSharding) {
			t.Errorf("%s: after Assign the sharding is %v, not the value's", test.name, got)
		}
		wantFloats(t, test.name, read(t, c, p), values...)
		p.Close()
	}
	single := must[client.Data](t)(c.CreateDataPlaceholder(c.GetDefaultDevice(), s, nil))
	wantCode(t, "sharded data to a placeholder on one device", single.Assign(d), status.InvalidArgument, "SPMD:0", c.GetDefaultDevice())
	there := must[client.Data](t)(c.CreateDataPlaceholder(c.GetLocalDevices()[1], f32(1), nil))
	here := upload(t, c, f32(1), floats(1))
	wantCode(t, "data on another device", there.Assign(here), status.InvalidArgument, c.GetLocalDevices()[0], c.GetLocalDevices()[1])
	closeAll(d, single, there, here)
}
