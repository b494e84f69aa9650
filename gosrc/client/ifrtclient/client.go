// Package ifrtclient implements the client contract over a PJRT plugin in IFRT's model: an array is one
// value that lies on a list of devices and carries its own sharding and memory kind. An array on one
// device is an array like any other, with a sharding to that device.
//
// Arrays are taken apart, put together and laid out otherwise without touching their elements (Remap,
// Assemble, Disassemble), with copy semantics that the caller names; ReshardData moves elements between
// devices with a program that is compiled once.
package ifrtclient

import (
	"xla_go/gosrc/client"
	"xla_go/gosrc/client/internal/platform"
	"xla_go/gosrc/client/internal/program"
)

// SPMDDevice is the virtual device of arrays that are sharded.
const SPMDDevice = platform.SPMDDevice

// Options say which plugin to use and how.
type Options = platform.Options

// Client is the contract over one PJRT client.
type Client struct {
	program.Compiler
	resharder program.Resharder
	alone     map[*platform.Device]*deviceList // of arrays on one device
}

var _ client.Client = (*Client)(nil)

// New loads the plugin and makes a client of it. BLOCKING: the plugin takes its devices.
func New(options Options) (client.Client, error) {
	p, err := platform.New(options)
	if err != nil {
		return nil, err
	}
	c := &Client{Compiler: program.Compiler{Platform: p}, alone: map[*platform.Device]*deviceList{}}
	for _, d := range p.Local {
		c.alone[d] = &deviceList{all: []*platform.Device{d}, local: []*platform.Device{d}, partitions: []int{0}}
	}
	return c, nil
}

// Close waits for running work and frees the client. Idempotent. FailedPrecondition while Data or
// Computations of it are open.
func (c *Client) Close() error {
	c.resharder.Close()
	return c.Platform.Close()
}
