package platform

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
func (p *Platform) InitializeCoordinator(rank, worldSize int, address, port string) error {
	if err := p.Open(); err != nil {
		return err
	}
	p.coordinating.Lock()
	defer p.coordinating.Unlock()
	if known := p.coordinator.Load(); known != nil {
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
	p.ownsCoordinator = true
	p.coordinator.Store(started)
	return nil
}

// SetCoordinator gives the client a coordinator that someone else has started and closes, or takes that
// one away (nil). FailedPrecondition where the client has another one. Not blocking.
func (p *Platform) SetCoordinator(started *coordinator.Coordinator) error {
	p.coordinating.Lock()
	defer p.coordinating.Unlock()
	if p.ownsCoordinator || started != nil && p.coordinator.Load() != nil {
		return status.Errorf(status.FailedPrecondition, "SetCoordinator(): expected a client without a coordinator, got one that has one")
	}
	p.coordinator.Store(started)
	return nil
}

// CoordinatorInitialized says whether the client has a coordinator.
func (p *Platform) CoordinatorInitialized() bool { return p.coordinator.Load() != nil }

// GetCoordinator gives the client's coordinator; FailedPrecondition where it has none. It is the client's
// to close if InitializeCoordinator made it.
func (p *Platform) GetCoordinator() (*coordinator.Coordinator, error) {
	if known := p.coordinator.Load(); known != nil {
		return known, nil
	}
	return nil, status.Errorf(status.FailedPrecondition, "GetCoordinator(): the coordinator has not been initialized: call InitializeCoordinator first")
}

// closeCoordinator leaves the job, where the client has joined it by itself.
func (p *Platform) closeCoordinator() error {
	p.coordinating.Lock()
	defer p.coordinating.Unlock()
	if !p.ownsCoordinator {
		return nil
	}
	return p.coordinator.Load().Close()
}
