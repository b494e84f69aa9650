package executor

import (
	"slices"
	"sync/atomic"
	"time"

	"xla_go/gosrc/client"
	"xla_go/gosrc/dtype"
	"xla_go/gosrc/ir"
	"xla_go/gosrc/metrics"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
)

var (
	countExecute     = metrics.Counter("ExecuteComputation")
	runAheadWaitTime = metrics.Time("RunAheadWaitTime") // where a sync had to wait for the oldest step
)

// step is one queued run. Owned by the worker once it is queued.
type step struct {
	device     *Device
	number     int64 // of the device's steps, from 1
	executable *executable
	roots      []*Root // see finish: after the cut a root may be gone or hold another value
	lastGood   []*ir.Node
	arguments  []*ir.Buffer // retained
	outputs    []*ir.Buffer // not retained, so that what is overwritten before it is made takes no memory
	kept       int          // the smallest output, which is retained: it tells how the run has ended
	scalars    []byte
	pack       *scalarPack // the same on the device, for recordings; nil where the launch brings them there
	stacks     []ir.Stack  // of the nodes of the executable's program, nil for none
	replicas   int         // that run it together, 0 for one without collectives
	withheld   []int       // donors of the executable that this run must not consume
	givenAway  []givenAway
	checked    client.Data // which check of the program failed; nil where it has none. See verify
	watched    bool        // the client sets over when the run is over
	over       atomic.Bool
	fence      chan struct{} // closed when every output has data or an error
	settled    chan struct{} // closed when the outputs' values are final
}

// Step is a handle on a queued step, for waiting.
type Step struct{ s *step }

// Device gives the device that the step runs on.
func (s *Step) Device() *Device { return s.s.device }

// Buffers gives the step's outputs, retained: the caller releases each.
func (s *Step) Buffers() []*ir.Buffer {
	buffers := append([]*ir.Buffer(nil), s.s.outputs...)
	for _, b := range buffers {
		b.Retain()
	}
	return buffers
}

// enqueue hands a step to the worker. Under Core.Mu.
func (d *Device) enqueue(s *step) {
	d.push(s)
	d.queueChanged.Broadcast()
}

// push queues a step and leaves the worker asleep: LaunchQueued comes next. Under Core.Mu.
func (d *Device) push(s *step) {
	d.queued++
	s.number = d.queued
	d.queueMu.Lock()
	defer d.queueMu.Unlock()
	d.queue = append(d.queue, s)
	d.unsettled++
}

// A program whose launch took less, when it was last launched, is launched by whoever queues it: to wake the worker takes
// two changes of threads, which is more than many a small program runs.
const quickLaunch = 100 * time.Microsecond

// LaunchQueued launches the step that was pushed last where it is next and its launch is known to be quick; else the worker
// does. Without Core.Mu.
func (d *Device) LaunchQueued() {
	d.queueMu.Lock()
	for d.launching != nil && d.launching.executable.isQuick() && len(d.queue) == 1 && d.queue[0].executable.isQuick() {
		d.progressed.Wait()
	}
	if len(d.queue) == 1 && d.queue[0].isQuick() {
		if s := d.takeNext(); s != nil {
			d.queueMu.Unlock()
			d.run(s)
			d.queueMu.Lock()
			d.launching = nil
		}
	}
	waiting := len(d.queue) > 0 // what is not quick, or has been queued meanwhile
	d.queueMu.Unlock()
	if waiting {
		d.queueChanged.Broadcast()
	}
}

// isQuick is true where its launch, once it was launched, took no longer than a change of threads or two.
func (e *executable) isQuick() bool {
	took := e.launchTime.Load()
	return took > 0 && took <= int64(quickLaunch)
}

// isQuick is true where moreover nothing has to be waited for to launch the step.
func (s *step) isQuick() bool {
	if !s.executable.isQuick() || s.replicas > 0 {
		return false
	}
	for _, b := range s.arguments {
		if _, err, scheduled := b.Scheduled(); !scheduled || err != nil {
			return false
		}
	}
	return true
}

