package pjrt

import (
	"bytes"
	"context"
	"encoding/binary"
	"math"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
	"xla_go/pjrt/testplugin"
)

// loadTestPlugin loads a copy of the test plugin that nobody else uses.
func loadTestPlugin(t testing.TB) *Plugin {
	t.Helper()
	p, err := Load(testplugin.Build(t))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func field(b []byte, number protowire.Number, bytes []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, number, protowire.BytesType), bytes)
}

func number(b []byte, n protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, n, protowire.VarintType), v)
}

// addProgram is an HloModuleProto that adds two vectors of four F32; donated says that it consumes the first.
func addProgram(donated bool) []byte {
	vector := number(field(nil, 3, []byte{4}), 2, 11)
	instruction := func(opcode string, id uint64, more func([]byte) []byte) []byte {
		b := field(field(field(nil, 1, []byte(opcode)), 2, []byte(opcode)), 3, vector)
		return more(number(b, 35, id))
	}
	var computation []byte
	computation = field(computation, 1, []byte("main"))
	for i := range uint64(2) {
		computation = field(computation, 2, instruction("parameter", 1+i, func(b []byte) []byte { return number(b, 9, i) }))
	}
	computation = field(computation, 2, instruction("add", 3, func(b []byte) []byte { return field(b, 36, []byte{1, 2}) }))
	computation = number(number(computation, 5, 1), 6, 3)
	module := field(field(nil, 1, []byte("adds")), 2, []byte("main"))
	module = number(field(module, 3, computation), 6, 1)
	if donated {
		module = field(module, 8, field(nil, 1, number(nil, 2, 0)))
	}
	return module
}

