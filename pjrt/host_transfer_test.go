package pjrt

import (
	"bytes"
	"context"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"xla_go/gosrc/status"
)

const fromHost, toHost = 1, 2 // channels of transferProgram

// transferProgram is an HloModuleProto that receives a vector of four F32 from the host, adds it to
// itself, sends the sum to the host and gives it as its result.
func transferProgram() []byte {
	array := func(elementType uint64, dims ...byte) []byte {
		s := number(nil, 2, elementType)
		if len(dims) > 0 {
			s = field(s, 3, dims)
		}
		return s
	}
	tuple := func(shapes ...[]byte) []byte {
		s := number(nil, 2, 13)
		for _, of := range shapes {
			s = field(s, 4, of)
		}
		return s
	}
	value, token, context := array(11, 4), array(17), array(8)
	var computation []byte
	computation = field(computation, 1, []byte("main"))
	instruction := func(id uint64, opcode string, shape []byte, operands []byte, numbers map[protowire.Number]uint64) {
		b := field(field(field(nil, 1, []byte(opcode)), 2, []byte(opcode)), 3, shape)
		for n, v := range numbers {
			b = number(b, n, v)
		}
		if len(operands) > 0 {
			b = field(b, 36, operands)
		}
		computation = field(computation, 2, number(b, 35, id))
	}
	host := func(channel uint64) map[protowire.Number]uint64 {
		return map[protowire.Number]uint64{26: channel, 47: 1}
	}
	instruction(1, "after-all", token, nil, nil)
	instruction(2, "recv", tuple(value, context, token), []byte{1}, host(fromHost))
	instruction(3, "recv-done", tuple(value, token), []byte{2}, host(fromHost))
	instruction(4, "get-tuple-element", value, []byte{3}, nil)
	instruction(5, "add", value, []byte{4, 4}, nil)
	instruction(6, "send", tuple(value, context, token), []byte{5, 1}, host(toHost))
	instruction(7, "send-done", token, []byte{6}, host(toHost))
	computation = number(number(computation, 5, 1), 6, 5)
	module := field(field(nil, 1, []byte("talks")), 2, []byte("main"))
	return number(field(module, 3, computation), 6, 1)
}

func (s *scenario) hostTransfers(c *Client) {
	e, err := c.Compile(transferProgram(), FormatHLO, nil)
	if !s.try(err) {
		return
	}
	s.later(e.Destroy)
	added := make(chan error, 2)
	chunks := 0
	var sent []byte
	run := Run{
		Outputs: make([]*Buffer, 1), NumDevices: 1,
		Sends: []Send{{Channel: toHost, Take: func(chunk []byte, total int64, last bool) error {
			sent = append(sent, chunk...)
			s.expect(total == 16 && last == (len(sent) == 16), "a chunk of %d, %d of %d, last %v", len(chunk), len(sent), total, last)
			return nil
		}}},
		Receives: []Receive{{Channel: fromHost, Give: func(stream *CopyToDeviceStream) {
			s.expect(note[int64](s)(stream.TotalBytes()) == 16, "the size of what is received")
			s.expect(note[int64](s)(stream.GranuleSize()) == 4, "the size of a granule")
			for i, values := range [][]byte{floats(1, 2), floats(3, 4)} {
				if s.try(stream.AddChunk(values, func(err error) { added <- err })) {
					chunks++
				}
				clear(values)
				s.expect(note[int64](s)(stream.CurrentBytes()) == int64(8*(i+1)), "the size of what has been added")
			}
			s.try(stream.Destroy())
		}}},
	}
	events, err := e.Execute(run)
	if !s.try(err) {
		return
	}
	s.later(run.Outputs[0].Destroy)
	for _, event := range events {
		if event != nil {
			s.later(event.Destroy)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.patience)
	defer cancel()
	for range chunks {
		s.try(awaitOutcome(ctx, added))
	}
	s.holds(run.Outputs[0], 2, 4, 6, 8)
	if len(s.failures) == 0 {
		s.expect(bytes.Equal(sent, floats(2, 4, 6, 8)), "sent % x", sent)
	}
}

func talker(t *testing.T, c *Client, options []byte) *Executable {
	t.Helper()
	e, err := c.Compile(transferProgram(), FormatHLO, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Destroy() })
	return e
}

