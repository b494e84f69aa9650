package dispatch

/*
#include "xla_go_dispatch.h"
*/
import "C"

import (
	"sync/atomic"
	"unsafe"

	"xla_go/gosrc/env"
	"xla_go/gosrc/ir"
)

func recordsStacks() *int32 { return (*int32)(unsafe.Pointer(&C.xla_go_records_stacks)) }

// stacksWanted is what the environment says: each of the variables asks for all that stacks are shown in.
func stacksWanted() bool {
	for _, name := range []string{"XLA_GO_IR_DEBUG", "XLA_IR_DEBUG", "XLA_HLO_DEBUG"} {
		if env.Bool(name, false) {
			return true
		}
	}
	return false
}

// RecordStacks lets nodes made from now on tell which Python code made them, or ends that. It gives what was in force.
func RecordStacks(on bool) (was bool) {
	core := space.Core
	core.Mu.Lock()
	defer core.Mu.Unlock()
	value := int32(0)
	if on {
		value = 1
	}
	core.Graph.Stack = 0
	return atomic.SwapInt32(recordsStacks(), value) != 0
}

// noteStack gives the nodes of a call the calling thread's stack. Under Core.Mu, in each call that makes nodes.
func noteStack() {
	if atomic.LoadInt32(recordsStacks()) != 0 {
		space.Core.Graph.Stack = ir.Stack(C.xla_go_thread_stack())
	}
}