func floats(values ...float32) []byte {
	b := make([]byte, 0, 4*len(values))
	for _, v := range values {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return b
}

var vector = shape.Make(dtype.F32, 4)

// scenario uses every function once and goes on after failures, which it collects.
type scenario struct {
	t        testing.TB
	plugin   *Plugin
	patience time.Duration
	unknown  bool // optional properties are
	failures []error
	cleanups []func() error
}

// try notes a failure and says whether there was none.
func (s *scenario) try(err error) bool {
	if err != nil {
		s.failures = append(s.failures, err)
	}
	return err == nil
}

func note[T any](s *scenario) func(T, error) T {
	return func(v T, err error) T {
		s.try(err)
		return v
	}
}

func (s *scenario) later(destroy func() error) { s.cleanups = append(s.cleanups, destroy) }

// expect checks a result where nothing has failed so far.
func (s *scenario) expect(ok bool, format string, args ...any) {
	s.t.Helper()
	if !ok && !s.unknown && len(s.failures) == 0 {
		s.t.Errorf(format, args...)
	}
}

// finished waits for asynchronous work.
func (s *scenario) finished(start func(done func(error)) error) bool {
	ctx, cancel := context.WithTimeout(context.Background(), s.patience)
	defer cancel()
	return s.try(awaitStarted(ctx, start))
}

func (s *scenario) awaited(b *Buffer) bool {
	ctx, cancel := context.WithTimeout(context.Background(), s.patience)
	defer cancel()
	return s.try(b.AwaitContext(ctx))
}

// run goes through everything and leaves nothing behind.
func (s *scenario) run(options map[string]any) {
	c, err := s.plugin.NewClient(options)
	if !s.try(err) {
		return
	}
	s.client(c)
	s.topologies(c)
	if b := s.upload(c, 1, 2, 3, 4); b != nil {
		s.buffer(c, b)
		s.transfers(c, b)
		s.programs(c, b)
		s.hostTransfers(c)
		s.raw(b)
		s.crossHost(c, b)
		s.crossHostByDescriptor(c, b)
	}
	s.plugins(c)
	for i := len(s.cleanups) - 1; i >= 0; i-- {
		s.try(s.cleanups[i]())
	}
	s.cleanups = nil
	if stats, err := c.Devices()[0].MemoryStats(); err == nil && s.patience > time.Second {
		s.expect(stats.BytesInUse == 0, "%d bytes are in use at the end", stats.BytesInUse)
	}
	s.try(c.Close())
}

func (s *scenario) upload(c *Client, values ...float32) *Buffer {
	b, err := c.FromHost(Host{Bytes: floats(values...), Dtype: dtype.F32, Dims: []int64{int64(len(values))}}, c.AddressableDevices()[0], nil)
	if !s.try(err) {
		return nil
	}
	s.later(b.Destroy)
	return b
}

func (s *scenario) holds(b *Buffer, values ...float32) {
	s.t.Helper()
	got := make([]byte, 4*len(values))
	if s.finished(func(done func(error)) error { return b.StartToHost(got, 1, done) }) {
		s.expect(bytes.Equal(got, floats(values...)), "read % x, want %v", got, values)
	}
}

func (s *scenario) client(c *Client) {
	d := c.Devices()[0]
	s.expect(note[*Device](s)(c.LookupDevice(0)) == d, "another device")
	s.expect(note[*Device](s)(c.LookupAddressableDevice(0)) == d, "another device")
	note[*Device](s)(d, nil)
	s.expect(len(note[[]*Memory](s)(c.Memories())) == len(c.Devices()), "memories")
	s.expect(len(note[[][]int](s)(c.DefaultDeviceAssignment(1, 1))) == 1, "assignment")
	s.try(c.UpdateGlobalProcessInfo([]ProcessInfo{{TaskID: 0, State: 3}, {TaskID: 1, State: 4, Failure: status.Errorf(status.Unavailable, "gone")}}))
	s.try(c.DmaMap(4096, 64))
	s.try(c.DmaUnmap(4096))
	s.expect(note[string](s)(d.DebugString()) == "TestDevice(id=0, process=0)", "debug text")
	note[map[string]any](s)(d.CurrentAttributes())
	note[MemoryStats](s)(d.MemoryStats())
	s.try(d.ClearMemoryStats())
	s.expect(note[bool](s)(d.PoisonExecution(7, status.Errorf(status.Aborted, "no more"))), "not poisoned")
	s.expect(d.Attributes()["row"] == int64(0), "attributes %v", d.Attributes())
	if event, err := d.Track("a test"); s.try(err) {
		s.later(event.Destroy)
	}
	if m := d.DefaultMemory(); m != nil {
		s.expect(note[int](s)(m.KindID()) == 3 && m.Kind() == "device", "kind of memory")
		s.expect(note[string](s)(m.Text()) == "TestMemory(0)" && note[string](s)(m.DebugString()) != "", "text of memory")
		s.expect(len(note[[]*Device](s)(m.Devices())) == 1, "devices of memory")
	}
	note[uintptr](s)(d.Stream())
}

func (s *scenario) topologies(c *Client) {
	t, err := c.TopologyDescription()
	if !s.try(err) {
		return
	}
	s.expect(note[string](s)(t.PlatformName()) == "testplugin", "platform")
	note[string](s)(t.PlatformVersion())
	note[map[string]any](s)(t.Attributes())
	s.expect(note[uint64](s)(t.Fingerprint()) == uint64(1000+len(c.Devices())), "fingerprint")
	s.expect(len(note[[]int](s)(t.MemoryKindIDs())) == 1, "kinds of memory")
	s.expect(len(note[[]byte](s)(t.CanonicalShape(3, vector))) == 3, "canonical shape")
	s.expect(note[string](s)(t.DefaultLayout(vector)) == "{0}", "layout")
	for _, d := range note[[]*DeviceDescription](s)(t.Devices())[:] {
		note[int](s)(d.ID())
		note[int](s)(d.ProcessIndex())
		note[string](s)(d.Kind())
		note[string](s)(d.Text())
		note[string](s)(d.DebugString())
		note[map[string]any](s)(d.Attributes())
		s.expect(len(note[[]MemoryDescription](s)(d.Memories())) == 1, "descriptions of memory")
	}
	if serialized, err := t.Serialize(); s.try(err) {
		if again, err := s.plugin.DeserializeTopology(serialized); s.try(err) {
			s.later(again.Destroy)
		}
	}
	if other, err := s.plugin.NewTopology("two", map[string]any{"devices": 2}); s.try(err) {
		s.later(other.Destroy)
		if program, err := other.Compile(addProgram(false), FormatHLO, nil, nil); s.try(err) {
			s.later(program.Destroy)
			if e, err := c.Load(program, nil); s.try(err) {
				s.later(e.Destroy)
			}
		}
	}
}

func (s *scenario) buffer(c *Client, b *Buffer) {
	s.awaited(b)
	note[bool](s)(b.IsReady())
	note[shape.Shape](s)(b.Shape())
	s.expect(note[int64](s)(b.OnDeviceSize()) == 16, "size")
	s.expect(len(note[[]int64](s)(b.UnpaddedDimensions())) == 1, "unpadded dimensions")
	s.expect(len(note[[]int](s)(b.DynamicDimensions())) == 0, "dynamic dimensions")
	s.expect(note[bool](s)(b.IsOnCPU()), "not on the CPU")
	note[*Device](s)(b.Device())
	note[uintptr](s)(b.UnsafePointer())
	note[uintptr](s)(b.OpaquePointer())
	s.expect(note[string](s)(b.Layout()) == "{0}", "layout")
	s.expect(note[string](s)(c.DefaultLayout(vector)) == "{0}", "layout")
	rowMajor, known := b.IsRowMajor()
	s.expect(rowMajor && known, "not row-major")
	s.expect(b.Memory() != nil, "no memory")
	s.try(b.WaitOnStream(100))
	if _, ready, err := b.Lend(); s.try(err) && ready {
		s.try(b.Return())
	}
	if e, err := b.ReadyEvent(); s.try(err) {
		s.later(e.Destroy)
		note[bool](s)(e.IsReady())
		s.try(e.Error())
	}
	if e, err := s.plugin.CreateEvent(); s.try(err) {
		s.later(e.Destroy)
		s.try(e.Set(nil))
	}
	s.holds(b, 1, 2, 3, 4)
	if to, err := b.CopyTo(c.AddressableDevices()[len(c.AddressableDevices())-1]); s.try(err) {
		s.later(to.Destroy)
		s.holds(to, 1, 2, 3, 4)
	}
	if cast, err := b.Bitcast(shape.Make(dtype.S32, 2, 2)); s.try(err) {
		s.later(cast.Destroy)
		s.awaited(cast)
	}
	if view, err := c.View(note[uintptr](s)(b.UnsafePointer()), dtype.F32, []int64{4}, c.AddressableDevices()[0], func() {}); s.try(err) {
		s.later(view.Destroy)
	}
	if gone := s.upload(c, 5, 6, 7, 8); gone != nil {
		s.try(gone.Delete())
		s.expect(gone.IsDeleted(), "not deleted")
	}
	if source := s.upload(c, 5, 6, 7, 8); source != nil {
		if after, ready, err := source.DonateAfter(); s.try(err) {
			s.later(after.Destroy)
			ready(nil)
			s.holds(after, 5, 6, 7, 8)
		}
	}
	got := make([]byte, 8)
	if s.finished(func(done func(error)) error { return b.StartReadRaw(got, 4, done) }) {
		s.expect(bytes.Equal(got, floats(2, 3)), "read % x from 4 on", got)
	}
	promised := make([]byte, 4)
	s.finished(func(done func(error)) error {
		r, err := b.PromiseReadRaw(12, 4, done)
		if err == nil {
			r.Fulfil(promised)
		}
		return err
	})
	s.expect(bytes.Equal(promised, floats(4)), "read % x into a place that was named later", promised)
}

func (s *scenario) transfers(c *Client, b *Buffer) {
	d := c.AddressableDevices()[0]
	if empty, err := c.Uninitialized(vector, d); s.try(err) {
		s.later(empty.Destroy)
	}
	m := d.DefaultMemory()
	if m == nil {
		return
	}
	if failed, err := c.ErrorBuffer(status.Errorf(status.DataLoss, "lost"), vector, m); s.try(err) {
		s.later(failed.Destroy)
		if event, err := failed.ReadyEvent(); s.try(err) {
			s.later(event.Destroy)
		}
	}
	if alias, promise, err := c.AliasBuffer(vector, m); s.try(err) {
		s.later(alias.Destroy)
		s.try(promise.Fulfill(b, nil))
		s.holds(alias, 1, 2, 3, 4)
	}
	manager, err := c.NewTransferManager([]shape.Shape{vector, vector, vector}, m)
	if !s.try(err) {
		return
	}
	s.later(manager.Destroy)
	s.expect(note[int](s)(manager.BufferCount()) == 3, "buffers")
	s.expect(note[int64](s)(manager.BufferSize(1)) == 16, "size")
	s.expect(note[*Device](s)(manager.Device()) == d, "device")
	s.try(manager.AddMetadata(map[string]any{"name": "test"}))
	s.finished(func(done func(error)) error { return manager.TransferData(0, floats(1, 2), 0, false, done) })
	s.finished(func(done func(error)) error { return manager.TransferData(0, floats(3, 4), 8, true, done) })
	s.finished(func(done func(error)) error { return manager.TransferLiteral(1, floats(4, 3, 2, 1), vector, done) })
	s.try(manager.SetBufferError(2, status.Errorf(status.DataLoss, "lost")))
	for i, want := range [][]float32{{1, 2, 3, 4}, {4, 3, 2, 1}} {
		if filled, err := manager.Retrieve(i); s.try(err) {
			s.later(filled.Destroy)
			if len(s.failures) == 0 {
				s.holds(filled, want...)
			}
		}
	}
}

func (s *scenario) programs(c *Client, b *Buffer) {
	e, err := c.Compile(addProgram(false), FormatHLO, nil)
	if !s.try(err) {
		return
	}
	s.later(e.Destroy)
	s.expect(e.Name() == "adds" && len(e.OutputShapes()) == 1 && e.OutputShapes()[0].Equal(vector), "program %q gives %v", e.Name(), e.OutputShapes())
	note[string](s)(e.Fingerprint())
	note[string](s)(e.LoadedFingerprint())
	note[[]byte](s)(e.DeviceAssignment())
	s.expect(len(note[[]LogicalDevice](s)(e.LogicalDevices())) == 1, "logical devices")
	note[string](s)(e.MemoryText())
	if _, format, err := e.OptimizedProgram(); s.try(err) {
		s.expect(format == FormatHLO, "format %q", format)
	}
	p := e.Program()
	note[int](s)(p.NumReplicas())
	note[int](s)(p.NumPartitions())
	note[int64](s)(p.CodeSize())
	s.expect(note[map[string]any](s)(p.CostAnalysis())["flops"] == float32(3), "cost")
	note[[]string](s)(p.OutputMemoryKinds())
	s.expect(len(note[[]string](s)(p.ParameterMemoryKinds())) == 2, "kinds of memory")
	note[[]byte](s)(p.CompileOptions())
	s.expect(note[CompiledMemory](s)(p.CompiledMemory()).Arguments == 32, "memory")
	note[[]string](s)(p.ParameterShardings())
	note[[]string](s)(p.OutputShardings())
	note[[]string](s)(p.OutputLayouts())
	note[[]string](s)(p.ParameterLayouts())
	if serialized, err := e.Serialize(); s.try(err) {
		if again, err := c.DeserializeAndLoad(serialized, nil); s.try(err) {
			s.later(again.Destroy)
			s.try(again.Delete())
			note[bool](s)(again.IsDeleted())
		}
	}
	run := Run{Arguments: []*Buffer{b, b}, Outputs: make([]*Buffer, 1), NumDevices: 1}
	if x, err := s.plugin.NewExecuteContext(); s.try(err) {
		s.later(x.Destroy)
		if id, err := s.plugin.RegisterType("test"); s.try(err) {
			s.try(x.AddUserData(id, 4096))
		}
		run.Context = x
	}
	events, err := e.Execute(run)
	if !s.try(err) {
		return
	}
	s.later(run.Outputs[0].Destroy)
	for _, event := range events {
		if event != nil {
			s.later(event.Destroy)
			ctx, cancel := context.WithTimeout(context.Background(), s.patience)
			s.try(event.AwaitContext(ctx))
			cancel()
		}
	}
	s.holds(run.Outputs[0], 2, 4, 6, 8)
}

func (s *scenario) raw(b *Buffer) {
	r, err := b.Raw()
	if !s.try(err) {
		return
	}
	s.later(r.Destroy)
	s.expect(note[int64](s)(r.Size()) == 16, "size")
	note[*Memory](s)(r.Memory())
	note[uintptr](s)(r.HostPointer())
	got := make([]byte, 4)
	s.finished(func(done func(error)) error { return r.StartWrite(floats(2), 4, done) })
	s.finished(func(done func(error)) error { return r.StartRead(got, 4, done) })
	s.expect(bytes.Equal(got, floats(2)), "read % x", got)
}

func (s *scenario) crossHost(c *Client, b *Buffer) {
	d := c.AddressableDevices()[0]
	events, err := c.Send([]*Buffer{b}, []int64{0}, []int64{42})
	if s.try(err) {
		s.later(events[0].Destroy)
	}
	received, err := c.Receive([]shape.Shape{vector}, d, []int64{0}, []int64{42})
	if s.try(err) {
		s.later(received[0].Destroy)
		if len(events) == 1 {
			s.holds(received[0], 1, 2, 3, 4)
		}
	}
}

func (s *scenario) crossHostByDescriptor(c *Client, b *Buffer) {
	var promised *Promised
	received, err := c.MakeReceiveBuffers([]shape.Shape{vector, vector}, c.AddressableDevices()[0], func(p *Promised, err error) {
		s.try(err)
		promised = p
	})
	if !s.try(err) || promised == nil {
		return
	}
	for _, r := range received {
		s.later(r.Destroy)
	}
	s.finished(func(done func(error)) error {
		return b.SendTo(promised.Descriptors[0], func(_ bool, err error) { done(err) })
	})
	if len(s.failures) == 0 {
		s.holds(received[0], 1, 2, 3, 4)
	}
	s.finished(func(done func(error)) error {
		promised.Cancel(1, status.Errorf(status.Aborted, "no more"), done)
		return nil
	})
	if ctx, cancel := context.WithTimeout(context.Background(), s.patience); len(s.failures) == 0 {
		s.expect(status.CodeOf(received[1].AwaitContext(ctx)) == status.Aborted, "a transfer that was given up")
		cancel()
	} else {
		cancel()
	}
}

func (s *scenario) plugins(*Client) {
	s.try(s.plugin.RegisterHandler("target", "Host", 4096, 0))
	s.try(s.plugin.RegisterCustomCall(CustomCall{Name: "call", APIVersion: 1, Execute: 4096}))
	if k, err := s.plugin.CompileTriton([]byte("module {}"), "9.0", 4, 1, 2); s.try(err) {
		s.expect(string(k.Assembly) == "assembly" && k.SharedBytes == 256, "kernel %v", k)
	}
	if f, err := s.plugin.NewProfiler(nil); s.try(err) {
		s.later(f.Destroy)
		s.try(f.Start())
		s.try(f.Stop())
		s.expect(bytes.Contains(note[[]byte](s)(f.Collect()), []byte("profiled")), "profile")
	}
}
