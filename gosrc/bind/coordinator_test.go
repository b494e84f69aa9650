package bind

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"xla_go/gosrc/status"
)

// request makes a call as Python does, and gives its result.
func request(t *testing.T, fields map[string]any) (coordinatorReply, error) {
	t.Helper()
	text, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	token, err := CoordinatorBegin(string(text))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if ended, err := CoordinatorEnd(token); !ended || err != nil {
			t.Errorf("CoordinatorEnd = %v, %v", ended, err)
		}
		if ended, _ := CoordinatorEnd(token); ended {
			t.Error("a call ended twice")
		}
	}()
	for over := false; !over; {
		if over, err = CoordinatorWait(token, 5); err != nil {
			return coordinatorReply{}, err
		}
	}
	result, err := CoordinatorResult(token)
	if err != nil {
		t.Fatal(err)
	}
	var reply coordinatorReply
	if err := json.Unmarshal([]byte(result), &reply); err != nil {
		t.Fatal(err)
	}
	return reply, nil
}

func TestCoordinatorCalls(t *testing.T) {
	must := func(fields map[string]any) coordinatorReply {
		t.Helper()
		reply, err := request(t, fields)
		if err != nil {
			t.Fatal(err)
		}
		return reply
	}
	fails := func(code status.Code, fields map[string]any) {
		t.Helper()
		if _, err := request(t, fields); status.CodeOf(err) != code {
			t.Errorf("%v: %v, want %v", fields, err, code)
		}
	}
	start := map[string]any{"call": "initialize", "variables": map[string]string{"MASTER_ADDR": "127.0.0.1"}, "rank": 0, "world_size": 1, "port": 0}
	fails(status.FailedPrecondition, map[string]any{"call": "try_get", "key": "a"})
	must(map[string]any{"call": "close"}) // nothing to close
	if there, err := CoordinatorCheck(); there || err != nil {
		t.Errorf("CoordinatorCheck = %v, %v", there, err)
	}
	made := must(start)
	if made.WorldSize != 1 || !strings.HasPrefix(made.Address, "127.0.0.1:") || len(made.Token) < 16 {
		t.Errorf("initialize gives %+v", made)
	}
	fails(status.FailedPrecondition, start)
	if there, err := CoordinatorCheck(); !there || err != nil {
		t.Errorf("CoordinatorCheck = %v, %v", there, err)
	}
	must(map[string]any{"call": "set", "key": "a\x00b", "value": []byte("\x00\xff")})
	if got := must(map[string]any{"call": "get", "key": "a\x00b", "timeout": 5}); string(got.Value) != "\x00\xff" {
		t.Errorf("get = %q", got.Value)
	}
	if got := must(map[string]any{"call": "list", "key": "a"}); len(got.Keys) != 1 || string(got.Keys[0]) != "a\x00b" || string(got.Values[0]) != "\x00\xff" {
		t.Errorf("list = %+v", got)
	}
	must(map[string]any{"call": "barrier", "key": "alone", "timeout": 5})
	must(map[string]any{"call": "delete", "key": "a\x00b"})
	fails(status.NotFound, map[string]any{"call": "try_get", "key": "a\x00b"})
	fails(status.DeadlineExceeded, map[string]any{"call": "get", "key": "never", "timeout": 0.02})
	fails(status.InvalidArgument, map[string]any{"call": "get", "key": "never", "timeout": -1})
	fails(status.InvalidArgument, map[string]any{"call": "sing"})

	// What is given up ends.
	token, err := CoordinatorBegin(`{"call": "get", "key": "never", "timeout": 1e9}`)
	if err != nil {
		t.Fatal(err)
	}
	call, err := coordinatorCalls.Get(token)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := CoordinatorResult(token); status.CodeOf(err) != status.FailedPrecondition {
		t.Errorf("the result of a call that is not over: %v", err)
	}
	if _, err := CoordinatorEnd(token); err != nil {
		t.Error(err)
	}
	select {
	case <-call.done:
		if status.CodeOf(call.err) != status.Cancelled {
			t.Errorf("a call that was given up: %v", call.err)
		}
	case <-time.After(20 * time.Second):
		t.Error("a call that was given up goes on")
	}
	must(map[string]any{"call": "close"})
	fails(status.FailedPrecondition, map[string]any{"call": "describe"})
	if n := coordinatorCalls.Count(); n != 0 {
		t.Errorf("%d calls are still held", n)
	}
	if _, err := CoordinatorBegin("{"); status.CodeOf(err) != status.InvalidArgument {
		t.Errorf("no JSON: %v", err)
	}
}
