package pjrt

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"xla_go/gosrc/status"
	"xla_go/pjrt/testplugin"
)

// entryNames are the functions that can fail: of the table, of extensions and of the profiler.
func entryNames() []string {
	var names []string
	for _, row := range abiTable() {
		name := strings.TrimPrefix(row.Field, "PJRT_")
		switch {
		case row.Struct == "PJRT_Api" && strings.HasPrefix(row.Field, "PJRT_"):
			names = append(names, name)
		case strings.HasSuffix(row.Struct, "_Extension") && row.Struct != "PJRT_Profiler_Extension" || row.Struct == "PJRT_Gpu_Custom_Call":
			names = append(names, row.Field)
		}
	}
	for _, name := range []string{"create", "destroy", "start", "stop", "collect_data"} {
		names = append(names, "profiler."+name)
	}
	return names
}

// unused are functions that the scenario does not call, with the reason.
var unused = map[string]string{
	"Error_Destroy": "cannot fail", "Error_Message": "cannot fail", "Error_GetCode": "fails in TestErrorWithoutCode", "Error_ForEachPayload": "optional part of every error",
	"Plugin_Initialize": "fails in TestFailedStart", "Plugin_Attributes": "fails in TestFailedStart",
	"Event_Await": "blocks; fails in TestBlockingCalls", "Buffer_CopyToDevice": "used where Buffer_CopyToMemory is missing: TestOlderPlugin",
}

// tolerated are functions whose failure only makes an optional property unknown.
var tolerated = map[string]bool{
	"DeviceDescription_Attributes": true, "Device_LocalHardwareId": true, "Device_AddressableMemories": true, "Device_DefaultMemory": true,
	"Memory_Id": true, "Memory_Kind": true, "Executable_Name": true, "Buffer_IsDeleted": true, "Buffer_GetMemoryLayout": true, "Buffer_Memory": true,
}

func nothingAlive(t testing.TB, what string) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		left := fmt.Sprintf("%d buffers, %d executables, %d events, %d errors, %d callbacks, %d others", LiveBuffers(), LiveExecutables(), LiveEvents(), LiveErrors(), LiveCallbacks(), LiveOthers())
		if left == "0 buffers, 0 executables, 0 events, 0 errors, 0 callbacks, 0 others" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: still alive: %s", what, left)
		}
	}
}

// pluginHolds gives what the plugin itself counts as alive beside a fresh client.
func pluginHolds(t testing.TB, p *Plugin) map[string]any {
	t.Helper()
	c, err := p.NewClient(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	attributes, err := c.Devices()[0].CurrentAttributes()
	if err != nil {
		t.Fatal(err)
	}
	return attributes
}

func TestScenario(t *testing.T) {
	p := loadTestPlugin(t)
	before := pluginHolds(t, p)
	for _, options := range []map[string]any{nil, {"devices": 3}, {"delay_ms": 2}} {
		s := scenario{t: t, plugin: p, patience: 10 * time.Second}
		s.run(options)
		for _, err := range s.failures {
			t.Errorf("%v: %v", options, err)
		}
		nothingAlive(t, "after the scenario")
	}
	if after := pluginHolds(t, p); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("the plugin holds %v, before %v", after, before)
	}
}

// What is called while a plugin is loaded fails: only what the plugin says of itself is not needed.
func TestFailedStart(t *testing.T) {
	for code := status.Cancelled; code <= status.Unauthenticated; code++ {
		t.Setenv("TESTPLUGIN_OPTIONS", fmt.Sprintf("fail:Plugin_Initialize=%d", code))
		if _, err := Load(testplugin.Build(t)); status.CodeOf(err) != code || !strings.Contains(err.Error(), "could not be initialized") {
			t.Errorf("PJRT_Plugin_Initialize fails with %v: %v", code, err)
		}
		t.Setenv("TESTPLUGIN_OPTIONS", fmt.Sprintf("fail:Plugin_Attributes=%d", code))
		if p, err := Load(testplugin.Build(t)); err != nil || p.Attributes() != nil {
			t.Errorf("PJRT_Plugin_Attributes fails with %v: %v", code, err)
		}
	}
	t.Setenv("TESTPLUGIN_OPTIONS", "")
	want := map[string]any{"text": "a text", "number": int64(7), "numbers": []int64{1, 2, 3}, "fraction": float32(0.5), "flag": true}
	if got := loadTestPlugin(t).Attributes(); !reflect.DeepEqual(got, want) {
		t.Errorf("attributes %v, want %v", got, want)
	}
	nothingAlive(t, t.Name())
}

