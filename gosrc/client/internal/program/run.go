package program

import (
	"slices"

	"xla_go/gosrc/client"
	"xla_go/gosrc/client/internal/platform"
	"xla_go/gosrc/client/internal/sharding"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
	"xla_go/gosrc/wire"
)

// CheckRun checks what a run on one device is given, its arguments' number among it, and gives the device.
func (k *Program) CheckRun(arguments int, name string, options *client.ExecuteOptions) (*platform.Device, error) {
	if !options.ExplodeTuple {
		return nil, status.Errorf(status.InvalidArgument, "expected ExplodeTuple: PJRT always gives the elements of a root tuple")
	}
	on, err := k.platform.Addressable(name)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(k.devices, on) {
		return nil, status.Errorf(status.InvalidArgument, "expected one of the devices that it was compiled for (%v), got %s", k.Devices(), name)
	}
	return on, k.checkCount(arguments, options)
}

func (k *Program) checkCount(arguments int, options *client.ExecuteOptions) error {
	if k.parameters != nil && arguments != len(k.parameters) {
		return status.Errorf(status.InvalidArgument, "expected %d arguments, got %d", len(k.parameters), arguments)
	}
	for _, i := range options.NonDonatable {
		if i < 0 || i >= arguments {
			return status.Errorf(status.InvalidArgument, "expected arguments below %d in NonDonatable, got %d", arguments, i)
		}
	}
	return nil
}

// CheckReplicated checks what a run on several devices is given. It gives the devices in the order of
// execution and the place of each among the devices that were asked for.
func (k *Program) CheckReplicated(arguments int, devices []string, options *client.ExecuteOptions) (running []*platform.Device, order []int, err error) {
	if !options.ExplodeTuple {
		return nil, nil, status.Errorf(status.InvalidArgument, "expected ExplodeTuple: PJRT always gives the elements of a root tuple")
	}
	if err := k.checkCount(arguments, options); err != nil {
		return nil, nil, err
	}
	if len(devices) != len(k.Running) {
		return nil, nil, status.Errorf(status.InvalidArgument, "expected the %d local devices that it was compiled for, got %d", len(k.Running), len(devices))
	}
	order = make([]int, len(k.Running))
	for i, d := range k.Running {
		place := slices.Index(devices, d.Name)
		if place < 0 {
			return nil, nil, status.Errorf(status.InvalidArgument, "expected device %s among %v", d.Name, devices)
		}
		order[i] = place
	}
	return k.Running, order, nil
}

// CheckShape checks the shape of one argument.
func (k *Program) CheckShape(argument int, s *shape.Shape) error {
	if k.parameters != nil && !sameShape(s, &k.parameters[argument]) {
		return status.Errorf(status.InvalidArgument, "expected shape %s, got %s", k.parameters[argument], *s)
	}
	return nil
}

func sameShape(a, b *shape.Shape) bool {
	return a.Dtype == b.Dtype && slices.Equal(a.Dims, b.Dims)
}

var manual = &client.Sharding{OpSharding: wire.Varint(nil, 1, sharding.Manual)}

// OutputSharding gives the annotation of a result of a run on several devices: that of a program which is
// compiled as replicas says manual, since each device has a whole value of its own.
func (k *Program) OutputSharding(result int) *client.Sharding {
	if k.outputShardings != nil {
		return k.outputShardings[result]
	}
	return manual
}

// NumDevices counts the devices that it was compiled for.
func (k *Program) NumDevices() int { return len(k.devices) }

// DeviceList gives the devices that it was compiled for, not to be changed.
func (k *Program) DeviceList() []*platform.Device { return k.devices }
