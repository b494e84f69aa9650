package clienttest

import (
	"bytes"
	"fmt"

	"xla_go/gosrc/client"
	"xla_go/gosrc/dtype"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
)

// transferSizes are rows of 1024 values: small and large transfers take different ways.
var transferSizes = []int64{1, 40, 700, 3000}

// pattern fills n bytes so that no two pages are alike.
func pattern(n int64) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i ^ i>>8 ^ i>>15)
	}
	return b
}

// uploads gives one array in each form that a source can have, and the bytes that the device must hold.
func uploads(device string, rows int64, source []byte) map[string]struct {
	client.TensorSource
	want []byte
} {
	const columns, item = 1024, 4
	s, t := shape.Make(dtype.S32, rows, columns), shape.Make(dtype.S32, columns, rows)
	half := shape.Make(dtype.S32, rows, columns/2)
	transposed, slice := make([]byte, 0, s.ByteSize()), make([]byte, 0, half.ByteSize())
	for c := range int64(columns) {
		for r := range rows {
			transposed = append(transposed, source[(r*columns+c)*item:][:item]...)
		}
	}
	for r := range rows {
		slice = append(slice, source[(r*columns+3)*item:][:columns/2*item]...)
	}
	type form = struct {
		client.TensorSource
		want []byte
	}
	return map[string]form{
		"dense":      {client.TensorSource{Shape: s, Device: device, Bytes: source[:s.ByteSize()]}, source[:s.ByteSize()]},
		"unaligned":  {client.TensorSource{Shape: s, Device: device, Bytes: source[1:][:s.ByteSize()]}, source[1:][:s.ByteSize()]},
		"transposed": {client.TensorSource{Shape: t, Device: device, Bytes: source, ByteStrides: []int64{item, columns * item}}, transposed},
		"columns":    {client.TensorSource{Shape: half, Device: device, Bytes: source[3*item:], ByteStrides: []int64{columns * item, item}}, slice},
	}
}

// sourceMayChange overwrites a source right after its upload, in every form and size.
func sourceMayChange(t *T, c client.Client) {
	for _, rows := range transferSizes {
		original := pattern(rows*4096 + 64)
		for name, form := range uploads(c.GetDefaultDevice(), rows, original) {
			changing := bytes.Clone(original)
			source := uploads(c.GetDefaultDevice(), rows, changing)[name].TensorSource
			d := must[[]client.Data](t)(c.TransferToDevice([]client.TensorSource{source}))[0]
			for i := range changing {
				changing[i] ^= 0xff
			}
			if !bytes.Equal(read(t, c, d), form.want) {
				t.Errorf("%d rows, %s: the device does not hold what the source was at the call", rows, name)
			}
			d.Close()
		}
	}
}

// sourceMayBeFreed uploads memory that goes back when it is released and may then hold something else.
func sourceMayBeFreed(t *T, c client.Client) {
	device := c.GetDefaultDevice()
	for _, rows := range transferSizes {
		for _, offset := range []int64{0, 3} {
			s := shape.Make(dtype.U8, rows*4096)
			original := pattern(s.ByteSize())
			memory := upload(t, c, s, original)
			lent := must[client.ExternalReference](t)(c.AcquireExternalReference(memory))
			memory.Close()
			if !lent.HostAddressable {
				lent.Release()
				t.Skip("the device's memory cannot be read by address")
			}
			released := make(chan struct{})
			source := client.TensorSource{Shape: shape.Make(dtype.U8, s.ByteSize()-offset), Device: device, Address: lent.Pointer + uintptr(offset),
				Release: func() { lent.Release(); close(released) }}
			d := must[[]client.Data](t)(c.TransferToDevice([]client.TensorSource{source}))[0]
			<-released
			other := upload(t, c, s, make([]byte, s.ByteSize())) // likely to get the memory that was freed
			if !bytes.Equal(read(t, c, d), original[offset:]) {
				t.Errorf("%d rows from byte %d on: the device does not hold what the source was", rows, offset)
			}
			closeAll(d, other)
		}
	}
}

