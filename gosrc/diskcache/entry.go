package diskcache

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"xla_go/gosrc/status"
)

// An entry's file: magic and version, key, SHA-256 of all that follows it, length of the description, length of
// the payload, description, payload. Numbers are little-endian. A new form gets a new magic.
const (
	magic       = "XLAGO\x00\x00\x01"
	keyAt       = len(magic)
	digestAt    = keyAt + len(Key{})
	lengthsAt   = digestAt + sha256.Size
	headerBytes = lengthsAt + 4 + 8
)

type entry struct {
	key         Key
	description string
	payload     []byte
}

func encode(key Key, description string, payload []byte) []byte {
	data := make([]byte, 0, headerBytes+len(description)+len(payload))
	data = append(data, magic...)
	data = append(data, key[:]...)
	data = append(data, make([]byte, sha256.Size)...)
	data = binary.LittleEndian.AppendUint32(data, uint32(len(description)))
	data = binary.LittleEndian.AppendUint64(data, uint64(len(payload)))
	data = append(data, description...)
	data = append(data, payload...)
	digest := sha256.Sum256(data[lengthsAt:])
	copy(data[digestAt:], digest[:])
	return data
}

// decode checks all of a file. The payload is part of data.
func decode(key Key, data []byte) (entry, error) {
	fail := func(why string) (entry, error) {
		return entry{}, status.Errorf(status.DataLoss, "cache: entry %s %s", key, why)
	}
	if len(data) < headerBytes {
		return fail("is cut off")
	}
	if string(data[:keyAt]) != magic {
		return fail("is of another kind or version")
	}
	if Key(data[keyAt:digestAt]) != key {
		return fail("has the key of another one")
	}
	description := uint64(binary.LittleEndian.Uint32(data[lengthsAt:]))
	payload := binary.LittleEndian.Uint64(data[lengthsAt+4:])
	rest := uint64(len(data) - headerBytes)
	if description > rest || payload != rest-description {
		return fail("is cut off")
	}
	if sha256.Sum256(data[lengthsAt:]) != [sha256.Size]byte(data[digestAt:lengthsAt]) {
		return fail("has changed: its checksum is wrong")
	}
	text := data[headerBytes : uint64(headerBytes)+description]
	return entry{key, string(text), data[uint64(headerBytes)+description:]}, nil
}

// Entry describes one entry for those who list the cache.
type Entry struct {
	Key         string    `json:"key"`
	Description string    `json:"description"`
	Bytes       int64     `json:"bytes"` // of the file
	LastUsed    time.Time `json:"last_used"`
	// Fault says what is wrong with the entry, "" where it is whole.
	Fault string `json:"fault"`
}

// Entries reads and checks every entry, the last used one first. It removes none. BLOCKING: reads all files.
func (c *Cache) Entries() ([]Entry, error) {
	files, err := c.files()
	if err != nil {
		return nil, err
	}
	slices.SortFunc(files, func(a, b file) int { return b.used.Compare(a.used) })
	entries := make([]Entry, 0, len(files))
	for _, f := range files {
		e := Entry{Key: strings.TrimSuffix(filepath.Base(f.path), suffix), Bytes: f.size, LastUsed: f.used}
		data, err := readFile(f.path)
		if os.IsNotExist(err) {
			continue // removed meanwhile
		}
		var read entry
		if err == nil {
			read, err = decode(parseKey(e.Key), data)
		}
		if err != nil {
			e.Fault = status.MessageOf(err)
		}
		e.Description = read.description
		entries = append(entries, e)
	}
	return entries, nil
}

// parseKey gives the key that a file's name stands for; the zero key, which no entry has, for other names.
func parseKey(name string) (key Key) {
	if decoded, err := hex.DecodeString(name); err == nil && len(decoded) == len(key) {
		key = Key(decoded)
	}
	return key
}

// Remove removes an entry, if there is one.
func (c *Cache) Remove(key Key) { c.remove(c.path(key)) }

// Clear removes every entry, and only the bad ones where onlyBad is set; it gives the number of those removed.
// BLOCKING: waits for writers.
func (c *Cache) Clear(onlyBad bool) (int, error) {
	if c.options.ReadOnly {
		return 0, status.Errorf(status.FailedPrecondition, "cache: expected a cache that can be written, %s is read only", c.options.Directory)
	}
	if _, err := os.Stat(c.options.Directory); os.IsNotExist(err) {
		return 0, nil
	}
	unlock, err := c.lock()
	if err != nil {
		return 0, err
	}
	defer unlock()
	c.removeAbandoned()
	entries, err := c.Entries()
	if err != nil {
		return 0, err
	}
	n := 0
	for _, e := range entries {
		if onlyBad && e.Fault == "" {
			continue
		}
		if err := os.Remove(filepath.Join(c.options.Directory, e.Key+suffix)); err != nil && !os.IsNotExist(err) {
			return n, status.Errorf(status.Unavailable, "cache: %v", err)
		}
		n++
	}
	return n, nil
}
