package diskcache

import (
	"bytes"
	"testing"
)

// FuzzDecode: a file of any bytes is an entry, whole, or refused; nothing is read beyond it.
func FuzzDecode(f *testing.F) {
	key := Key{1, 2, 3}
	f.Add(encode(key, "a program", []byte("payload")))
	f.Add(encode(key, "", nil))
	f.Add(encode(Key{}, "of another key", nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := decode(key, data)
		if err == nil && !bytes.Equal(encode(e.key, e.description, e.payload), data) {
			t.Errorf("%d bytes were read as %+v, which is written otherwise", len(data), e)
		}
	})
}

// FuzzParseKey: a file in the cache's directory may have any name.
func FuzzParseKey(f *testing.F) {
	f.Add("00ff")
	f.Fuzz(func(_ *testing.T, name string) { parseKey(name) })
}
