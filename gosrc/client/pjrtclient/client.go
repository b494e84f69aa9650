// Package pjrtclient implements the client contract over a PJRT plugin, with one buffer for each
// device that an array lies on.
package pjrtclient

import (
	"xla_go/gosrc/client"
	"xla_go/gosrc/client/internal/platform"
	"xla_go/gosrc/client/internal/program"
)

// SPMDDevice is the virtual device of data that is sharded over all devices.
const SPMDDevice = platform.SPMDDevice

// Options say which plugin to use and how.
type Options = platform.Options

// Client is the contract over one PJRT client.
type Client struct {
	program.Compiler
	resharder program.Resharder
}

var _ client.Client = (*Client)(nil)

// New loads the plugin and makes a client of it. BLOCKING: the plugin takes its devices.
func New(options Options) (client.Client, error) {
	p, err := platform.New(options)
	if err != nil {
		return nil, err
	}
	return &Client{Compiler: program.Compiler{Platform: p}}, nil
}

// Close waits for running work and frees the client. Idempotent. FailedPrecondition while Data or
// Computations of it are open.
func (c *Client) Close() error {
	c.resharder.Close()
	return c.Platform.Close()
}
