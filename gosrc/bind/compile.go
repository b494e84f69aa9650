package bind

import (
	"encoding/json"
	"sync"

	"xla_go/gosrc/client"
	"xla_go/gosrc/client/current"
	"xla_go/gosrc/dispatch"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/status"
)

// compileRequest says how a program is compiled.
type compileRequest struct {
	// Format is "hlo" (a serialized HloModuleProto) or "mlir" (StableHLO text or bytecode).
	Format string `json:"format"`
	Name   string `json:"name"`
	// Devices are those to run on, none for the default device.
	Devices []string `json:"devices"`
	// Sharded makes one partitioned program of all devices, instead of a replica on each.
	Sharded bool `json:"sharded"`
	// PropagateToOutputs lets the compiler choose the shardings of results that have none.
	PropagateToOutputs bool `json:"propagate_to_outputs"`
	// TupledParameters: the program has one tuple as its parameter.
	TupledParameters bool `json:"tupled_parameters"`
}

// newComputation is a computation that is being made, on a goroutine of its own.
type newComputation struct {
	*pendingWait
	mutex       sync.Mutex
	computation client.Computation // nil before it is made and once it was taken
	ended       bool               // nobody will take it
}

// making counts computations that are being made.
var making = struct {
	sync.Mutex
	count int
	ended sync.Cond
}{}

func init() { making.ended.L = &making }

var newComputations = dispatch.NewHandles[*newComputation]("compile")

// begin gives the token of a computation that make makes.
func begin(make func() (client.Computation, error)) int64 {
	n := &newComputation{pendingWait: newWait()}
	making.Lock()
	making.count++
	making.Unlock()
	go func() {
		defer func() {
			making.Lock()
			making.count--
			making.Unlock()
			making.ended.Broadcast()
		}()
		var computation client.Computation
		var failure error
		defer func() {
			n.mutex.Lock()
			if n.ended && computation != nil {
				computation.Close()
			} else {
				n.computation = computation
			}
			n.mutex.Unlock()
			n.finish(failure)
		}()
		defer guard(&failure)
		computation, failure = make()
	}()
	return newComputations.Add(n)
}

// CompileBegin starts to compile a program and gives a token: ComputationWait until it says true,
// ComputationTake, ComputationEnd. The program lies at address with that length and is copied; request is a
// JSON object (compileRequest). Not blocking.
func CompileBegin(address, length int64, request string) (token int64, err error) {
	defer guard(&err)
	c, err := current.Get()
	if err != nil {
		return 0, err
	}
	var r compileRequest
	if err := json.Unmarshal([]byte(request), &r); err != nil {
		return 0, status.Errorf(status.InvalidArgument, "CompileBegin(): expected a JSON object, got %v", err)
	}
	if len(r.Devices) == 0 {
		r.Devices = []string{c.GetDefaultDevice()}
	}
	instance := client.CompileInstance{
		Name: r.Name, CompilationDevice: r.Devices[0], Devices: r.Devices, IsSharded: r.Sharded,
		AllowSPMDShardingPropagationToOutput: r.PropagateToOutputs, ParameterIsTupledArguments: r.TupledParameters,
	}
	switch program := dispatch.CopyFrom(uintptr(address), int(length)); r.Format {
	case "hlo":
		if err := hlo.CheckSignature("compile", program); err != nil {
			return 0, err
		}
		instance.HLO = program
	case "mlir":
		instance.MLIR = program
	default:
		return 0, status.Errorf(status.InvalidArgument, "CompileBegin(): expected format hlo or mlir, got %q", r.Format)
	}
	return begin(func() (client.Computation, error) {
		computations, err := c.Compile([]client.CompileInstance{instance})
		if err != nil {
			return nil, err
		}
		return computations[0], nil
	}), nil
}

// DeserializeBegin starts to load what SerializeComputation gave and gives a token, as CompileBegin. devices are
// those to run on, one a line, none for those that it was compiled for. Not blocking.
func DeserializeBegin(address, length int64, devices string) (token int64, err error) {
	defer guard(&err)
	c, err := current.Get()
	if err != nil {
		return 0, err
	}
	serialized := dispatch.CopyFrom(uintptr(address), int(length))
	return begin(func() (client.Computation, error) { return c.DeserializeComputation(serialized, split(devices)) }), nil
}

// CompilesWaitBegin gives a token to wait until no compile goes on, of a step's program or of one that CompileBegin or
// DeserializeBegin was given, whether or not somebody waits for it. Not blocking.
func CompilesWaitBegin() (token int64, err error) {
	defer guard(&err)
	return waitFor(func() error {
		if space := dispatch.Space(); space != nil {
			space.Core.WaitCompiled()
		}
		making.Lock()
		defer making.Unlock()
		for making.count > 0 {
			making.ended.Wait()
		}
		return nil
	}), nil
}

// ComputationWait waits at most that many milliseconds and says whether the computation has been made; the error is
// that of making it. BLOCKING for one slice.
func ComputationWait(token, milliseconds int64) (over bool, err error) {
	defer guard(&err)
	n, err := newComputations.Get(token)
	if err != nil {
		return false, err
	}
	return n.wait(milliseconds)
}

// ComputationTake gives the handle of a computation that has been made, to be closed with CloseComputation.
func ComputationTake(token int64) (handle int64, err error) {
	defer guard(&err)
	n, err := newComputations.Get(token)
	if err != nil {
		return 0, err
	}
	n.mutex.Lock()
	defer n.mutex.Unlock()
	if n.computation == nil {
		return 0, status.Errorf(status.FailedPrecondition, "ComputationTake(): expected a computation that has been made and not taken")
	}
	handle = dispatch.AddComputation(n.computation)
	n.computation = nil
	return handle, nil
}

// ComputationEnd gives a token back; a computation that nobody took is closed, once it has been made. Idempotent.
func ComputationEnd(token int64) (ended bool, err error) {
	defer guard(&err)
	n, ok := newComputations.Remove(token)
	if !ok {
		return false, nil
	}
	n.mutex.Lock()
	defer n.mutex.Unlock()
	n.ended = true
	if n.computation != nil {
		n.computation.Close()
		n.computation = nil
	}
	return true, nil
}