// Every function fails with every status code: an error with that code comes out, everything else
// goes on or is told to be impossible, and nothing is left behind on either side.
func TestFaultMatrix(t *testing.T) {
	p := loadTestPlugin(t)
	before := pluginHolds(t, p)
	for _, entry := range entryNames() {
		if unused[entry] != "" {
			continue
		}
		for code := status.Cancelled; code <= status.Unauthenticated; code++ {
			s := scenario{t: t, plugin: p, patience: 10 * time.Second}
			// The shapes of results are optional too, but only where the plugin says that it has none.
			s.unknown = tolerated[entry] || code == status.Unimplemented && (entry == "Executable_OutputElementTypes" || entry == "Executable_OutputDimensions")
			s.run(map[string]any{"fail:" + entry: int64(code)})
			what := fmt.Sprintf("%s fails with %v", entry, code)
			nothingAlive(t, what)
			found := false
			for _, err := range s.failures {
				var typed *status.Error
				if !errors.As(err, &typed) {
					t.Errorf("%s: %v is a %T", what, err, err)
				} else if typed.Code == code && strings.Contains(typed.Message, "the test asked") {
					found = true
				} else if typed.Code != status.FailedPrecondition && typed.Code != status.InvalidArgument && typed.Code != status.Cancelled {
					t.Errorf("%s: another failure, %v", what, err)
				}
			}
			if !found && !s.unknown {
				t.Errorf("%s: the failures are %v", what, s.failures)
			}
		}
		if after := pluginHolds(t, p); fmt.Sprint(after) != fmt.Sprint(before) {
			t.Fatalf("%s: the plugin holds %v, before %v", entry, after, before)
		}
	}
}

// asynchronous are the functions that start work which others wait for.
var asynchronous = []string{
	"Client_BufferFromHostBuffer", "LoadedExecutable_Execute", "Buffer_ToHostBuffer", "Buffer_CopyRawToHost", "Buffer_CopyRawToHostFuture", "Buffer_CopyToMemory",
	"Client_FulfillAliasBuffer", "AsyncHostToDeviceTransferManager_TransferData", "AsyncHostToDeviceTransferManager_TransferLiteral", "CopyToDeviceStream_AddChunk",
	"PJRT_RawBuffer_CopyRawHostToDevice", "PJRT_RawBuffer_CopyRawDeviceToHost", "PJRT_Transfers_PJRT_Client_CrossHostSendBuffers", "PJRT_Transfers_PJRT_Client_CrossHostReceiveBuffers",
	"PJRT_Transfers_PJRT_Buffer_CopyToRemoteDevice", "PJRT_Transfers_PJRT_Client_MakeCrossHostReceiveBuffers",
}

// The work fails with every status code after the call that started it succeeded.
func TestFailedOutcomes(t *testing.T) {
	p := loadTestPlugin(t)
	before := pluginHolds(t, p)
	for _, entry := range asynchronous {
		for code := status.Cancelled; code <= status.Unauthenticated; code++ {
			s := scenario{t: t, plugin: p, patience: 10 * time.Second}
			s.run(map[string]any{"outcome:" + entry: int64(code)})
			what := fmt.Sprintf("the work of %s ends with %v", entry, code)
			nothingAlive(t, what)
			if len(s.failures) == 0 {
				t.Errorf("%s, and nobody was told", what)
			}
			for _, err := range s.failures {
				if status.CodeOf(err) != code {
					t.Errorf("%s: %v", what, err)
				}
			}
		}
		if after := pluginHolds(t, p); fmt.Sprint(after) != fmt.Sprint(before) {
			t.Fatalf("%s: the plugin holds %v, before %v", entry, after, before)
		}
	}
}

// A call that takes its time changes nothing but the time.
func TestSlowCalls(t *testing.T) {
	p := loadTestPlugin(t)
	before := pluginHolds(t, p)
	for _, entry := range entryNames() {
		s := scenario{t: t, plugin: p, patience: 10 * time.Second}
		begin := time.Now()
		s.run(map[string]any{"slow:" + entry: 3})
		if took := time.Since(begin); took < 3*time.Millisecond && unused[entry] == "" {
			t.Errorf("%s takes its time, and all of it took %v", entry, took)
		}
		if len(s.failures) != 0 {
			t.Errorf("%s takes its time: %v", entry, s.failures)
		}
		nothingAlive(t, entry+" takes its time")
	}
	if after := pluginHolds(t, p); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("the plugin holds %v, before %v", after, before)
	}
}

// Work that comes late is waited for; work that never ends costs those who wait for it their
// patience, in words, and nothing else.
func TestLateAndNever(t *testing.T) {
	p := loadTestPlugin(t)
	before := pluginHolds(t, p)
	for _, entry := range asynchronous {
		s := scenario{t: t, plugin: p, patience: 10 * time.Second}
		s.run(map[string]any{"late:" + entry: 5})
		if len(s.failures) != 0 {
			t.Errorf("%s is late: %v", entry, s.failures)
		}
		nothingAlive(t, entry+" is late")

		s = scenario{t: t, plugin: p, patience: 10 * time.Millisecond}
		s.run(map[string]any{"never:" + entry: true})
		nothingAlive(t, entry+" never ends")
		if len(s.failures) == 0 {
			t.Errorf("%s never ends, and nobody was told", entry)
		}
		for _, err := range s.failures {
			if status.CodeOf(err) != status.DeadlineExceeded {
				t.Errorf("%s never ends: %v", entry, err)
			}
		}
	}
	if after := pluginHolds(t, p); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("the plugin holds %v, before %v", after, before)
	}
}
