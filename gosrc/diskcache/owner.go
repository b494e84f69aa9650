package diskcache

import (
	"io"
	"os"

	"golang.org/x/sys/unix"

	"xla_go/gosrc/status"
)

// A compiled program is code of the host's processor: whoever writes it can do whatever its reader can. So what counts is
// who may have written it.

// checkOwner refuses what another user may have made or changed: PermissionDenied. root may do everything anyway.
func checkOwner(path string, uid, mode uint32) error {
	switch own := uint32(os.Geteuid()); {
	case uid != own && uid != 0:
		return status.Errorf(status.PermissionDenied, "cache: expected %s to belong to this user (%d) or to root, it belongs to user %d", path, own, uid)
	case mode&(unix.S_IWGRP|unix.S_IWOTH) != 0:
		return status.Errorf(status.PermissionDenied, "cache: expected %s to be writable by its owner alone, its mode is %04o: chmod go-w", path, mode&0o7777)
	}
	return nil
}

// CheckOwner refuses a directory that belongs to another user, or that others may write to: PermissionDenied. One that
// does not exist yet is none.
func (c *Cache) CheckOwner() error {
	var s unix.Stat_t
	switch err := unix.Stat(c.options.Directory, &s); err {
	case nil:
		if s.Mode&unix.S_IFMT != unix.S_IFDIR {
			return status.Errorf(status.FailedPrecondition, "cache: expected a directory at %s, got something of another kind", c.options.Directory)
		}
		return checkOwner(c.options.Directory, s.Uid, s.Mode)
	case unix.ENOENT:
		return nil
	default:
		return status.Errorf(status.Unavailable, "cache: %s: %v", c.options.Directory, err)
	}
}

// readFile reads a regular file that no other user may have written; it follows no link and waits for no pipe.
func readFile(path string) ([]byte, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var s unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &s); err != nil {
		return nil, err
	}
	if s.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, status.Errorf(status.DataLoss, "cache: expected a file at %s, got something of another kind", path)
	}
	if err := checkOwner(path, s.Uid, s.Mode); err != nil {
		return nil, err
	}
	data := make([]byte, s.Size)
	n, err := io.ReadFull(file, data)
	if err == io.ErrUnexpectedEOF || err == io.EOF {
		err = nil // cut off meanwhile: its checksum tells
	}
	return data[:n], err
}