// WaitForRoom waits until fewer than RunAhead steps are queued or running. BLOCKING; without Core.Mu.
func (d *Device) WaitForRoom() {
	d.queueMu.Lock()
	defer d.queueMu.Unlock()
	if d.core.options.RunAhead <= 0 || d.unsettled < d.core.options.RunAhead {
		return
	}
	defer runAheadWaitTime.Since(time.Now())
	for d.unsettled >= d.core.options.RunAhead {
		d.progressed.Wait()
	}
}

// WaitIdle waits until every queued step has ended and let go of what it held. BLOCKING; without Core.Mu.
func (d *Device) WaitIdle() {
	d.queueMu.Lock()
	for d.unsettled > 0 {
		d.progressed.Wait()
	}
	d.queueMu.Unlock()
}

// work is the device's worker: it launches steps for the life of the process, in order but for those that wait
// for a compile.
func (d *Device) work() {
	for {
		d.queueMu.Lock()
		s := d.takeNext()
		for s == nil {
			d.queueChanged.Wait()
			s = d.takeNext()
		}
		d.queueMu.Unlock()
		d.run(s)
		d.queueMu.Lock()
		d.launching = nil
		d.queueMu.Unlock()
		d.progressed.Broadcast()
	}
}

// takeNext takes the first step whose program is compiled: the oldest as a rule. While that one waits for the
// compiler, a later step may go first where it needs nothing of the steps before it and reuses no memory that they
// read, but not one with collectives, which must come in the same order on all replicas. nil where every step has to wait.
// Under queueMu. Whoever takes it launches it and clears launching.
func (d *Device) takeNext() *step {
	if d.launching != nil {
		return nil
	}
	for i, s := range d.queue {
		if !s.executable.isDone() || i > 0 && (s.replicas > 0 || !s.hasArguments() || s.disturbs(d.queue[:i])) {
			continue
		}
		d.queue = slices.Delete(d.queue, i, i+1)
		d.launching = s
		return s
	}
	return nil
}

// hasArguments is true where every argument has been scheduled.
func (s *step) hasArguments() bool {
	for _, b := range s.arguments {
		if _, _, scheduled := b.Scheduled(); !scheduled {
			return false
		}
	}
	return true
}

// disturbs is true where s reuses memory that one of earlier reads.
func (s *step) disturbs(earlier []*step) bool {
	for _, donor := range s.executable.donors {
		if slices.Contains(s.withheld, donor.Parameter) {
			continue
		}
		for _, e := range earlier {
			if slices.Contains(e.arguments, s.arguments[donor.Parameter]) {
				return true
			}
		}
	}
	return false
}

func (d *Device) run(s *step) {
	if files := d.core.graphs.Load(); files != nil {
		files.saveResultShardings(s)
	}
	started := time.Now()
	data, launched, err := d.launch(s)
	s.executable.launchTime.Store(int64(time.Since(started)))
	unverified := s.dependsOnChecks()
	for i, out := range s.outputs {
		if unverified {
			out.AwaitVerification()
		}
		if err == nil {
			out.Fulfill(data[i])
		} else {
			out.Fail(err)
		}
	}
	if !launched {
		d.restore(s, err)
	}
	close(s.fence)
	// A small program has often ended by now; then nobody needs to be woken to see to its end.
	if err == nil && d.unended.Load() == 0 && (!s.watched || s.over.Load()) {
		if ready, failure := d.core.client.Readiness(data[s.kept]); ready && failure == nil && d.isChecked(s) {
			d.end(s)
			return
		}
	}
	d.unended.Add(1)
	d.endings.add(ending{s, launched, err})
}

// end closes the books of a step whose outputs are final.
func (d *Device) end(s *step) {
	d.verify(s)
	close(s.settled)
	d.release(s)
}

