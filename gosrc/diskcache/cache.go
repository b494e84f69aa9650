// Package diskcache keeps byte strings in files by a 32-byte key, for all processes of a user: compiled programs
// that the next process need not compile again.
//
// An entry is written to a file of another name, flushed and renamed, so that a reader sees all of it or none,
// whenever a writer is killed. Readers take no lock. Writers take the directory's lock, one at a time over all
// processes; under it the entries that were used longest ago make room for a new one. Whatever is wrong with an
// entry (cut off, changed, of another key or version) it counts as absent and is removed.
//
// It does not rely on a file system that keeps access times: a hit sets the modification time.
package diskcache

import (
	"cmp"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"xla_go/gosrc/status"
)

// Key identifies an entry: a SHA-256 over all that decides its content.
type Key [32]byte

func (k Key) String() string { return hex.EncodeToString(k[:]) }

// Options of a cache.
type Options struct {
	// Directory holds the entries and nothing else. It is made with the first write.
	Directory string
	// Limit is the size in bytes that all entries together may have; 0 or less means no limit.
	Limit int64
	// ReadOnly never changes the directory, not even the time of an entry's last use.
	ReadOnly bool
}

// Cache is a directory of entries. Its methods may be called from several goroutines and processes at once.
type Cache struct{ options Options }

const (
	suffix    = ".entry"
	temporary = ".partial"
	lockName  = "lock"
)

// Open gives the cache of a directory, which need not exist yet. Touches nothing.
func Open(options Options) (*Cache, error) {
	if !filepath.IsAbs(options.Directory) {
		return nil, status.Errorf(status.InvalidArgument, "cache: expected an absolute path of a directory, got %q", options.Directory)
	}
	return &Cache{options: options}, nil
}

// Directory gives the path of the entries.
func (c *Cache) Directory() string { return c.options.Directory }

// ReadOnly says whether the cache writes nothing.
func (c *Cache) ReadOnly() bool { return c.options.ReadOnly }

func (c *Cache) path(key Key) string { return filepath.Join(c.options.Directory, key.String()+suffix) }

// Get gives the payload of an entry. NotFound where there is none; DataLoss where there was one that is not whole,
// which is removed; PermissionDenied where another user may have written it. BLOCKING: reads a file.
func (c *Cache) Get(key Key) ([]byte, error) {
	path := c.path(key)
	data, err := readFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, status.Errorf(status.NotFound, "cache: no entry %s", key)
	}
	if refusal := (*status.Error)(nil); errors.As(err, &refusal) {
		return nil, refusal
	}
	if err != nil {
		return nil, status.Errorf(status.Unavailable, "cache: %v", err)
	}
	e, err := decode(key, data)
	if err != nil {
		c.remove(path)
		return nil, err
	}
	c.touch(path)
	return e.payload, nil
}

// touch notes that an entry is used now. A file that was just written is touched too: the file system's own clock is
// coarser, and by it an entry that was read before would seem to be used later.
func (c *Cache) touch(path string) {
	if !c.options.ReadOnly {
		now := time.Now()
		_ = os.Chtimes(path, now, now) // only the order of removal depends on it
	}
}

// Put writes an entry and removes others where the limit asks for it. description is a line of text for those who
// list the cache. A payload over the limit is refused, and a directory of another user. BLOCKING: waits for other writers,
// and for the disk.
func (c *Cache) Put(key Key, description string, payload []byte) error {
	if c.options.ReadOnly {
		return status.Errorf(status.FailedPrecondition, "cache: expected a cache that can be written, %s is read only", c.options.Directory)
	}
	data := encode(key, description, payload)
	if c.options.Limit > 0 && int64(len(data)) > c.options.Limit {
		return status.Errorf(status.ResourceExhausted, "cache: an entry of %d bytes is over the cache's limit of %d", len(data), c.options.Limit)
	}
	if err := os.MkdirAll(c.options.Directory, 0o700); err != nil {
		return status.Errorf(status.Unavailable, "cache: %v", err)
	}
	if err := c.CheckOwner(); err != nil {
		return err
	}
	unlock, err := c.lock()
	if err != nil {
		return err
	}
	defer unlock()
	c.removeAbandoned()
	if err := writeWhole(c.path(key), data); err != nil {
		return status.Errorf(status.Unavailable, "cache: %v", err)
	}
	c.touch(c.path(key))
	return c.makeRoom(key)
}

// writeWhole writes a file so that after a crash at any time it is there with all its bytes or not at all.
func writeWhole(path string, data []byte) error {
	file, err := os.OpenFile(path+temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err == nil {
		err = file.Sync()
	}
	if closing := file.Close(); err == nil {
		err = closing
	}
	if err == nil {
		err = os.Rename(path+temporary, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(path+temporary))
	}
	directory, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer directory.Close()
	return directory.Sync()
}

// lock takes the directory's lock, which the kernel drops when its holder dies.
func (c *Cache) lock() (unlock func(), err error) {
	file, err := os.OpenFile(filepath.Join(c.options.Directory, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, status.Errorf(status.Unavailable, "cache: %v", err)
	}
	for {
		switch err := unix.Flock(int(file.Fd()), unix.LOCK_EX); err {
		case nil:
			return func() { file.Close() }, nil
		case unix.EINTR:
		default:
			file.Close()
			return nil, status.Errorf(status.Unavailable, "cache: lock of %s: %v", c.options.Directory, err)
		}
	}
}

// removeAbandoned removes what killed writers left. Under the lock, so that no writer is at work.
func (c *Cache) removeAbandoned() {
	left, _ := filepath.Glob(filepath.Join(escapeGlob(c.options.Directory), "*"+temporary))
	for _, path := range left {
		c.remove(path)
	}
}

func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(path)
}

func (c *Cache) remove(path string) {
	if !c.options.ReadOnly {
		_ = os.Remove(path) // one that stays is found bad again, or removed by the next
	}
}

// makeRoom removes entries, those used longest ago first, until the limit holds. Under the lock.
func (c *Cache) makeRoom(kept Key) error {
	if c.options.Limit <= 0 {
		return nil
	}
	files, err := c.files()
	if err != nil {
		return err
	}
	total := int64(0)
	for _, f := range files {
		total += f.size
	}
	slices.SortFunc(files, func(a, b file) int { return cmp.Or(a.used.Compare(b.used), strings.Compare(a.path, b.path)) })
	for _, f := range files {
		if total <= c.options.Limit {
			break
		}
		if f.path == c.path(kept) {
			continue
		}
		c.remove(f.path)
		total -= f.size
	}
	return nil
}

// file is an entry as the directory lists it.
type file struct {
	path string
	size int64
	used time.Time
}

func (c *Cache) files() ([]file, error) {
	listed, err := os.ReadDir(c.options.Directory)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, status.Errorf(status.Unavailable, "cache: %v", err)
	}
	var files []file
	for _, item := range listed {
		if !strings.HasSuffix(item.Name(), suffix) {
			continue
		}
		if info, err := item.Info(); err == nil && info.Mode().IsRegular() {
			files = append(files, file{filepath.Join(c.options.Directory, item.Name()), info.Size(), info.ModTime()})
		}
	}
	return files, nil
}
