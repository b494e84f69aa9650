package bind

import (
	"xla_go/gosrc/diskcache"
	"xla_go/gosrc/dispatch"
	"xla_go/gosrc/executor"
)

// CacheFlushBegin gives a token to wait until all compiled programs are in the persistent cache. Not blocking.
func CacheFlushBegin() (token int64, err error) {
	defer guard(&err)
	return waitForCore((*executor.Core).FlushCache), nil
}

// CacheEntries describes every entry of a persistent cache as a JSON list of objects: key, description, bytes,
// last_used, fault ("" where the entry is whole). BLOCKING: reads all of it.
func CacheEntries(directory string) (text string, err error) {
	defer guard(&err)
	cache, err := diskcache.Open(diskcache.Options{Directory: directory, ReadOnly: true})
	if err != nil {
		return "", err
	}
	entries, err := cache.Entries()
	if err != nil {
		return "", err
	}
	return encode(entries)
}

// CacheClear removes every entry of a persistent cache, or those that are not whole, and counts them. BLOCKING: waits
// for other processes' writes.
func CacheClear(directory string, onlyBad bool) (removed int64, err error) {
	defer guard(&err)
	cache, err := diskcache.Open(diskcache.Options{Directory: directory})
	if err != nil {
		return 0, err
	}
	n, err := cache.Clear(onlyBad)
	return int64(n), err
}

// CacheDirectory gives the directory in which this environment keeps compiled programs, "" for none.
func CacheDirectory() (directory string, err error) {
	defer guard(&err)
	return dispatch.CacheDirectory(), nil
}