// settle waits for the steps' ends, in order, for the life of the process. A run that failed is
// run again output by output, so that exactly those that depend on the fault stay failed.
func (d *Device) settle() {
	for {
		e := d.endings.next()
		s, err := e.step, e.err
		if err == nil {
			err = d.await(s)
		}
		if err != nil && e.launched {
			if s.replicas == 0 && s.intact() {
				for _, out := range s.outputs { // who reads one before all is over would not hear of the failure
					out.AwaitVerification()
				}
				d.runApart(s)
			}
			if d.blame(s) == 0 { // all came right: the failure is told once all the same
				d.core.Mu.Lock()
				d.deferError(s, s.blameAll(err))
				d.core.Mu.Unlock()
			}
		}
		d.end(s)
		d.unended.Add(-1)
	}
}

// await waits for a launched step and gives the error that it failed with. The outputs of one run
// share its fate, so one of them answers for all.
func (d *Device) await(s *step) error {
	return d.failureOf(s.outputs[s.kept])
}

// failureOf waits until a value is computed and gives its error, nil where there is none or the value was donated to a
// later step, which runs after the one that makes it.
func (d *Device) failureOf(b *ir.Buffer) error {
	data, err := b.Wait()
	if err != nil || !data.HasValue() {
		return err
	}
	ready, err := d.core.client.Readiness(data)
	if !ready {
		ended := make(chan error, 1)
		if d.core.client.OnReadyCallback(data, func(err error) { ended <- err }) != nil {
			return nil // donated meanwhile
		}
		err = <-ended
	}
	if err != nil && !data.HasValue() {
		return nil // the same, of a shard after the first
	}
	return err
}

// launch hands the step to the client. launched is false where the client was never asked to run.
func (d *Device) launch(s *step) (outputs []client.Data, launched bool, err error) {
	e := s.executable
	arguments, pack, err := d.argumentsOf(s)
	if pack != nil {
		defer pack.Close()
	}
	switch {
	case s.replicas > 0:
		return d.launchReplica(s, arguments, err)
	case err != nil:
		return nil, false, err
	case e.partitioned:
		return d.launchPartitioned(s, arguments)
	}
	countExecute.Add(1)
	if trace := d.core.traced.Load(); trace != nil {
		trace.note(e)
	}
	options := client.ExecuteOptions{ExplodeTuple: true, NonDonatable: s.withheld, EagerMode: e.eager, OnEnd: d.watch(s)}
	outputs, err = d.core.client.ExecuteComputation(e.computation, arguments, d.name, options)
	outputs, err = s.takeChecked(outputs, err)
	return outputs, true, s.checkResults(outputs, err)
}

// argumentsOf gives the values that the step's program takes, and last, where it has scalars and is not partitioned, those as
// pack, which the caller closes.
func (d *Device) argumentsOf(s *step) (arguments []client.Data, pack client.Data, err error) {
	if s.executable.err != nil {
		return nil, nil, s.executable.err
	}
	arguments = make([]client.Data, 0, len(s.arguments)+1)
	for _, b := range s.arguments {
		data, err := b.Final()
		if err != nil {
			return nil, nil, err
		}
		arguments = append(arguments, data)
	}
	switch {
	case s.pack != nil:
		data, err := s.pack.onDevice(d)
		if err != nil {
			return nil, nil, err
		}
		arguments = append(arguments, data)
	case len(s.scalars) > 0 && !s.executable.partitioned:
		if pack, err = d.uploadScalars(s.scalars); err != nil {
			return nil, nil, err
		}
		arguments = append(arguments, pack)
	}
	return arguments, pack, nil
}

func (s *step) checkResults(outputs []client.Data, err error) error {
	if err == nil && len(outputs) != len(s.outputs) {
		return status.Errorf(status.Internal, "execute: the program has %d results, expected %d", len(outputs), len(s.outputs))
	}
	return err
}

// uploadScalars makes the one small transfer of a step. The scalars of a step share a u32 array.
func (d *Device) uploadScalars(pack []byte) (client.Data, error) {
	sources := []client.TensorSource{{Shape: shape.Make(dtype.U32, int64(len(pack)/4)), Device: d.name, Bytes: pack}}
	data, err := d.core.client.TransferToDevice(sources)
	if err != nil {
		return nil, err
	}
	return data[0], nil
}

