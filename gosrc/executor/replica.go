package executor

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"xla_go/gosrc/client"
	"xla_go/gosrc/ir"
	"xla_go/gosrc/metrics"
	"xla_go/gosrc/status"
)

var replicaWaitTime = metrics.Time("ReplicaWaitTime")

// replicas is where the devices of this process meet that run programs with collectives together.
//
// A step with collectives is one run over all of them. Each device's worker brings its step and waits; the last to come
// runs the program for all. So a replica that never comes, or brings another program, is found here, and raises on all,
// where a plugin would wait for ever or end the process.
type replicas struct {
	number atomic.Int32 // of devices, from the first on; 0 and 1 for none
	mu     sync.Mutex
	here   []*arrival // by device; nil for those that have not come
	gone   []error    // by device: why it comes no more
}

// arrival is a device's step that waits for those of the others.
type arrival struct {
	step      *step
	arguments []client.Data
	failure   error // why it cannot run, which the others are told

	met      chan struct{} // closed when the two below are set
	outputs  []client.Data
	launched bool
	err      error
}

func (r *replicas) count() int { return int(r.number.Load()) }

// SetReplicas has the first count devices run programs with collectives together from now on, each from a thread of its own;
// 0 ends that. A step that still waits for others fails. InvalidArgument for more than there are. Without Core.Mu.
func (c *Core) SetReplicas(count int) error {
	if count < 0 || count > len(c.devices) {
		return status.Errorf(status.InvalidArgument, "replicas: expected at most the %d devices of this process, got %d", len(c.devices), count)
	}
	r := &c.replicas
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failAll(status.Errorf(status.Aborted, "collective: the replicas ended while it waited for some of them"))
	r.here, r.gone = make([]*arrival, count), make([]error, count)
	r.number.Store(int32(count))
	return nil
}

// LeaveReplicas says that a device brings no more steps: those that wait for it now, or will, fail with the reason. Without
// Core.Mu.
func (c *Core) LeaveReplicas(device int, reason string) {
	r := &c.replicas
	r.mu.Lock()
	defer r.mu.Unlock()
	if device < len(r.gone) {
		r.gone[device] = status.Errorf(status.Aborted, "collective: replica %d takes part no more: %s", device, reason)
		r.checkGone()
	}
}

// checkGone fails all who wait for a device that does not come any more. Under mu.
func (r *replicas) checkGone() {
	for i, reason := range r.gone {
		if reason != nil && r.here[i] == nil {
			r.failAll(reason)
			return
		}
	}
}

// failAll gives everybody who has come an error. Under mu.
func (r *replicas) failAll(err error) {
	for i, a := range r.here {
		if a != nil {
			a.err, r.here[i] = err, nil
			close(a.met)
		}
	}
}

// missing tells which devices have not come. Under mu.
func (r *replicas) missing() string {
	var names []string
	for i, a := range r.here {
		if a == nil {
			names = append(names, fmt.Sprint(i))
		}
	}
	return strings.Join(names, ", ")
}

// launchReplica brings a device's step to the others' and gives its results. BLOCKING until all have come or the timeout is
// over. failure is why this one cannot run.
func (d *Device) launchReplica(s *step, arguments []client.Data, failure error) (outputs []client.Data, launched bool, err error) {
	a := &arrival{step: s, arguments: arguments, failure: failure, met: make(chan struct{})}
	r := &d.core.replicas
	r.mu.Lock()
	if d.Index >= len(r.here) {
		r.mu.Unlock()
		return nil, false, status.Errorf(status.FailedPrecondition, "collective: expected one of the %d replicas, device %d is none of them any more", len(r.here), d.Index)
	}
	r.here[d.Index] = a
	if !slices.Contains(r.here, nil) {
		all := slices.Clone(r.here)
		clear(r.here)
		r.mu.Unlock()
		d.core.runReplicas(all)
		return a.outputs, a.launched, a.err
	}
	r.checkGone()
	r.mu.Unlock()

	started := time.Now()
	defer replicaWaitTime.Since(started)
	timeout := time.NewTimer(d.core.options.ReplicaTimeout)
	defer timeout.Stop()
	select {
	case <-a.met:
	case <-timeout.C:
		r.mu.Lock()
		if d.Index < len(r.here) && r.here[d.Index] == a {
			r.failAll(status.Errorf(status.DeadlineExceeded, "collective: waited %v for replicas %s, which brought no step with collectives: expected every replica to make the same operator calls (XLA_GO_REPLICA_TIMEOUT sets the seconds)",
				d.core.options.ReplicaTimeout, r.missing()))
		}
		r.mu.Unlock()
		<-a.met
	}
	return a.outputs, a.launched, a.err
}

