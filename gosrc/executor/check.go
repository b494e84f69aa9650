package executor

import (
	"encoding/binary"
	"time"

	"xla_go/gosrc/client"
	"xla_go/gosrc/ir"
	"xla_go/gosrc/metrics"
	"xla_go/gosrc/status"
)

var countFailedCheck = metrics.Counter("FailedCheck")

// checkedWords is the length of the output that tells which check of a program failed.
const checkedWords = 2

// takeChecked takes the last output of a program with checks out of outputs and keeps it for verify.
func (s *step) takeChecked(outputs []client.Data, err error) ([]client.Data, error) {
	if err != nil || len(s.executable.checks) == 0 {
		return outputs, err
	}
	last := len(outputs) - 1
	if last < 0 {
		return nil, status.Errorf(status.Internal, "execute: the program has no results, expected %d", len(s.outputs)+1)
	}
	s.checked = outputs[last]
	return outputs[:last], nil
}

// dependsOnChecks is true where a value of s must not be given to anybody before s has settled: a check of its own program
// may fail, or one of a step that it has its arguments from.
func (s *step) dependsOnChecks() bool {
	if len(s.executable.checks) > 0 {
		return true
	}
	for _, b := range s.arguments {
		if b.IsUnverified() {
			return true
		}
	}
	return false
}

// verify waits for the end of a launched step and keeps the error of its first failed check for the next cut or read.
// Outputs keep their values: what was to be written out of range was left out.
func (d *Device) verify(s *step) {
	if s.checked == nil {
		return
	}
	defer s.dropChecked()
	number, value, err := d.readChecked(s.checked)
	if err != nil { // the run failed, which its outputs tell
		return
	}
	if number < 0 || number >= int64(len(s.executable.checks)) {
		return
	}
	check := s.executable.checks[number]
	err = check.Error(value)
	if program, failure := ir.DecodeKey(s.executable.key); failure == nil {
		program.SetStacks(s.stacks)
		err = program.Blame(check.Node, err)
	}
	countFailedCheck.Add(1)
	d.core.Mu.Lock()
	defer d.core.Mu.Unlock()
	if len(d.deferredErrors.untold) == 0 { // the first one tells the cause of others
		d.deferError(s, err)
	}
}

func (s *step) dropChecked() {
	if s.checked != nil {
		s.checked.Close()
		s.checked = nil
	}
}

// isChecked is true where verify need not wait.
func (d *Device) isChecked(s *step) bool {
	if s.checked == nil {
		return true
	}
	ready, _ := d.core.client.Readiness(s.checked)
	return ready
}

// readChecked reads which check failed, negative for none, and the value that failed it. BLOCKING until the run has ended.
func (d *Device) readChecked(data client.Data) (number, value int64, err error) {
	c := d.core.client
	if data.Sharding() != nil {
		whole, err := c.GetDataShard(data, 0) // it is replicated
		if err != nil {
			return 0, 0, err
		}
		defer whole.Close()
		data = whole
	}
	literals, err := c.TransferFromDevice([]client.Data{data})
	if err != nil {
		return 0, 0, err
	}
	words := literals[0].Bytes
	if len(words) != 8*checkedWords {
		return 0, 0, status.Errorf(status.Internal, "execute: expected %d bytes that tell of failed checks, got %d", 8*checkedWords, len(words))
	}
	return int64(binary.LittleEndian.Uint64(words)), int64(binary.LittleEndian.Uint64(words[8:])), nil
}

// mayCheck is true where one of the nodes may ask for a check.
func mayCheck(order []*ir.Node) bool {
	for _, n := range order {
		if n.Kind.MayCheck() {
			return true
		}
	}
	return false
}

// AwaitChecks waits at most timeout and says whether the checks of the step are known to have held or failed; a failure is
// the deferred error of its device then. It waits for the compile, and for the run of a program that has checks. BLOCKING;
// without Core.Mu.
func (s *Step) AwaitChecks(timeout time.Duration) bool {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-s.s.executable.done:
	case <-timer.C:
		return false
	}
	if len(s.s.executable.checks) == 0 {
		return true
	}
	select {
	case <-s.s.settled:
		return true
	case <-timer.C:
		return false
	}
}

// TakeAwaited gives, once, the newest step where what it checks is to be told at once: in eager and in strict mode; nil
// where no operator of it may ask for checks. Under Core.Mu.
func (d *Device) TakeAwaited() *Step {
	s := d.awaited
	d.awaited = nil
	return s
}

// AwaitChecks waits for the checks of the newest step of each device, where these are to be told at once. The error is
// the deferred one of a device. BLOCKING; without Core.Mu.
func (c *Core) AwaitChecks() {
	for _, d := range c.devices {
		c.Mu.Lock()
		s := d.TakeAwaited()
		c.Mu.Unlock()
		for s != nil && !s.AwaitChecks(time.Hour) {
		}
	}
}