// gives fills a stream from another goroutine, some time later.
func gives(t *testing.T, values ...float32) func(*CopyToDeviceStream) {
	return func(stream *CopyToDeviceStream) {
		time.AfterFunc(5*time.Millisecond, func() {
			if err := stream.AddChunk(floats(values...), func(err error) {
				if err != nil {
					t.Error(err)
				}
			}); err != nil {
				t.Error(err)
			}
			if err := stream.Destroy(); err != nil {
				t.Error(err)
			}
		})
	}
}

func ignores([]byte, int64, bool) error { return nil }

// Each device has transfers of its own.
func TestHostTransfersOfSeveralDevices(t *testing.T) {
	c := testPluginClient(t, map[string]any{"devices": 2, "delay_ms": 2})
	e := talker(t, c, field(nil, 3, number(nil, 4, 2))) // two replicas
	taken := make([][]byte, 2)
	take := func(device int) func([]byte, int64, bool) error {
		return func(chunk []byte, _ int64, _ bool) error {
			taken[device] = append(taken[device], chunk...)
			return nil
		}
	}
	run := Run{
		Outputs: make([]*Buffer, 2), NumDevices: 2, Sends: []Send{{toHost, take(0)}, {toHost, take(1)}},
		Receives: []Receive{{fromHost, gives(t, 1, 2, 3, 4)}, {fromHost, gives(t, 5, 6, 7, 8)}},
	}
	execute(t, e, run)
	wantVector(t, run.Outputs[0], 2, 4, 6, 8)
	wantVector(t, run.Outputs[1], 10, 12, 14, 16)
	if !slices.Equal(taken[0], floats(2, 4, 6, 8)) || !slices.Equal(taken[1], floats(10, 12, 14, 16)) {
		t.Errorf("sent % x", taken)
	}
}

// What goes wrong in a callback is the run's error, or that of the call that is wrong.
func TestHostTransferFailures(t *testing.T) {
	c := testPluginClient(t, nil)
	e := talker(t, c, nil)
	for _, test := range []struct {
		name string
		take func([]byte, int64, bool) error
		give func(*CopyToDeviceStream)
		code status.Code
	}{
		{"what is sent is refused", func([]byte, int64, bool) error { return status.Errorf(status.DataLoss, "no room") }, gives(t, 1, 2, 3, 4), status.DataLoss},
		{"taking panics", func([]byte, int64, bool) error { panic("no") }, gives(t, 1, 2, 3, 4), status.Internal},
		{"giving panics", ignores, func(*CopyToDeviceStream) { panic("no") }, status.Cancelled},
		{"nothing is given", ignores, func(s *CopyToDeviceStream) { s.Destroy() }, status.Cancelled},
		{"too much is given", ignores, func(s *CopyToDeviceStream) {
			defer s.Destroy()
			if err := awaitStarted(context.Background(), func(done func(error)) error { return s.AddChunk(floats(1, 2, 3, 4, 5), done) }); status.CodeOf(err) != status.OutOfRange {
				t.Errorf("a chunk that is too long: %v", err)
			}
		}, status.Cancelled},
		{"half a number is given", ignores, func(s *CopyToDeviceStream) {
			if err := awaitStarted(context.Background(), func(done func(error)) error { return s.AddChunk([]byte{1, 2}, done) }); status.CodeOf(err) != status.InvalidArgument {
				t.Errorf("a chunk that is no multiple of a granule: %v", err)
			}
			s.Destroy()
			if err := s.AddChunk(floats(1), nil); status.CodeOf(err) != status.FailedPrecondition {
				t.Errorf("a destroyed stream: %v", err)
			}
		}, status.Cancelled},
	} {
		run := Run{Outputs: make([]*Buffer, 1), NumDevices: 1, Sends: []Send{{toHost, test.take}}, Receives: []Receive{{fromHost, test.give}}}
		execute(t, e, run)
		if err := run.Outputs[0].Await(); status.CodeOf(err) != test.code {
			t.Errorf("%s: the run gives %v, want %v", test.name, err, test.code)
		}
	}
	for _, run := range []Run{
		{Receives: []Receive{{fromHost, gives(t)}}},
		{Sends: []Send{{toHost, ignores}}},
		{Sends: []Send{{toHost + 7, ignores}}, Receives: []Receive{{fromHost, gives(t)}}},
	} {
		run.Outputs, run.NumDevices = make([]*Buffer, 1), 1
		if _, err := e.Execute(run); status.CodeOf(err) != status.InvalidArgument {
			t.Errorf("a transfer with nobody at its other end: %v", err)
		}
	}
	if LiveCallbacks() != 0 {
		t.Errorf("%d callbacks are left", LiveCallbacks())
	}
}
