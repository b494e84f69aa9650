package bind

import (
	"encoding/json"

	"xla_go/gosrc/dispatch"
	"xla_go/gosrc/executor"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ir"
	"xla_go/gosrc/status"
)

// AddStack keeps a stack of Python frames (see LocateCompiles) and gives the number under which set_stack of the
// table of functions takes it. Not blocking.
func AddStack(frames string) (number int64, err error) {
	defer guard(&err)
	stack, err := readFrames("AddStack", frames)
	if err != nil {
		return 0, err
	}
	return int64(ir.AddStack(stack)), nil
}

// RecordStacks lets operators called from now on tell which Python code called them, or ends that; it gives what was
// in force. False before the first device use.
func RecordStacks(on bool) (was bool, err error) {
	defer guard(&err)
	if dispatch.Space() == nil {
		return false, nil
	}
	return dispatch.RecordStacks(on), nil
}

// StackFrames is how many frames of a stack are kept.
func StackFrames() int64 { return int64(executor.Frames()) }

func readFrames(function, text string) (frames []hlo.Frame, err error) {
	if err := json.Unmarshal([]byte(text), &frames); err != nil {
		return nil, status.Errorf(status.InvalidArgument, "%s(): expected a JSON list of frames, got %v", function, err)
	}
	return frames, nil
}
