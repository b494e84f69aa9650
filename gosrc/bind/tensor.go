package bind

import (
	"xla_go/gosrc/dispatch"
	"xla_go/gosrc/ir"
	"xla_go/gosrc/status"
)

// LendTensorBegin gives the token of a read of a tensor's storage: wait as for a read, then LendTensor, or
// cancel the read. storage is its id. Not blocking.
func LendTensorBegin(storage int64) (token int64, err error) {
	defer guard(&err)
	return dispatch.LendBegin(storage)
}

// LendTensor lends the device memory of a storage whose read is over, as AcquireReference does.
func LendTensor(token int64) (text string, err error) {
	defer guard(&err)
	reference, err := dispatch.LendFinish(token)
	if err != nil {
		return "", err
	}
	return encode(describeReference(reference))
}

// AdoptData makes data the value of a tensor's storage, which it must fill; the data's handle is closed. Not blocking.
func AdoptData(storage, data int64) (ok bool, err error) {
	defer guard(&err)
	err = dispatch.Adopt(storage, data)
	return err == nil, err
}

// ShareData gives the handle of data that share the memory of a storage's value, which has been queued. Not blocking.
func ShareData(storage int64) (handle int64, err error) {
	defer guard(&err)
	return dispatch.ShareData(storage)
}

// SetBufferDonation asks, or asks no more, that the step which reads a storage's value last reuses its memory; with release
// the next one that reads it does, and storages lose the value to that. false where the storage has no value in device memory, or
// on its way there. Not blocking.
func SetBufferDonation(storage int64, donate, release bool) (ok bool, err error) {
	defer guard(&err)
	err = withBuffer("SetBufferDonation", storage, func(b *ir.Buffer) {
		if donate && release {
			b.GiveUp()
		} else {
			b.RequestDonation(donate)
		}
		ok = !b.IsGivenAway()
	})
	return ok, err
}

// BufferDonation is true where SetBufferDonation has asked for it and the storage still holds that value. Not blocking.
func BufferDonation(storage int64) (requested bool, err error) {
	defer guard(&err)
	err = withBuffer("BufferDonation", storage, func(b *ir.Buffer) { requested = b.DonationRequested() })
	return requested, err
}

// StorageState tells what a storage holds: "value", computed or queued; "host", a value whose transfer is put off until somebody
// asks for it, or says how it lies; "placeholder", where there is none yet or no more; "deleted", where a step has reused its memory
// as it was told to;
// "pending", what a graph has still to compute, which is also that of a storage nobody has written to. Not blocking.
func StorageState(storage int64) (state string, err error) {
	defer guard(&err)
	state = "pending"
	err = withBuffer("StorageState", storage, func(b *ir.Buffer) {
		state = "value"
		if b.IsGivenAway() {
			state = "deleted"
		} else if b.IsDeferred() {
			state = "host"
		} else if data, err, scheduled := b.Scheduled(); scheduled && err == nil && !data.HasValue() {
			state = "placeholder"
		}
	})
	return state, err
}

// ValueNumber gives a number of the value in device memory that a storage holds, which no other value has; 0 where it holds none.
// Not blocking.
func ValueNumber(storage int64) (number int64, err error) {
	defer guard(&err)
	err = withBuffer("ValueNumber", storage, func(b *ir.Buffer) { number = b.Number() })
	return number, err
}

// SharesValue is true where two storages hold one value in device memory. Not blocking.
func SharesValue(storage, other int64) (same bool, err error) {
	defer guard(&err)
	err = withBuffer("SharesValue", storage, func(b *ir.Buffer) {
		value, err := dispatch.Space().ValueOf(other)
		same = err == nil && value.IsLeaf() && value.Buffer == b
	})
	return same, err
}

// withBuffer calls f with the device value that a storage holds; not at all where it holds none.
func withBuffer(name string, storage int64, f func(b *ir.Buffer)) error {
	space := dispatch.Space()
	if space == nil {
		return status.Errorf(status.FailedPrecondition, "%s(): expected a tensor on device xla, there is none yet", name)
	}
	space.Core.Mu.Lock()
	defer space.Core.Mu.Unlock()
	if value, err := space.ValueOf(storage); err == nil && value.IsLeaf() {
		f(value.Buffer)
	}
	return nil
}
