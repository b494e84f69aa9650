package pjrtclient_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"xla_go/gosrc/client"
	"xla_go/gosrc/client/ifrtclient"
	"xla_go/gosrc/client/internal/plugintest"
	"xla_go/gosrc/client/pjrtclient"
	"xla_go/gosrc/coordinator"
	"xla_go/gosrc/status"
	"xla_go/pjrt/testplugin"
)

// startCoordinators makes the coordinators of a job in this process.
func startCoordinators(t *testing.T, ranks int) []*coordinator.Coordinator {
	t.Helper()
	options := coordinator.Options{WorldSize: ranks, Address: "127.0.0.1", Port: "0", ConnectTimeout: 20 * time.Second, ShutdownTimeout: 20 * time.Second}
	var job []*coordinator.Coordinator
	t.Cleanup(func() {
		for rank := len(job) - 1; rank >= 0; rank-- {
			if err := job[rank].Close(); err != nil {
				t.Error(err)
			}
		}
	})
	for options.Rank = range ranks {
		c, err := coordinator.Start(t.Context(), options)
		if err != nil {
			t.Fatal(err)
		}
		job = append(job, c)
		options.Token = c.Token()
		options.Port = c.Address()[strings.LastIndex(c.Address(), ":")+1:]
	}
	return job
}

// TestPluginFindsOthers: a plugin reaches the other processes' plugins through the coordinator, while
// its client is made.
func TestPluginFindsOthers(t *testing.T) {
	job := startCoordinators(t, 2)
	var group sync.WaitGroup
	for rank, c := range job {
		path := testplugin.BuildExchange(t)
		group.Go(func() {
			made, err := pjrtclient.New(pjrtclient.Options{
				PluginPath: path, Coordinator: c, CreateOptions: map[string]any{"rank": rank, "ranks": len(job), "timeout_ms": 20000},
			})
			if err != nil {
				t.Error(err)
				return
			}
			if got, want := made.GetPlatformVersion(), "at 0|at 1|;absent=5"; got != want {
				t.Errorf("rank %d found %q, want %q", rank, got, want)
			}
			if !made.CoordinatorInitialized() {
				t.Error("the client does not know its coordinator")
			}
			if err := made.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	for _, c := range job { // the clients have left them open, and their keys apart from others
		items, err := c.List(t.Context(), "")
		if err != nil || len(items) != 2 || items[0].Key != "pjrt:node/0" {
			t.Errorf("the store holds %v, %v", items, err)
		}
	}
}

// TestPluginIsToldOfADeadline: a rank that does not come is an error with the plugin's timeout.
func TestPluginIsToldOfADeadline(t *testing.T) {
	job := startCoordinators(t, 1)
	_, err := pjrtclient.New(pjrtclient.Options{
		PluginPath: testplugin.BuildExchange(t), Coordinator: job[0], CreateOptions: map[string]any{"rank": 0, "ranks": 2, "timeout_ms": 50},
	})
	if status.CodeOf(err) != status.DeadlineExceeded || !strings.Contains(err.Error(), "node/1") {
		t.Errorf("%v, want DeadlineExceeded with the key", err)
	}
}

func TestInitializeCoordinator(t *testing.T) {
	t.Setenv(coordinator.TokenVariable, "token-of-the-tests-0123")
	for name, construct := range map[string]plugintest.Construct{"pjrt": pjrtclient.New, "ifrt": ifrtclient.New} {
		t.Run(name, func(t *testing.T) { initializeCoordinator(t, construct) })
	}
}

func initializeCoordinator(t *testing.T, construct plugintest.Construct) {
	c, err := construct(pjrtclient.Options{PluginPath: testplugin.Build(t)})
	if err != nil {
		t.Fatal(err)
	}
	type coordinated interface {
		client.Client
		SetCoordinator(*coordinator.Coordinator) error
	}
	made := c.(coordinated)
	if _, err := made.GetCoordinator(); made.CoordinatorInitialized() || status.CodeOf(err) != status.FailedPrecondition {
		t.Errorf("a coordinator before it was initialized: %v", err)
	}
	other := startCoordinators(t, 1)[0]
	if err := made.SetCoordinator(other); err != nil || !made.CoordinatorInitialized() {
		t.Errorf("SetCoordinator: %v", err)
	}
	if err := made.SetCoordinator(other); status.CodeOf(err) != status.FailedPrecondition {
		t.Errorf("the second SetCoordinator: %v", err)
	}
	if err := made.SetCoordinator(nil); err != nil || made.CoordinatorInitialized() {
		t.Errorf("SetCoordinator(nil): %v", err)
	}
	if err := made.InitializeCoordinator(5, 2, "127.0.0.1", "0"); status.CodeOf(err) != status.InvalidArgument || made.CoordinatorInitialized() {
		t.Errorf("rank 5 of 2: %v", err)
	}
	if err := made.InitializeCoordinator(0, 1, "127.0.0.1", "0"); err != nil {
		t.Fatal(err)
	}
	if err := made.InitializeCoordinator(0, 1, "127.0.0.1", "0"); status.CodeOf(err) != status.FailedPrecondition || !made.CoordinatorInitialized() {
		t.Errorf("the second time: %v", err)
	}
	job, err := made.GetCoordinator()
	if err != nil {
		t.Fatal(err)
	}
	if err := job.Set(t.Context(), "key", []byte("value")); err != nil {
		t.Error(err)
	}
	if err := made.Close(); err != nil {
		t.Error(err)
	}
	if err := job.Set(t.Context(), "key", nil); status.CodeOf(err) != status.FailedPrecondition {
		t.Errorf("the client has left its coordinator open: %v", err)
	}
	if err := made.InitializeCoordinator(0, 1, "127.0.0.1", "0"); status.CodeOf(err) != status.FailedPrecondition {
		t.Errorf("a closed client: %v", err)
	}
}
