package diskcache

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"xla_go/gosrc/status"
)

func open(t *testing.T, options Options) *Cache {
	t.Helper()
	if options.Directory == "" {
		options.Directory = filepath.Join(t.TempDir(), "programs [1]*")
	}
	c, err := Open(options)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func key(n int) Key { return Key{byte(n), byte(n >> 8), 7} }

func payload(n int) []byte { return bytes.Repeat([]byte(fmt.Sprintf("program %d;", n)), 50+n%7) }

func put(t *testing.T, c *Cache, n int) {
	t.Helper()
	if err := c.Put(key(n), fmt.Sprintf("number %d", n), payload(n)); err != nil {
		t.Fatal(err)
	}
}

func wantCode(t *testing.T, what string, err error, code status.Code) {
	t.Helper()
	if status.CodeOf(err) != code {
		t.Errorf("%s: %v, want code %v", what, err, code)
	}
}

func TestEntryComesBack(t *testing.T) {
	c := open(t, Options{})
	_, err := c.Get(key(1))
	wantCode(t, "before the first write", err, status.NotFound)
	if entries, err := c.Entries(); err != nil || len(entries) != 0 {
		t.Errorf("entries of a directory that is not there: %v, %v", entries, err)
	}
	put(t, c, 1)
	put(t, c, 2)
	if err := c.Put(key(3), "", nil); err != nil {
		t.Fatal(err)
	}
	for n, want := range map[int][]byte{1: payload(1), 2: payload(2), 3: {}} {
		if got, err := c.Get(key(n)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("entry %d: %d bytes, %v", n, len(got), err)
		}
	}
	put(t, c, 1) // again
	entries, err := c.Entries()
	if err != nil || len(entries) != 3 || entries[0].Description != "number 1" || entries[0].Fault != "" || entries[0].Key != key(1).String() {
		t.Errorf("entries: %+v, %v", entries, err)
	}
	c.Remove(key(2))
	_, err = c.Get(key(2))
	wantCode(t, "a removed one", err, status.NotFound)
	if n, err := c.Clear(true); n != 0 || err != nil {
		t.Errorf("clearing bad entries removed %d, %v", n, err)
	}
	if n, err := c.Clear(false); n != 2 || err != nil {
		t.Errorf("clearing removed %d, %v", n, err)
	}
}

// TestDamagedEntryIsAbsent: whatever happens to a file, it gives an error and goes, never other bytes.
func TestDamagedEntryIsAbsent(t *testing.T) {
	c := open(t, Options{})
	put(t, c, 1)
	whole, err := os.ReadFile(c.path(key(1)))
	if err != nil {
		t.Fatal(err)
	}
	check := func(what string, data []byte) {
		t.Helper()
		if err := os.WriteFile(c.path(key(1)), data, 0o600); err != nil {
			t.Fatal(err)
		}
		if entries, err := c.Entries(); err != nil || len(entries) != 1 || entries[0].Fault == "" {
			t.Errorf("%s: listed as %+v, %v", what, entries, err)
		}
		_, err := c.Get(key(1))
		wantCode(t, what, err, status.DataLoss)
		_, err = c.Get(key(1))
		wantCode(t, what+", the second time", err, status.NotFound)
	}
	for n := range whole {
		check(fmt.Sprintf("cut to %d bytes", n), whole[:n])
	}
	check("with a byte more", append(bytes.Clone(whole), 0))
	for i := range whole {
		changed := bytes.Clone(whole)
		changed[i] ^= 0x20
		check(fmt.Sprintf("byte %d changed", i), changed)
	}
	check("the entry of another key", encode(key(2), "", payload(1)))
	put(t, c, 1)
	if err := os.WriteFile(c.path(key(5)), []byte("rubbish"), 0o600); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Clear(true); n != 1 || err != nil {
		t.Errorf("clearing bad entries removed %d, %v", n, err)
	}
	if _, err := c.Get(key(1)); err != nil {
		t.Errorf("the good one: %v", err)
	}
}

// TestOldestUseGoesFirst: over the limit those entries go that were used longest ago, and a read is a use.
func TestOldestUseGoesFirst(t *testing.T) {
	size := int64(len(encode(key(0), "number 0", payload(0))))
	c := open(t, Options{Limit: 3*size + size/2})
	for n := range 3 {
		put(t, c, 7*n) // of one size
		at := time.Now().Add(time.Duration(n-100) * time.Second)
		if err := os.Chtimes(c.path(key(7*n)), at, at); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Get(key(0)); err != nil {
		t.Fatal(err)
	}
	put(t, c, 21)
	for n, want := range map[int]bool{0: true, 7: false, 14: true, 21: true} {
		if _, err := c.Get(key(n)); (err == nil) != want {
			t.Errorf("entry %d: %v, want it kept: %v", n, err, want)
		}
	}
	err := c.Put(key(1), "", make([]byte, 4*size))
	wantCode(t, "an entry over the limit", err, status.ResourceExhausted)
	if _, err := c.Get(key(21)); err != nil {
		t.Errorf("a refused entry cost another one: %v", err)
	}
}

func TestReadOnlyChangesNothing(t *testing.T) {
	c := open(t, Options{})
	put(t, c, 1)
	if err := os.WriteFile(c.path(key(2)), []byte("rubbish"), 0o600); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(c.path(key(1)), old, old); err != nil {
		t.Fatal(err)
	}
	reader := open(t, Options{Directory: c.Directory(), ReadOnly: true})
	if got, err := reader.Get(key(1)); err != nil || !bytes.Equal(got, payload(1)) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	_, err := reader.Get(key(2))
	wantCode(t, "a bad entry", err, status.DataLoss)
	wantCode(t, "Put", reader.Put(key(3), "", nil), status.FailedPrecondition)
	_, err = reader.Clear(false)
	wantCode(t, "Clear", err, status.FailedPrecondition)
	entries, err := c.Entries()
	if err != nil || len(entries) != 2 || time.Since(entries[0].LastUsed) < time.Minute && entries[0].Fault == "" {
		t.Errorf("a read-only cache changed the directory: %+v, %v", entries, err)
	}
}

func TestRelativeDirectoryIsRefused(t *testing.T) {
	_, err := Open(Options{Directory: "programs"})
	wantCode(t, "Open", err, status.InvalidArgument)
}

// TestOwner: what another user may have written is not read, and nothing is written where another user rules.
func TestOwner(t *testing.T) {
	c := open(t, Options{})
	wantCode(t, "a directory that is not there", c.CheckOwner(), status.OK)
	put(t, c, 1)
	file, directory := c.path(key(1)), c.Directory()
	for path, want := range map[string]os.FileMode{file: 0o600, directory: 0o700} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v, want %v", path, info.Mode(), err, want)
		}
	}
	refused := func(what string) {
		t.Helper()
		_, err := c.Get(key(1))
		wantCode(t, what, err, status.PermissionDenied)
		if entries, err := c.Entries(); err != nil || len(entries) != 1 || entries[0].Fault == "" {
			t.Errorf("%s: listed as %+v, %v", what, entries, err)
		}
	}
	for _, mode := range []os.FileMode{0o620, 0o602} {
		must(t, os.Chmod(file, mode))
		refused(mode.String())
	}
	must(t, os.Chmod(file, 0o644))
	if _, err := c.Get(key(1)); err != nil {
		t.Errorf("a file that others may read: %v", err)
	}
	must(t, os.Chmod(directory, 0o777))
	wantCode(t, "a directory that all may write to", c.CheckOwner(), status.PermissionDenied)
	wantCode(t, "Put there", c.Put(key(2), "", nil), status.PermissionDenied)
	must(t, os.Chmod(directory, 0o700))
	if os.Geteuid() == 0 { // only root gives files away
		must(t, os.Chown(file, 12345, 12345))
		refused("a file of another user")
		must(t, os.Chown(directory, 12345, 12345))
		wantCode(t, "a directory of another user", c.CheckOwner(), status.PermissionDenied)
		wantCode(t, "Put there", c.Put(key(2), "", nil), status.PermissionDenied)
	}
}

