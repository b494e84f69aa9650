package bind

import "xla_go/gosrc/dispatch"

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
