package pjrtclient

import (
	"context"

	"xla_go/gosrc/coordinator"
	"xla_go/gosrc/status"
	"xla_go/pjrt"
)

// pluginKeys is the prefix of what the plugins of a job tell each other.
const pluginKeys = "pjrt:"

// createOptions are those that the plugin's client is made with besides its own.
func (o Options) createOptions() []pjrt.ClientOption {
	if o.Coordinator == nil {
		return nil
	}
	return []pjrt.ClientOption{pjrt.WithKeyValueStore(o.Coordinator.Store(pluginKeys))}
}

// InitializeCoordinator joins the job of worldSize processes whose rank 0 listens on address and port,
// with the token of the environment (coordinator.TokenVariable). It lasts until the client is closed. A
// plugin that shares its devices with other processes needs Options.Coordinator instead, since it asks
// for them while its client is made. BLOCKING until rank 0 answers.
//
// Errors: FailedPrecondition the second time, and those of coordinator.Start.
func (c *Client) InitializeCoordinator(rank, worldSize int, address, port string) error {
	if err := c.open(); err != nil {
		return err
	}
	c.coordinating.Lock()
	defer c.coordinating.Unlock()
	if known := c.coordinator.Load(); known != nil {
		return status.Errorf(status.FailedPrecondition, "InitializeCoordinator(): expected a client without a coordinator, got one with that of rank %d of %d: it can be initialized once",
			known.Rank(), known.WorldSize())
	}
	options, err := coordinator.FromEnvironment()
	if err != nil {
		return status.Annotate(err, "InitializeCoordinator()")
	}
	options.Rank, options.WorldSize, options.Address, options.Port = rank, worldSize, address, port
	started, err := coordinator.Start(context.Background(), options)
	if err != nil {
		return status.Annotate(err, "InitializeCoordinator()")
	}
	c.ownsCoordinator = true
	c.coordinator.Store(started)
	return nil
}

// SetCoordinator gives the client a coordinator that someone else has started and closes, or takes that
// one away (nil). FailedPrecondition where the client has another one. Not blocking.
func (c *Client) SetCoordinator(started *coordinator.Coordinator) error {
	c.coordinating.Lock()
	defer c.coordinating.Unlock()
	if c.ownsCoordinator || started != nil && c.coordinator.Load() != nil {
		return status.Errorf(status.FailedPrecondition, "SetCoordinator(): expected a client without a coordinator, got one that has one")
	}
	c.coordinator.Store(started)
	return nil
}

// CoordinatorInitialized says whether the client has a coordinator.
func (c *Client) CoordinatorInitialized() bool { return c.coordinator.Load() != nil }

// Coordinator gives the client's coordinator; FailedPrecondition where it has none. It is the client's
// to close if InitializeCoordinator made it.
func (c *Client) Coordinator() (*coordinator.Coordinator, error) {
	if known := c.coordinator.Load(); known != nil {
		return known, nil
	}
	return nil, status.Errorf(status.FailedPrecondition, "the coordinator has not been initialized: call InitializeCoordinator first")
}

// closeCoordinator leaves the job, where the client has joined it by itself.
func (c *Client) closeCoordinator() error {
	c.coordinating.Lock()
	defer c.coordinating.Unlock()
	if !c.ownsCoordinator {
		return nil
	}
	return c.coordinator.Load().Close()
}
