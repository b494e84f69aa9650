package pjrt

// #include <stdlib.h>
// #include "key_value.h"
import "C"

import (
	"fmt"
	"math"
	"sync"
	"time"
	"unsafe"

	"xla_go/gosrc/status"
)

// KeyValueStore is what the processes of a job share: a plugin whose devices span several processes
// finds the others through it. The plugin calls it from threads of its own, several at once.
type KeyValueStore interface {
	// Get waits until the key has a value, at most for timeout, and gives it; DeadlineExceeded then.
	Get(key string, timeout time.Duration) ([]byte, error)
	// TryGet gives the value, NotFound at once where the key has none.
	TryGet(key string) ([]byte, error)
	// Put gives the key a value. It may keep value.
	Put(key string, value []byte) error
}

// ClientOption is what a client is made with besides the options of its plugin.
type ClientOption struct{ store KeyValueStore }

// WithKeyValueStore lets the plugin share information with the other processes of the job. The store
// is used until the client is closed.
func WithKeyValueStore(store KeyValueStore) ClientOption { return ClientOption{store} }

// stores are those in use, by the number that the plugin holds. Numbers are not used again, so that a
// plugin that calls too late gets an error.
var stores struct {
	sync.Mutex
	last uintptr
	open map[uintptr]KeyValueStore
}

func openStore(options []ClientOption) uintptr {
	var store KeyValueStore
	for _, o := range options {
		if o.store != nil {
			store = o.store
		}
	}
	if store == nil {
		return 0
	}
	stores.Lock()
	defer stores.Unlock()
	if stores.open == nil {
		stores.open = map[uintptr]KeyValueStore{}
	}
	stores.last++
	stores.open[stores.last] = store
	return stores.last
}

func closeStore(handle uintptr) {
	stores.Lock()
	defer stores.Unlock()
	delete(stores.open, handle)
}

// withStore runs a callback's work and lays its outcome out for C. Nothing may be thrown through the plugin.
func withStore(handle C.uintptr_t, result *C.xg_key_value_result, work func(KeyValueStore) ([]byte, error)) {
	value, err := func() (value []byte, err error) {
		defer func() {
			if cause := recover(); cause != nil {
				err = status.Errorf(status.Internal, "panic in the key-value store: %s", fmt.Sprint(cause))
			}
		}()
		stores.Lock()
		store := stores.open[uintptr(handle)]
		stores.Unlock()
		if store == nil {
			return nil, status.Errorf(status.FailedPrecondition, "the client that this key-value store served is closed")
		}
		return work(store)
	}()
	if err != nil {
		result.code = C.int(status.CodeOf(err))
		result.message, result.message_size = copyToC([]byte(status.MessageOf(err)))
		return
	}
	result.value, result.value_size = copyToC(value)
}

// copyToC gives memory of malloc, never NULL, with a NUL behind what is counted.
func copyToC(b []byte) (*C.char, C.size_t) {
	text := C.CBytes(append(b[:len(b):len(b)], 0))
	return (*C.char)(text), C.size_t(len(b))
}

// copyFromC copies any size; C.GoBytes ends at 2 GiB.
func copyFromC(data *C.char, size C.size_t) []byte {
	return append([]byte{}, unsafe.Slice((*byte)(unsafe.Pointer(data)), int(size))...)
}

// xgKeyValueGet is called by key_value.c on a thread of the plugin.
//
//export xgKeyValueGet
func xgKeyValueGet(store C.uintptr_t, key *C.char, keySize C.size_t, timeoutMs C.int, result *C.xg_key_value_result) {
	timeout := time.Duration(timeoutMs) * time.Millisecond
	if timeoutMs < 0 { // what is left of an endless time
		timeout = math.MaxInt64
	}
	withStore(store, result, func(s KeyValueStore) ([]byte, error) {
		return s.Get(string(copyFromC(key, keySize)), timeout)
	})
}

// xgKeyValueTryGet is called by key_value.c on a thread of the plugin.
//
//export xgKeyValueTryGet
func xgKeyValueTryGet(store C.uintptr_t, key *C.char, keySize C.size_t, result *C.xg_key_value_result) {
	withStore(store, result, func(s KeyValueStore) ([]byte, error) {
		return s.TryGet(string(copyFromC(key, keySize)))
	})
}

// xgKeyValuePut is called by key_value.c on a thread of the plugin.
//
//export xgKeyValuePut
func xgKeyValuePut(store C.uintptr_t, key *C.char, keySize C.size_t, value *C.char, valueSize C.size_t, result *C.xg_key_value_result) {
	withStore(store, result, func(s KeyValueStore) ([]byte, error) {
		return nil, s.Put(string(copyFromC(key, keySize)), copyFromC(value, valueSize))
	})
}