// memoryComesBack uploads again and again, in turn with other sizes and several at a time: values never mix.
func memoryComesBack(t *T, c client.Client) {
	const n = 3 << 20
	for round := range 6 {
		var list []client.Data
		for i := range 3 {
			size := int64(n + 4096*(i+round%2))
			list = append(list, upload(t, c, shape.Make(dtype.U8, size), bytes.Repeat([]byte{byte(10*round + i)}, int(size))))
		}
		for i, d := range list {
			got, want := read(t, c, d), byte(10*round+i)
			if bytes.Count(got, []byte{want}) != len(got) {
				t.Errorf("round %d, array %d: holds bytes of another", round, i)
			}
		}
		closeAll(list...)
	}
}

// donationOfALargeUpload gives a large upload to a program that may write its result into it, and that result to the
// next run.
func donationOfALargeUpload(t *T, c client.Client) {
	s := f32(1 << 20)
	p := NewProgram("twice")
	x := p.Parameter(s, nil)
	p.Donate(0)
	k := compile(t, c, p.Build(p.Op("add", s, x, x)))
	defer k.Close()
	ones := bytes.Repeat(floats(1), 1<<20)
	value, kept := upload(t, c, s, ones), upload(t, c, s, ones)
	for run := range 3 {
		out := must[[]client.Data](t)(c.ExecuteComputation(k, []client.Data{value}, c.GetDefaultDevice(), client.ExecuteOptions{ExplodeTuple: true}))
		value.Close()
		value = out[0]
		want := bytes.Repeat(floats(float32(int(2)<<run)), 1<<20)
		if got := read(t, c, value); !bytes.Equal(got, want) {
			t.Errorf("run %d gives %v..., want %v...", run, asFloats(got[:8]), asFloats(want[:8]))
		}
	}
	other := upload(t, c, s, make([]byte, s.ByteSize())) // must not get memory that the result lies in
	if got := read(t, c, value); got[3] != floats(8)[3] || !bytes.Equal(got[:4], floats(8)) {
		t.Errorf("an upload changed the result of a run to %v...", asFloats(got[:8]))
	}
	if !bytes.Equal(read(t, c, kept), ones) {
		t.Error("a run changed an upload that it was not given")
	}
	closeAll(value, other, kept)
}

// readInto reads to memory of the caller: exactly as much as there is, of values of all sizes.
func readInto(t *T, c client.Client) {
	for _, s := range []shape.Shape{f32(), f32(0, 3), f32(7, 5), f32(1 << 12), f32(3, 1<<20)} {
		want := pattern(s.ByteSize())
		d := upload(t, c, s, want)
		room := bytes.Repeat([]byte{0xaa}, int(s.ByteSize())+2)
		if err := c.TransferFromDeviceInto(d, room[1:len(room)-1]); err != nil {
			t.Errorf("%s: %v", s, err)
		} else if !bytes.Equal(room[1:len(room)-1], want) {
			t.Errorf("%s: bytes differ after a round trip", s)
		}
		if room[0] != 0xaa || room[len(room)-1] != 0xaa {
			t.Errorf("%s: written outside of the memory", s)
		}
		wantCode(t, "a read to too much memory", c.TransferFromDeviceInto(d, room), status.InvalidArgument, fmt.Sprint(s.ByteSize()), s.String())
		d.Close()
		if err := c.TransferFromDeviceInto(d, room[1:len(room)-1]); err == nil {
			t.Errorf("%s: closed data was read", s)
		}
	}
	empty := must[client.Data](t)(c.CreateDataPlaceholder(c.GetDefaultDevice(), f32(2), nil))
	defer empty.Close()
	wantCode(t, "a read of a placeholder", c.TransferFromDeviceInto(empty, make([]byte, 8)), status.FailedPrecondition, "no value")
}