// intact is true where every argument still has its value: no donor was consumed.
func (s *step) intact() bool {
	for _, b := range s.arguments {
		if data, err := b.Wait(); err != nil || !data.HasValue() {
			return false
		}
	}
	return true
}

// runApart runs the outputs of a failed step one by one. Their programs are parts of the step's
// own key, without donors.
func (d *Device) runApart(s *step) {
	if len(s.outputs) == 1 {
		return
	}
	program, err := ir.DecodeKey(s.executable.key)
	if err != nil {
		return // the outputs keep the step's error
	}
	program.SetStacks(s.stacks)
	offsets := scalarOffsets(program)
	for i, out := range s.outputs {
		if out.IsDropped() {
			continue
		}
		part, parameters, scalars := program.Only(i)
		if s.executable.partitioned {
			part.Shardings = s.executable.shardings[i : i+1] // its leaf is in keys with this one
		}
		computation, checks, _, err := d.core.build(part, d, nil, false)
		if err != nil {
			out.Replace(nil, err)
			continue
		}
		single := &step{device: d, number: s.number, stacks: part.Stacks(), outputs: s.outputs[i : i+1]}
		single.executable = &executable{key: part.AppendKey(nil), computation: computation, checks: checks, partitioned: s.executable.partitioned}
		for _, p := range parameters {
			single.arguments = append(single.arguments, s.arguments[p])
		}
		for _, k := range scalars {
			single.scalars = append(single.scalars, s.scalars[offsets[k]:offsets[k+1]]...)
		}
		if data, _, err := d.launch(single); err != nil {
			out.Replace(nil, err)
		} else {
			out.Replace(data[0], nil)
			d.verify(single)
		}
		single.dropChecked()
		computation.Close()
	}
}

// blame lets the outputs that are lost for good tell which operator failed: that of the first argument that was
// lost already, else the one that makes the output. It gives the number of outputs lost.
func (d *Device) blame(s *step) (lost int) {
	var cause error
	for _, b := range s.arguments {
		if cause = d.failureOf(b); cause != nil {
			break
		}
	}
	for _, out := range s.outputs {
		if out.IsDropped() {
			continue
		}
		if err := d.failureOf(out); err != nil {
			if cause != nil {
				err = cause
			}
			out.Replace(nil, out.Origin.Blame(err))
			lost++
		}
	}
	return lost
}

// blameAll adds to an error of the whole step which operators make its outputs.
func (s *step) blameAll(err error) error {
	program, failure := ir.DecodeKey(s.executable.key)
	if failure != nil {
		return err
	}
	program.SetStacks(s.stacks)
	return program.BlameAll(err)
}

// scalarOffsets gives the byte offset of each scalar in the pack, and the pack's length last.
func scalarOffsets(program *ir.Program) []int {
	offsets := []int{0}
	for _, n := range program.Nodes {
		if n.Kind == ir.KindScalar {
			offsets = append(offsets, offsets[len(offsets)-1]+4*ir.ScalarWords(n.Dtype))
		}
	}
	return offsets
}

// restore gives storages back the last good values that a step which was never launched had
// taken: those that still hold its placeholders read as before it. The error is raised once by
// the next cut or read.
func (d *Device) restore(s *step, err error) {
	d.core.Mu.Lock()
	defer d.core.Mu.Unlock()
	s.giveBack()
	for i, good := range s.lastGood {
		if good == nil {
			continue
		}
		// The root may be gone or overwritten by now; then it holds something else.
		if r := s.roots[i]; r.value != nil && r.value.Buffer == s.outputs[i] {
			r.Set(good)
			d.deferError(s, err)
		}
	}
}

// release lets go of all that the step held.
func (d *Device) release(s *step) {
	d.core.Mu.release(s.lastGood)
	if len(s.givenAway) > 0 {
		s.releaseGivenAway()
	}
	for _, b := range s.arguments {
		b.Release()
	}
	s.outputs[s.kept].Release()
	if s.pack != nil {
		s.pack.release()
	}
	d.queueMu.Lock()
	d.unsettled--
	d.queueMu.Unlock()
	d.progressed.Broadcast()
}
