package clienttest

import (
	"xla_go/gosrc/client"
	"xla_go/gosrc/status"
)

// coordinates joins a job of one process, once. That several processes find each other is tested with the
// coordinator itself.
func coordinates(t *T, c client.Client) {
	if c.CoordinatorInitialized() {
		t.Error("a coordinator before InitializeCoordinator")
	}
	_, err := c.GetCoordinator()
	wantCode(t, "GetCoordinator before InitializeCoordinator", err, status.FailedPrecondition, "InitializeCoordinator")
	wantCode(t, "rank 1 of 1", c.InitializeCoordinator(1, 1, "127.0.0.1", "0"), status.InvalidArgument, "rank")
	wantCode(t, "no address", c.InitializeCoordinator(0, 1, "", "0"), status.InvalidArgument, "address")
	if c.CoordinatorInitialized() {
		t.Error("a coordinator after InitializeCoordinator failed")
	}
	if err := c.InitializeCoordinator(0, 1, "127.0.0.1", "0"); err != nil {
		t.Fatal(err)
	}
	if !c.CoordinatorInitialized() {
		t.Error("no coordinator after InitializeCoordinator")
	}
	job, err := c.GetCoordinator()
	if err != nil || job.Rank() != 0 || job.WorldSize() != 1 {
		t.Errorf("GetCoordinator: %v, %v", job, err)
	}
	wantCode(t, "the second time", c.InitializeCoordinator(0, 1, "127.0.0.1", "0"), status.FailedPrecondition, "once")
}