// TestOtherKindsOfFiles: a pipe is not waited for, and a link is not followed.
func TestOtherKindsOfFiles(t *testing.T) {
	c := open(t, Options{})
	put(t, c, 1)
	must(t, syscall.Mkfifo(c.path(key(2)), 0o600))
	_, err := c.Get(key(2))
	wantCode(t, "a pipe", err, status.DataLoss)
	must(t, os.Symlink(c.path(key(1)), c.path(key(3))))
	_, err = c.Get(key(3))
	wantCode(t, "a link", err, status.Unavailable)
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, nil, 0o600))
	wantCode(t, "a file instead of the directory", open(t, Options{Directory: file}).CheckOwner(), status.FailedPrecondition)
	wantCode(t, "Put there", open(t, Options{Directory: file}).Put(key(1), "", nil), status.Unavailable)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

const writerDirectory = "XLA_GO_TEST_CACHE_WRITER"

// TestMain makes a writer of this binary where a test has started it as one.
func TestMain(m *testing.M) {
	if directory := os.Getenv(writerDirectory); directory != "" {
		first, _ := strconv.Atoi(os.Args[1])
		last, _ := strconv.Atoi(os.Args[2])
		c, err := Open(Options{Directory: directory})
		for n := first; n < last && err == nil; n++ {
			err = c.Put(key(n), fmt.Sprintf("number %d", n), payload(n))
			fmt.Println(n) // the reader of a pipe knows how far it came
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func writer(t *testing.T, directory string, first, last int) *exec.Cmd {
	t.Helper()
	command := exec.Command(os.Args[0], strconv.Itoa(first), strconv.Itoa(last))
	command.Env = append(os.Environ(), writerDirectory+"="+directory)
	command.Stderr = os.Stderr
	return command
}

// TestKilledWriterLeavesNoBadEntry kills a writer at once 100 times, each time a little later in its work.
func TestKilledWriterLeavesNoBadEntry(t *testing.T) {
	c := open(t, Options{})
	kills := 100
	if testing.Short() {
		kills = 10
	}
	for i := range kills {
		command := writer(t, c.Directory(), 0, 1<<16-1)
		out, err := command.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Read(make([]byte, 1)); err != nil { // it has written one
			t.Fatal(err)
		}
		time.Sleep(time.Duration(i) * 37 * time.Microsecond)
		if err := command.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = command.Wait() // it was killed
	}
	entries, err := c.Entries()
	if err != nil || len(entries) == 0 {
		t.Fatalf("%d entries, %v", len(entries), err)
	}
	for _, e := range entries {
		if e.Fault != "" {
			t.Errorf("%s: %s", e.Description, e.Fault)
		}
	}
	put(t, c, 1)
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(c.Directory()), "*", "*"+temporary)); len(left) != 0 {
		t.Errorf("a later writer left %v", left)
	}
}

// TestWritersLoseNothing: two processes and two goroutines write at once, partly the same entries.
func TestWritersLoseNothing(t *testing.T) {
	c := open(t, Options{})
	first, second := writer(t, c.Directory(), 0, 60), writer(t, c.Directory(), 30, 90)
	for _, command := range []*exec.Cmd{first, second} {
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
	}
	done := make(chan error, 2)
	for range 2 {
		go func() {
			var err error
			for n := 80; n < 120 && err == nil; n++ {
				err = c.Put(key(n), "", payload(n))
			}
			done <- err
		}()
	}
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	for _, command := range []*exec.Cmd{first, second} {
		if err := command.Wait(); err != nil {
			t.Error(err)
		}
	}
	for n := range 120 {
		if got, err := c.Get(key(n)); err != nil || !bytes.Equal(got, payload(n)) {
			t.Errorf("entry %d: %v", n, err)
		}
	}
}