// runReplicas runs the steps of all replicas, in the order of their devices, as one program.
func (c *Core) runReplicas(all []*arrival) {
	outputs, launched, err := c.joinReplicas(all)
	for i, a := range all {
		a.launched, a.err = launched, err
		if a.failure != nil {
			a.err = a.failure
		}
		if err == nil {
			a.outputs, a.err = a.step.takeChecked(outputs[i], nil)
			a.err = a.step.checkResults(a.outputs, a.err)
		}
		close(a.met)
	}
}

// joinReplicas gives the results of each replica.
func (c *Core) joinReplicas(all []*arrival) (outputs [][]client.Data, launched bool, err error) {
	first := all[0].step // all run its program
	for i, a := range all {
		if a.failure != nil {
			return nil, false, status.Errorf(status.Aborted, "collective: replica %d cannot take part: %v", i, a.failure)
		}
		if !bytes.Equal(a.step.executable.key, first.executable.key) {
			return nil, false, status.Errorf(status.FailedPrecondition, "collective: replicas 0 and %d brought different programs: %s", i, differenceOfKeys(a.step.executable.key, first.executable.key))
		}
	}
	devices := c.client.GetLocalDevices()[:len(all)]
	arguments := make([]client.Data, len(all[0].arguments))
	defer func() {
		closeAll(slices.DeleteFunc(arguments, func(a client.Data) bool { return a == nil }))
	}()
	shards := make([]client.Data, len(all))
	for k := range arguments {
		for i, a := range all {
			shards[i] = a.arguments[k]
		}
		if arguments[k], err = c.client.WrapDataShards(shards, devices[0], shards[0].Shape(), &client.Sharding{}); err != nil {
			return nil, false, err
		}
	}
	var withheld []int
	for _, a := range all {
		withheld = append(withheld, a.step.withheld...)
		if a.step.executable != first.executable { // of other donors: what it may not consume is not known, but what it may
			withheld = slices.AppendSeq(withheld, missing(first.executable.donors, a.step.executable.donors))
		}
	}
	slices.Sort(withheld)
	countReplicated.Add(1)
	options := client.ExecuteOptions{ExplodeTuple: true, NonDonatable: slices.Compact(withheld), EagerMode: first.executable.eager}
	results, err := c.client.ExecuteReplicated(first.executable.computation, arguments, devices, options)
	if err != nil {
		return nil, true, err
	}
	outputs = make([][]client.Data, len(all))
	for _, result := range results {
		parts, failure := c.client.GetDataShards(result)
		result.Close()
		if failure == nil && len(parts) != len(all) {
			failure = status.Errorf(status.Internal, "collective: expected %d values of a result, got %d", len(all), len(parts))
			closeAll(parts)
		}
		if failure != nil {
			err = failure
			continue
		}
		for i, part := range parts {
			outputs[i] = append(outputs[i], part)
		}
	}
	if err != nil {
		for _, list := range outputs {
			closeAll(list)
		}
		return nil, true, err
	}
	return outputs, true, nil
}

func closeAll(list []client.Data) {
	for _, d := range list {
		d.Close()
	}
}

// differenceOfKeys tells how two programs differ.
func differenceOfKeys(key, known []byte) string {
	a, err := ir.DecodeKey(key)
	if err != nil {
		return err.Error()
	}
	b, err := ir.DecodeKey(known)
	if err != nil {
		return err.Error()
	}
	return difference(a, b)
}
